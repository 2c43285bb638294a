"""What it takes to know later whether rows are still what they were: where bins should lie, and how many rows each holds.

Bins are chosen by a sample, so they are about equally full and no more than that. Counts are of every row, and exact. Columns
are read a few at a time, so that wide tables take no more memory than narrow ones.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from falaj.tables.bin_counts import count_bins
from falaj.tables.orders import Bins, Surveyed, TableToRead
from falaj.tables.querying import Querying
from falaj.tables.reading import batches, reader
from falaj.tables.short_texts import all_shortened, shortened
from falaj.tables.telling import heard_table

SLOT: Final = "_slot"
"""What rows are counted by apart, where they have it: a text."""

_COLUMNS: Final = 4  # read at a time
_ROWS: Final = 65_536
_SAMPLED: Final = 20_000


class Countable(Protocol):
    """Rows that can be read again and again, and come in the same order each time."""

    rows: int

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


class TableRows:
    """Of a version's sealed parts."""

    def __init__(self, table: TableToRead) -> None:
        self._table = table
        self.rows = sum(reader(part).rows for part in table.parts)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return batches(self._table, columns, rows=_ROWS)


class SlottedRows:
    """The same rows, with what an expression in SQL makes of each as its slot; those that it makes nothing of are left out."""

    def __init__(self, table: TableToRead, expression: str, *, memory_bytes: int, threads: int, seconds: float) -> None:
        self._table, self._expression, self._seconds = table, expression, seconds
        self._bounds = {"memory_bytes": memory_bytes, "threads": threads}
        self.rows = TableRows(table).rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = ", ".join(f"{self._expression} AS {SLOT}" if name == SLOT else _quoted(name) for name in columns)
        sql = f'SELECT {wanted} FROM "rows" WHERE {self._expression} IS NOT NULL'  # nosec B608 - quoted
        with Querying({"rows": self._table}, **self._bounds) as asked:
            yield from asked.batches(sql, seconds=self._seconds)[1]


class ParquetRows:
    """Of a plain file."""

    def __init__(self, file: str | Path) -> None:
        self._file = pq.ParquetFile(file, pre_buffer=False)
        self.rows: int = self._file.metadata.num_rows
        self.schema: pa.Schema = self._file.schema_arrow

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = self._file.iter_batches(_ROWS, columns=list(columns), use_threads=False)
        return found


def surveyed(
    source: Countable, names: Sequence[str], *, ranks: Sequence[float] = (), kinds: int = 0, sampled: int = 0
) -> dict[str, Surveyed]:
    """Quantiles at `ranks`, of which 0 and 1 are those of all rows, and so many kinds, and rows."""
    drawn = np.random.default_rng(0).permutation(np.unique(np.random.default_rng(1).integers(0, max(1, source.rows), _SAMPLED)))
    chosen, shown = np.sort(drawn), np.sort(drawn[:sampled])
    found = {}
    for some in _cut(names):
        parts: dict[str, list[pa.Array]] = {name: [] for name in some}
        ends = dict.fromkeys(some, (math.inf, -math.inf))
        begin = 0
        for batch in source.batches(some):
            places = pa.array(chosen[slice(*np.searchsorted(chosen, [begin, begin + batch.num_rows]))] - begin)
            begin += batch.num_rows
            for name in some:
                column = batch.column(name)
                parts[name].append(column.take(places))
                if not _is_text(column.type):
                    ends[name] = _wider(ends[name], _floats(column))
        of_shown = np.searchsorted(chosen, shown)
        for name in some:
            column = pa.chunked_array(parts[name]) if parts[name] else pa.chunked_array([pa.array([], pa.float64())])
            found[name] = _survey(column, ends[name], ranks, kinds, of_shown)
    return found


def _survey(
    column: pa.ChunkedArray, ends: tuple[float, float], ranks: Sequence[float], kinds: int, shown: NDArray[Any]
) -> Surveyed:
    if _is_text(column.type):
        texts = [shortened(text) if text else None for text in column.to_pylist()]
        seen = Counter(text for text in texts if text)
        common = sorted(seen, key=lambda text: (-seen[text], text))[:kinds]
        return Surveyed(kinds=tuple(common), sampled=tuple(texts[place] for place in shown))
    numbers = _floats(column.combine_chunks())
    there = numbers[np.isfinite(numbers)]
    told = tuple(float(one) if math.isfinite(one) else None for one in numbers[shown])
    if ends[0] > ends[1]:
        return Surveyed(sampled=told)
    inner = np.quantile(there, ranks, method="inverted_cdf") if len(there) else np.full(len(ranks), ends[0])
    quantiles = (ends[round(rank)] if rank in (0, 1) else float(one) for rank, one in zip(ranks, inner, strict=True))
    return Surveyed(quantiles=tuple(quantiles), sampled=told)


def counted(source: Countable, columns: Sequence[Bins], *, slotted: bool = False) -> dict[str, dict[str, list[int]]]:
    """By name and slot, which is an empty text where rows have none: of numbers as `count_bins` has it; of kinds each, all
    others, and what is missing, which an empty text is as well."""
    totals: dict[str, dict[str, NDArray[np.int64]]] = {column.name: {} for column in columns}
    for some in _cut(columns):
        for batch in source.batches([*([SLOT] if slotted else []), *(column.name for column in some)]):
            slots = batch.column(SLOT).dictionary_encode() if slotted else None
            for column in some:
                own = totals[column.name]
                for slot, counts in _by_slot(batch.column(column.name), column, slots):
                    own[slot] = own[slot] + counts if slot in own else counts
    return {name: {slot: counts.tolist() for slot, counts in own.items()} for name, own in totals.items()}


def _by_slot(column: pa.Array, by: Bins, slots: pa.DictionaryArray | None) -> Iterator[tuple[str, NDArray[np.int64]]]:
    bins = len(by.edges or by.kinds) + 2
    if slots is None:
        yield "", count_bins(_floats(column), by.edges) if by.edges else np.bincount(_places(column, by), minlength=bins)
        return
    among = _places(column, by) + slots.indices.to_numpy() * bins
    both = np.bincount(among, minlength=len(slots.dictionary) * bins).reshape(-1, bins)
    yield from zip(slots.dictionary.to_pylist(), both, strict=True)


def _places(column: pa.Array, by: Bins) -> NDArray[np.int64]:
    """The bin of each row."""
    if by.edges:
        numbers = _floats(column)
        return np.where(np.isnan(numbers), len(by.edges) + 1, np.searchsorted(by.edges, numbers, side="left"))
    known = pc.index_in(all_shortened(column), pa.array(by.kinds, column.type)).fill_null(len(by.kinds))
    missing = pc.fill_null(pc.equal(column, ""), fill_value=True)
    found: NDArray[np.int64] = pc.if_else(missing, len(by.kinds) + 1, known).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _floats(column: pa.Array) -> NDArray[Any]:
    """What is missing is no number. Single precision stays."""
    kept = column if pa.types.is_float32(column.type) else column.cast(pa.float64(), safe=False)
    found: NDArray[Any] = kept.to_numpy(zero_copy_only=False)
    return found


def _wider(ends: tuple[float, float], numbers: NDArray[Any]) -> tuple[float, float]:
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (math.inf, -math.inf)
    if not (math.isfinite(low) and math.isfinite(high)):
        there = numbers[np.isfinite(numbers)]
        low, high = (float(there.min()), float(there.max())) if len(there) else (math.inf, -math.inf)
    return min(ends[0], low), max(ends[1], high)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cut(some: Sequence[Any]) -> list[Sequence[Any]]:
    return [some[start : start + _COLUMNS] for start in range(0, len(some), _COLUMNS)]


def survey(told: Mapping[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """An order. Numbers that JSON has not are told as nothing."""
    source = TableRows(heard_table(told["table"], files))
    found = surveyed(source, told["names"], ranks=told["ranks"], kinds=told["kinds"], sampled=told["sampled"])
    columns = [
        {"name": name, "quantiles": one.quantiles, "kinds": one.kinds, "sampled": one.sampled} for name, one in found.items()
    ]
    return {"rows": source.rows, "columns": columns}


def count(told: Mapping[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """An order, too."""
    table = heard_table(told["table"], files)
    bounds = {name: told[name] for name in ("memory_bytes", "threads", "seconds")}
    source = SlottedRows(table, told["slot"], **bounds) if told["slot"] else TableRows(table)
    bins = [Bins(name=name, edges=tuple(edges), kinds=tuple(kinds)) for name, edges, kinds in told["bins"]]
    found = counted(source, bins, slotted=bool(told["slot"]))
    return {"rows": source.rows, "columns": [{"name": name, "counts": counts} for name, counts in found.items()]}


ORDERS: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[int]], dict[str, Any]]]] = {"survey": survey, "count": count}
