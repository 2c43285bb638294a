"""SQL over tables and nothing else: DuckDB in memory, with no file, no network, no extension, no spilling, and one SELECT of
which `statements` knows every function, type and table.

Tables are views over Arrow datasets of their parts, so that what is not asked for is not decrypted. A column that is masked is
in none of the datasets.
"""

import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from falaj.base.errors import Conflict, Invalid, TooLarge
from falaj.tables import statements, types
from falaj.tables.fitting import Fitting
from falaj.tables.functions import CONFINED
from falaj.tables.orders import KNOWN, PartToRead, TableToRead
from falaj.tables.parts import PartReader
from falaj.tables.reading import reader
from falaj.tables.types import Type
from falaj.tables.vectors import stored_schema

_WORDS: Final = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT",
    "float32": "FLOAT", "float64": "DOUBLE", "text": "VARCHAR", "bytes": "BLOB", "bool": "BOOLEAN",
    "moment": "TIMESTAMPTZ", "date": "DATE", "time": "TIME", "duration": "INTERVAL", "unknown": "INTEGER",
}  # fmt: skip
_ROWS: Final = 8192
_MOST_DIGITS: Final = 38
_OURS: Final = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException)


class OutOfTime(Conflict):
    """A query took longer than it may."""


class Querying:
    """One query over some tables. As a context: what it holds is let go at the end."""

    def __init__(self, tables: Mapping[str, TableToRead], *, memory_bytes: int, threads: int) -> None:
        self._readers: list[PartReader] = []
        self._memory = memory_bytes
        self._names = tuple(tables)
        self._timers = ExitStack()
        bounds = {"memory_limit": f"{memory_bytes >> 20}MiB", "threads": str(threads)}
        self._connection = duckdb.connect(":memory:", config=CONFINED | bounds)
        self._connection.execute("SET TimeZone = 'UTC'")
        for number, (name, table) in enumerate(tables.items()):
            self._connection.execute(f"CREATE VIEW {_quoted(name)} AS {self._view(number, table)}")
        self._connection.execute("SET lock_configuration = true")

    def __enter__(self) -> "Querying":
        return self

    def __exit__(self, *_: object) -> None:
        self._timers.close()
        self._connection.close()

    def batches(self, sql: str, *, seconds: float) -> tuple[Fitting, Iterator[pa.RecordBatch]]:
        """Of the one SELECT. Raises `Invalid` for anything else, `TooLarge`, `OutOfTime` and `Altered`."""
        timer = threading.Timer(seconds, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        self._timers.callback(timer.cancel)
        with self._said(seconds):
            found = self._connection.execute(self._checked(sql)).to_arrow_reader(_ROWS)
            given = pa.schema([_without_intervals(field) for field in found.schema])
        fitting = Fitting(given, None, time_zone="UTC")

        def read() -> Iterator[pa.RecordBatch]:
            with self._said(seconds):
                for batch in found:
                    columns = [_durations(column, name) for column, name in zip(batch.columns, batch.schema.names, strict=True)]
                    yield fitting(pa.RecordBatch.from_arrays(columns, schema=given))
            self._timers.close()

        return fitting, read()

    def _checked(self, sql: str) -> Any:
        found = self._connection.extract_statements(sql)
        if len(found) != 1:
            raise Invalid(f"A query is one SELECT, and these are {len(found)} statements.")
        kind = found[0].type
        if kind != duckdb.StatementType.SELECT or sql.lstrip().lower().startswith("pragma"):
            raise Invalid(f"A query is one SELECT: {kind.name} changes or reads something else, which is not allowed here.")
        statements.refuse_unknown(sql, self._names)
        return found[0]

    @contextmanager
    def _said(self, seconds: float) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
            # While rows are fetched all that is left of DuckDB's errors is their words.
            words = str(error).strip()
            if isinstance(error, duckdb.InterruptException) or words.startswith("INTERRUPT Error"):
                raise OutOfTime(
                    f"The query took more than {seconds:g} seconds and was ended. Ask for less, or narrow it."
                ) from None
            if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or words.startswith("Out of Memory Error"):
                raise TooLarge(
                    f"The query needs more than {self._memory >> 20} MiB of memory, and nothing may be spilled to disk. Ask "
                    "for fewer columns, filter before you join, or aggregate."
                ) from None
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self._find_what_was_altered(error)
            raise Invalid(f"The query cannot be answered: {_in_one_line(words)[:1000]}") from None

    def _find_what_was_altered(self, error: Exception) -> None:
        """DuckDB knows nothing of parts: which it was is found by reading them all."""
        if not isinstance(error, _OURS):
            for one in self._readers:
                one.verified()

    def _view(self, number: int, table: TableToRead) -> str:
        """Neighbours with the same columns are scanned together; others not, so that rows come in the order of their parts."""
        for column in table.schema.columns:
            _refuse_long_decimals(column.name, types.parse(column.type, of=column.name))
        runs: list[tuple[str, str, list[tuple[PartToRead, PartReader]]]] = []
        for part, known in zip(table.parts, table.known or [None] * len(table.parts), strict=True):
            opened = reader(part)
            self._readers.append(opened)
            like = json.dumps([str(opened.arrow_schema), part.renamed, known])
            if not runs or runs[-1][0] != like:
                runs.append((like, _known(known), []))
            runs[-1][2].append((part, opened))
        selects = [self._select(f"falaj {number} {place}", table, run, knowing) for place, (_, knowing, run) in enumerate(runs)]
        nothing = f"SELECT {_columns(table, {})}{_known(None if table.known is None else 0)} WHERE false"  # nosec B608 - quoted
        return " UNION ALL ".join(selects) or nothing

    def _select(self, name: str, table: TableToRead, group: list[tuple[PartToRead, PartReader]], more: str) -> str:
        """`more` are further columns, after those of the table."""
        part, first = group[0]
        renamed = part.renamed or {}
        own = {now: one for one in first.schema.names if (now := renamed.get(one, one)) not in table.masked}
        there = {now: (one, first.schema.column(one).type) for now, one in own.items() if now in table.schema.names}
        columns = _columns(table, there) + more
        if not there:
            return f"SELECT {columns} FROM range({sum(opened.rows for _, opened in group)})"  # nosec B608 - quoted
        stored = stored_schema(first.arrow_schema).remove_metadata()
        seen = pa.schema([stored.field(one) for one, _ in there.values()])
        fragments = [opened.fragment() for _, opened in group]
        self._connection.register(name, ds.FileSystemDataset(fragments, seen, fragments[0].format, None))
        return f"SELECT {columns} FROM {_quoted(name)}"  # nosec B608 - quoted


def _columns(table: TableToRead, there: Mapping[str, tuple[str, str]]) -> str:
    said = []
    for column in table.schema.columns:
        kind = types.parse(column.type, of=column.name)
        own, stored = there.get(column.name, ("", ""))
        if not own:
            said.append(f"CAST(NULL AS {_sql(kind)}) AS {_quoted(column.name)}")
        elif stored != column.type or _holds(kind, ("vector",)):
            itself = _itself(_quoted(own), types.parse(stored))
            said.append(f"CAST({itself} AS {_sql(kind)}) AS {_quoted(column.name)}")
        else:
            said.append(f"{_itself(_quoted(own), kind)} AS {_quoted(column.name)}")
    return ", ".join(said)


def _known(moment: int | None) -> str:
    """A column that says when these rows became known."""
    return "" if moment is None else f", make_timestamptz({int(moment)}) AS {_quoted(KNOWN)}"


def _itself(name: str, kind: Type) -> str:
    """A column, but with numbers that may be no number so that DuckDB compares them itself: it hands conditions on columns to
    Arrow, for which NaN is not greater than everything, as it is for DuckDB, and would be left out."""
    if kind.word in types.FLOATS:
        return f"-(-{name})"
    return f"list_extract([{name}], 1)" if kind.word == "record" and _holds(kind, types.FLOATS) else name


def _holds(kind: Type, words: Collection[str]) -> bool:
    return kind.word in words or any(_holds(one, words) for one in kind.inner)


def _in_one_line(words: str) -> str:
    """DuckDB shows the line and a caret below the place, which is lost where messages are one line."""
    told = re.sub(r"\s*\n\s*LINE (\d+): ([^\n]*)\n\s*\^", r" (line \1: \2)", words)
    return f'{told}. A version is named in double quotes: "flights@3".' if 'at or near "@"' in words else told


def _refuse_long_decimals(name: str, kind: Type) -> None:
    if kind.word == "decimal" and kind.sizes[0] > _MOST_DIGITS:
        raise Invalid(
            f"Column {name!r} is {kind}, and queries have at most {_MOST_DIGITS} digits: it cannot be asked about here."
        )
    for inner in kind.inner:
        _refuse_long_decimals(name, inner)


def _sql(kind: Type) -> str:
    match kind.word:
        case "decimal":
            return f"DECIMAL({kind.sizes[0]}, {kind.sizes[1]})"
        case "list":
            return f"{_sql(kind.inner[0])}[]"
        case "vector":
            return f"{_sql(kind.inner[0])}[{kind.sizes[0]}]"
        case "record":
            fields = ", ".join(f"{_quoted(name)} {_sql(one)}" for name, one in zip(kind.names, kind.inner, strict=True))
            return f"STRUCT({fields})"
    return _WORDS[kind.word]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _without_intervals(field: pa.Field) -> pa.Field:
    return field.with_type(pa.duration("us")) if pa.types.is_interval(field.type) else field


def _durations(column: pa.Array, name: str) -> pa.Array:
    if not pa.types.is_interval(column.type):
        return column
    if any(one is not None and one.months for one in column.to_pylist()):
        raise Invalid(f"Column {name!r} has a span of months, which is no duration: how long is a month? Ask for days.")
    spans = [None if one is None else one.days * 86_400_000_000 + one.nanoseconds // 1000 for one in column.to_pylist()]
    return pa.array(spans, pa.duration("us"))
