"""Rows of datasets as a model takes them, parted into what is learnt from, compared on and held out."""

import hashlib
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client.dataset_pieces import tables_library
from falaj.client.datasets import Dataset
from falaj.client.loaded_models import LoadedModel, joined
from falaj.optimisation.making.values import Array, Sample

MOST_ROWS: Final = 200_000
MOST_BYTES: Final = 1 << 30
CALIBRATION_ROWS: Final = 512
_PIECE: Final = 4096
_MOST_VALUES: Final = 20  # of a slice's column; the rest is put together
_OTHER: Final = "other"
_LONGEST: Final = 100


@value
class Rows:
    """`labels` are as the column has them. `slices` say for each column which slice a row is in."""

    inputs: tuple[Array, ...]
    labels: Array | None
    slices: Mapping[str, Array]

    @property
    def count(self) -> int:
        return len(self.inputs[0])

    def taken(self, at: Array) -> "Rows":
        return Rows(
            inputs=tuple(one[at] for one in self.inputs),
            labels=None if self.labels is None else self.labels[at],
            slices={name: one[at] for name, one in self.slices.items()},
        )

    def sample(self, truth: Array | None) -> Sample:
        return Sample(inputs=self.inputs, truth=truth)


@value
class Parts:
    """Three parts that have no row in common."""

    training: Rows
    selection: Rows
    held_out: Rows


def parted(on: Rows, held_out: Rows | None, seed: int) -> Parts:
    """By chance, but always the same. A fifth of the rows are for comparing; where none were held out, three tenths are. Rows
    that are held out look like none of the others."""
    order = np.random.default_rng(seed).permutation(on.count)
    last = 0 if held_out is not None else round(0.3 * on.count)
    compared = round(0.2 * on.count)
    learnt = on.count - last - compared
    if min(learnt, compared) < 1:
        raise Invalid(f"{on.count} rows are too few to learn from and to compare on.")
    training, selection = on.taken(order[:learnt]), on.taken(order[learnt : learnt + compared])
    if held_out is not None:
        return Parts(training=training, selection=selection, held_out=unseen(held_out, on))
    apart = on.taken(np.sort(order[learnt + compared :]))
    return Parts(training=training, selection=selection, held_out=unseen(apart, on.taken(order[: learnt + compared])))


def unseen(held_out: Rows, on: Rows) -> Rows:
    """Without the rows that look like one of the others, whatever either should say: were it those of the same label alone,
    what is left would be the rows whose label is unusual, and the original wrong."""
    known = set(_keys(on))
    kept = np.array([at for at, key in enumerate(_keys(held_out)) if key not in known], dtype=np.int64)
    if not len(kept):
        raise Invalid(
            f"Each of the {held_out.count:,} rows that are held out holds what one to learn from holds: there is nothing to "
            "judge on. Hold out rows that are new to the model, in all that it takes together."
        )
    return held_out.taken(kept)


def _keys(rows: Rows) -> list[int]:
    """Of what the model takes of each row."""
    flat = [np.ascontiguousarray(one).reshape(rows.count, -1) for one in rows.inputs]
    return [hash(tuple(_content(one[at]) for one in flat)) for at in range(rows.count)]


def digest_of(sample: Sample) -> str:
    """Of what the rows hold: the same wherever and whenever they were read."""
    seen = hashlib.sha256()
    for one in sample.inputs:
        seen.update(_content(one))
    return seen.hexdigest()


def _content(array: Array) -> bytes:
    """Of texts, which numpy keeps as addresses, each behind its length: then no two lists of them look alike."""
    if not array.dtype.hasobject:
        return array.tobytes()
    texts = [one if isinstance(one, bytes) else str(one).encode() for one in array.ravel().tolist()]
    return b"".join(len(one).to_bytes(8, "little") + one for one in texts)


def read(source: Dataset, model: LoadedModel, *, label: str, slices: Sequence[str]) -> Rows:
    """Every row, or every so many-th where they would not fit; those without a label are left out."""
    named = f"{source.name}@{source.version}"
    if missing := [name for name in model.columns if name not in source.schema.names]:
        raise Invalid(f"The model takes {missing[0]!r}, which {named} has not.")
    wanted = list(dict.fromkeys((*model.columns, *([label] if label else []), *slices)))
    tables: Any = tables_library("falaj.tables.predicted")
    stride = max(1, math.ceil(len(source) / min(MOST_ROWS, MOST_BYTES // _width(model))))
    arrays, columns, first = list[list[Array]](), {name: list[Any]() for name in (label, *slices) if name}, 0
    for piece in tables.pieces(source.batches(wanted), _PIECE):
        beside = {name: piece.column(name).to_pylist() for name in columns}
        known = beside[label] if label else [True] * piece.num_rows
        kept = [at for at in range(piece.num_rows) if (first + at) % stride == 0 and not _is_missing(known[at])]
        if kept:
            arrays.append(_arrays(tables, model, piece.take(kept), first))
            for name, values in columns.items():
                values.extend(beside[name][at] for at in kept)
        first += piece.num_rows
    if not arrays:
        raise Invalid(f"{named} has no rows{f' with a {label}' if label else ''}.")
    found = {name: np.array(values, dtype=object) for name, values in columns.items()}
    labels = _labels(found[label]) if label else None
    return Rows(inputs=tuple(joined(arrays)), labels=labels, slices={name: sliced(name, found[name]) for name in slices})


def _arrays(tables: Any, model: LoadedModel, piece: Any, first: int) -> list[Array]:
    """Whole columns where they are numbers; else value by value, as an endpoint reads records."""
    numbers = [tables.numbers(piece, name) for name in model.columns]
    if all(one is not None for one in numbers) and (quick := model.quickly(numbers)) is not None:
        return quick
    return model.arrays(tables.plain_rows(piece, model.columns, 0, piece.num_rows), first)


def _width(model: LoadedModel) -> int:
    """Bytes of a row, about."""
    return sum(8 * max(1, math.prod(length if length > 0 else 64 for length in spec.shape[1:])) for spec in model.engine.inputs)


def _is_missing(one: Any) -> bool:
    return one is None or (isinstance(one, float) and math.isnan(one))


def _labels(values: Array) -> Array:
    """Numbers where all are; else as they are."""
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
        return np.array(values.tolist())
    if all(isinstance(one, list | tuple) for one in values):
        return np.array(values.tolist(), dtype=np.float64)
    return values


def sliced(column: str, values: Array) -> Array:
    """The name of the slice of each row: one for each value, or, of numbers with many, one for each quarter."""
    plain = [None if _is_missing(one) else one for one in values]
    texts = np.array(["missing" if one is None else _shown(one) for one in plain], dtype=object)
    distinct, counts = np.unique(texts, return_counts=True)
    if len(distinct) <= _MOST_VALUES:
        return np.array([f"{_shown(column)}={text}" for text in texts], dtype=object)
    known = [one for one in plain if one is not None]
    if all(isinstance(one, int | float) and math.isfinite(one) for one in known):
        edges = np.unique(np.quantile([float(one) for one in known], [0.25, 0.5, 0.75]))
        return np.array([_quarter(_shown(column), one, edges) for one in plain], dtype=object)
    frequent = set(distinct[np.argsort(-counts, kind="stable")[: _MOST_VALUES - 1]])
    return np.array([f"{_shown(column)}={text if text in frequent else _OTHER}" for text in texts], dtype=object)


def _shown(value: Any) -> str:
    """As much of it as a name may have, in letters that can be printed, the same in every try; an equals sign tells column and
    value apart."""
    text = "".join(letter if letter.isprintable() and letter != "=" else "?" for letter in str(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...{zlib.crc32(text.encode()) % 10_000}"


def _quarter(column: str, one: Any, edges: Array) -> str:
    if one is None:
        return f"{column}=missing"
    at = int(np.searchsorted(edges, float(one), side="left"))
    low, high = (f"{edges[at - 1]:g} < " if at else ""), (f" <= {edges[at]:g}" if at < len(edges) else "")
    return f"{low}{column}{high}"
