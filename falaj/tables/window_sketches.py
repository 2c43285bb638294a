"""What one column was like in a window, in a few kilobytes that can be merged: quantiles of numbers or frequent texts, and how
many different values there were. For people to look at and to choose bins by; what decides is counted exactly, elsewhere.

They come from hosts that may lie. So they are written as plain numbers and texts, and not in the library's own form: reading
that breaks the process where it was tampered with.
"""

import base64
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

import datasketches as ds
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from falaj.base.errors import Invalid
from falaj.tables.hashing import Hashes, hashes
from falaj.tables.short_texts import shortened

_ACCURACY: Final = 128  # of KLL: a rank is wrong by 2.5 in a hundred at most, nearly always
_POINTS: Final = 256  # of numbers, each standing for so many; twice as many before they are thinned out
_FOLLOWED: Final = 7  # log2 of how many frequent texts are followed
_TEXTS: Final = 96  # that are written
_LEAST: Final = 128  # of the hashes, the least are kept: how close they lie tells how many there are, to within a tenth
_HASHES: Final = 2.0**64
_MOST: Final = 2**53  # rows that anything stands for: what is merged of those who lie is still written and read
_LONGEST_WRITTEN: Final = 64 * 1024  # bytes, before they were compressed
_Floats: TypeAlias = npt.NDArray[np.float64]
_NONE: Final[_Floats] = np.empty(0)


class _Written(msgspec.Struct, array_like=True):
    numbers: bool
    single: bool = False
    values: bytes = b""
    weights: bytes = b""
    texts: dict[str, Annotated[int, msgspec.Meta(ge=0, le=_MOST)]] = {}
    hashes: bytes = b""


class Sketch:
    """Of finite numbers, or of texts. Not thread-safe."""

    def __init__(self, *, numbers: bool) -> None:
        self.numbers = numbers
        self._kll = ds.kll_doubles_sketch(_ACCURACY)
        self._frequent = ds.frequent_strings_sketch(_FOLLOWED)
        self._values, self._weights = _NONE, _NONE  # merged from others, beside what was added here
        self._texts: Counter[str] = Counter()
        self._hashes: Hashes = np.empty(0, np.uint64)

    @classmethod
    def of_numbers(cls) -> "Sketch":
        return cls(numbers=True)

    @classmethod
    def of_texts(cls) -> "Sketch":
        return cls(numbers=False)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Numbers that are not finite are passed by, and so are empty texts."""
        if not self.numbers:
            self._add_texts(values.tolist())
            return
        there = np.asarray(values, np.float64)
        there = there[np.isfinite(there)]
        if len(there):
            self._kll.update(there)
            self._add_hashes(hashes(pa.array(there)))

    def quantiles(self, ranks: Sequence[float]) -> list[float]:
        """None of texts, and none of nothing."""
        values, weights = self._points()
        if not len(values):
            return []
        upto = np.cumsum(weights)
        places = np.searchsorted(upto, np.asarray(ranks) * upto[-1], side="left")
        places[np.asarray(ranks) >= 1.0] = len(values) - 1
        return [float(one) for one in values[np.minimum(places, len(values) - 1)]]

    def rows(self) -> int:
        """How many numbers were added, about; 0 of texts."""
        return round(float(self._points()[1].sum()))

    def top(self, most: int) -> list[tuple[str, int]]:
        """The most frequent texts, with about how often they came."""
        found = self._frequent.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
        texts = self._texts + Counter({one[0]: int(one[1]) for one in found})
        return sorted(texts.items(), key=lambda one: (-one[1], one[0]))[:most]

    def distinct(self) -> int:
        """Exactly while they are few, and to within a tenth then."""
        if len(self._hashes) < _LEAST:
            return len(self._hashes)
        return round((_LEAST - 1) * _HASHES / max(float(self._hashes[-1]), 1.0))

    def merge(self, other: "Sketch") -> None:
        """Where a column is numbers here and texts there, what is here stays."""
        if self.numbers != other.numbers:
            return
        values, weights = other._points()
        self._values, self._weights = np.concatenate([self._values, values]), np.concatenate([self._weights, weights])
        self._texts = Counter(dict(other.top(_TEXTS))) + self._texts
        self._add_hashes(other._hashes)

    def written(self) -> str:
        values, weights = _thinned(*self._points())
        with np.errstate(over="ignore"):
            single = bool(np.all(values.astype(np.float32) == values))
        told = _Written(
            numbers=self.numbers,
            single=single,
            values=values.astype(np.float32 if single else np.float64).tobytes(),
            weights=np.minimum(weights, float(_MOST)).astype(np.float32).tobytes(),
            texts={text: min(count, _MOST) for text, count in self.top(_TEXTS)},
            hashes=self._hashes.tobytes(),
        )
        return base64.b64encode(zlib.compress(msgspec.msgpack.encode(told), 1)).decode()

    def _points(self) -> tuple[_Floats, _Floats]:
        """Numbers in order, and how many each stands for; the least and the largest are there, if they stand for none."""
        values, weights = self._values, self._weights
        if not self._kll.is_empty():
            ends = (self._kll.get_min_value(), 0), (self._kll.get_max_value(), 0)
            added = np.array([*self._kll, *ends], np.float64)
            values, weights = np.concatenate([values, added[:, 0]]), np.concatenate([weights, added[:, 1]])
        order = np.argsort(values, kind="stable")
        return values[order], weights[order]

    def _add_texts(self, values: Sequence[str]) -> None:
        there = [shortened(one) for one in values if one]
        if not there:
            return
        counted = pc.value_counts(pa.array(there, pa.string()))
        for text, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True):
            self._frequent.update(text, count)
        self._add_hashes(hashes(counted.field("values")))

    def _add_hashes(self, found: Hashes | None) -> None:
        if found is None:
            return
        if len(self._hashes) == _LEAST:
            found = found[found < self._hashes[-1]]
        if len(found):
            self._hashes = np.unique(np.concatenate([self._hashes, found]))[:_LEAST]


def joined(written: Sequence[str]) -> Sketch:
    """All of them together; Invalid where one was not written here, or there is none."""
    if not written:
        raise Invalid("There is no sketch to join.")
    first, *others = [_read(one) for one in written]
    for other in others:
        first.merge(other)
    return first


def _thinned(values: _Floats, weights: _Floats) -> tuple[_Floats, _Floats]:
    """The least and the largest stay, and so many between them that stand for equally many."""
    if len(values) <= 2 * _POINTS:
        return values, weights
    upto, inner = np.cumsum(weights), _POINTS - 2
    ranks = (np.arange(inner) + 0.5) / inner
    kept = values[np.searchsorted(upto, ranks * upto[-1])]
    ends, share = (weights[:1], weights[-1:]), (upto[-1] - weights[0] - weights[-1]) / inner
    return np.concatenate([values[:1], kept, values[-1:]]), np.concatenate([ends[0], np.full(inner, share), ends[1]])


def _read(written: str) -> Sketch:
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(written, validate=True), _LONGEST_WRITTEN)
        told = msgspec.msgpack.decode(content, type=_Written)
        with np.errstate(invalid="ignore"):
            values = np.frombuffer(told.values, np.float32 if told.single else np.float64).astype(np.float64)
            weights = np.frombuffer(told.weights, np.float32).astype(np.float64)
        least = np.unique(np.frombuffer(told.hashes, np.uint64))[:_LEAST]
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise Invalid(f"This is no sketch of a column: {error}") from None
    if len(values) != len(weights) or not np.isfinite(values).all() or not (weights >= 0).all() or np.isinf(weights).any():
        raise Invalid("This is no sketch of a column: its numbers are none.")
    made = Sketch(numbers=told.numbers)
    made._values, made._weights, made._texts, made._hashes = values, weights, Counter(told.texts), least
    return made
