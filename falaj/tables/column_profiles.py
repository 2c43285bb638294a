"""What is known of one column: counts of all its values, and sketches of them that can be merged. `profiles` has all columns.

Quantiles and frequent values come from a sample that thins out as rows go on, each value with the weight of those it stands
for: sketching every value would take longer than reading and writing them.
"""

import base64
import decimal
import json
import math
from collections.abc import Mapping
from typing import Any, Final

import datasketches as ds
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from falaj.tables import types
from falaj.tables.distinct import Distinct
from falaj.tables.hashing import hashes
from falaj.tables.profile_values import floats, least, most, plain, said, short, spelled

QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_BINS: Final = 20
_RANKS: Final = [place / 200 for place in range(201)]  # where distributions are compared
_TOP: Final = 20
_spelled: Final = json.JSONEncoder(ensure_ascii=False).encode  # made once: `json.dumps` makes one for each value
_TOP_OF_A_BATCH: Final = 256
_ACCURACY: Final = 200  # of KLL: a rank is wrong by 1.3 in a hundred at most, nearly always
_KEPT: Final = 9  # log2 of how many frequent values are followed
_NUMBERS: Final = (*types.INTEGERS, *types.FLOATS, "decimal", "moment", "date", "time", "duration")
_LISTED: Final = (*types.INTEGERS, "text", "bool", "date", "decimal")


class ColumnProfile:
    """Of one part, or of several merged."""

    def __init__(self, word: str) -> None:
        self.type = word
        self._word = types.parse(word).word
        self.rows = self.nulls = self.nans = 0
        self._count, self._mean, self._squares = 0, 0.0, 0.0
        self._low: Any = None
        self._high: Any = None
        self._shortest: int | None = None
        self._longest: int | None = None
        self._distinct = Distinct()
        self._values = ds.kll_doubles_sketch(_ACCURACY)
        self._frequent = ds.frequent_strings_sketch(_KEPT)

    def add(self, column: pa.Array, *, every: int) -> None:
        """All of a batch; of it one value in `every` goes into the sample."""
        self.rows += len(column)
        self.nulls += column.null_count
        there = column.drop_null() if column.null_count else column
        if pa.types.is_floating(there.type) and (nans := pc.sum(pc.is_nan(there)).as_py() or 0):
            self.nans += nans
            there = there.filter(pc.invert(pc.is_nan(there)))
        if not len(there):
            return
        if (found := hashes(self._few_of(there))) is not None:
            self._distinct.add(found)
        if self._word in _NUMBERS:
            self._add_range(there)
            self._add_numbers(floats(there), every)
        elif self._word in ("text", "bytes", "list"):
            self._add_lengths(there)
        if self._word in _LISTED:
            self._add_frequent(there.take(pa.array(np.arange(0, len(there), every))) if every > 1 else there, every)

    def merge(self, other: "ColumnProfile") -> None:
        self.rows, self.nulls, self.nans = self.rows + other.rows, self.nulls + other.nulls, self.nans + other.nans
        self._add_moments(other._count, other._mean, other._squares)
        self._low, self._high = least(self._low, other._low), most(self._high, other._high)
        self._shortest, self._longest = least(self._shortest, other._shortest), most(self._longest, other._longest)
        self._distinct.merge(other._distinct)
        self._values.merge(other._values)
        self._frequent.merge(other._frequent)

    def add_absent(self, rows: int) -> None:
        """Rows of a part that does not have the column."""
        self.rows += rows
        self.nulls += rows

    def distance(self, other: "ColumnProfile") -> float | None:
        """From 0 to 1; None where there are no values to compare."""
        if not self._values.is_empty() and not other._values.is_empty():
            places = sorted({*self._values.get_quantiles(_RANKS), *other._values.get_quantiles(_RANKS)})
            return float(max(abs(self._values.get_rank(at) - other._values.get_rank(at)) for at in places))
        shares, others = self._shares(), other._shares()
        if not shares or not others:
            return None
        return sum(abs(shares.get(one, 0.0) - others.get(one, 0.0)) for one in {*shares, *others}) / 2

    def shown(self) -> dict[str, Any]:
        """For people and for charts."""
        told: dict[str, Any] = {"type": self.type, "nulls": self.nulls}
        if self._word in (*_NUMBERS, "text", "bytes", "bool"):
            estimate = min(self._distinct.estimate(), self.rows - self.nulls)
            told |= {"distinct": estimate, "distinct_is_exact": self._distinct.is_exact}
        if self._word in types.FLOATS:
            told["nans"] = self.nans
        if self._low is not None:
            told |= {"min": said(self._word, self._low), "max": said(self._word, self._high)}
        if self._count and self._word not in ("moment", "date", "time"):
            told |= {
                "mean": said(self._word, self._mean),
                "deviation": said(self._word, math.sqrt(self._squares / self._count)),
            }
        if not self._values.is_empty():
            quantiles = self._values.get_quantiles(list(QUANTILES))
            told["quantiles"] = {f"{rank:g}": said(self._word, one) for rank, one in zip(QUANTILES, quantiles, strict=True)}
            told["histogram"] = self._histogram()
        if self._longest is not None:
            told |= {"shortest": self._shortest, "longest": self._longest}
        if self._word in _LISTED:
            told["top"] = self._top()
        return told

    def state(self) -> dict[str, Any]:
        """What merging needs."""
        return {
            "rows": self.rows,
            "nulls": self.nulls,
            "nans": self.nans,
            "moments": [self._count, str(self._mean), str(self._squares)],
            "range": [spelled(self._low), spelled(self._high), self._shortest, self._longest],
            "distinct": self._distinct.told(),
            "values": base64.b64encode(self._values.serialize()).decode(),
            "frequent": base64.b64encode(self._frequent.serialize()).decode(),
        }

    @classmethod
    def from_state(cls, word: str, state: Mapping[str, Any]) -> "ColumnProfile":
        made = cls(word)
        made.rows, made.nulls, made.nans = state["rows"], state["nulls"], state["nans"]
        count, mean, squares = state["moments"]
        made._count, made._mean, made._squares = count, float(mean), float(squares)
        low, high, made._shortest, made._longest = state["range"]
        number = decimal.Decimal if made._word == "decimal" else float
        made._low, made._high = (number(one) if isinstance(one, str) else one for one in (low, high))
        made._distinct = Distinct.heard(state["distinct"])
        made._values = ds.kll_doubles_sketch.deserialize(base64.b64decode(state["values"]))
        made._frequent = ds.frequent_strings_sketch.deserialize(base64.b64decode(state["frequent"]))
        return made

    def _few_of(self, there: pa.Array) -> pa.Array:
        """Each text once, while few are known: hashing one takes longer than finding that it was there before."""
        return pc.unique(there) if self._word in ("text", "bytes") and self._distinct.is_exact else there

    def _add_range(self, there: pa.Array) -> None:
        ends = pc.min_max(there if pa.types.is_decimal(there.type) else plain(there)).as_py()
        self._low, self._high = least(self._low, ends["min"]), most(self._high, ends["max"])

    def _add_numbers(self, numbers: Any, every: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large for a mean has none
            finite = numbers if np.isfinite(numbers.sum()) else numbers[np.isfinite(numbers)]
            if len(finite):
                mean = float(finite.mean())
                self._add_moments(len(finite), mean, float(np.square(finite - mean).sum()))
        sample = np.array(numbers[::every])  # its own: Arrow's cannot be written to, which the sketch asks for
        if every == 1:
            self._values.update(sample)
            return
        thin = ds.kll_doubles_sketch(_ACCURACY)
        thin.update(sample)
        for _ in range(every.bit_length() - 1):  # `every` is a power of two: each stands for so many
            thin.merge(ds.kll_doubles_sketch.deserialize(thin.serialize()))
        self._values.merge(thin)

    def _add_moments(self, count: int, mean: float, squares: float) -> None:
        total = self._count + count
        if total:
            apart = mean - self._mean
            self._squares += squares + apart * apart * self._count * count / total
            self._mean += apart * count / total
        self._count = total

    def _add_lengths(self, there: pa.Array) -> None:
        lengths = pc.list_value_length(there) if pa.types.is_list(there.type) else pc.binary_length(there)
        ends = pc.min_max(lengths).as_py()
        self._shortest, self._longest = least(self._shortest, ends["min"]), most(self._longest, ends["max"])

    def _add_frequent(self, sample: pa.Array, every: int) -> None:
        counted = pc.value_counts(plain(sample))
        counts = np.asarray(counted.field("counts"))
        if len(counts) > _TOP_OF_A_BATCH:
            if counts.max() == 1:
                return  # each one once: none of them is frequent
            counted = counted.take(pa.array(np.argpartition(counts, -_TOP_OF_A_BATCH)[-_TOP_OF_A_BATCH:]))
        for one, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True):
            shown = short(said(self._word, one))
            self._frequent.update(_spelled(shown), count * every)

    def _top(self) -> list[list[Any]]:
        found = self._frequent.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
        best = sorted(((json.loads(one[0]), int(one[1])) for one in found), key=lambda one: (-one[1], str(one[0])))
        return [[one, min(count, self.rows)] for one, count in best[:_TOP]]

    def _shares(self) -> dict[str, float]:
        """Of the frequent values; what the others have together is one more."""
        there = self.rows - self.nulls
        found = self._frequent.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_POSITIVES)
        if not there or self._word not in ("text", "bool"):
            return {}
        shares = {one[0]: one[1] / there for one in found}
        return {**shares, "": max(0.0, 1.0 - sum(shares.values()))}

    def _histogram(self) -> dict[str, Any]:
        """Of one width between the first and the last hundredth, wider only where that is not far off; the rest is below and
        above, so that one value far out does not hide all others."""
        first, last = (float(one) for one in self._values.get_quantiles([0.01, 0.99]))
        low, high = float(self._values.get_min_value()), float(self._values.get_max_value())
        low = low if first - low <= last - first else first
        high = high if high - last <= last - first else last
        if not math.isfinite(high - low) or low >= high:
            return {}
        edges = [low + (high - low) * place / _BINS for place in range(_BINS)] + [high]
        there = self.rows - self.nulls - self.nans
        shares = np.diff(
            [0.0, *(self._values.get_rank(edge, False) for edge in edges[:-1]), self._values.get_rank(high, True), 1.0]
        )
        counts = [round(float(share) * there) for share in shares]
        return {
            "edges": [said(self._word, edge) for edge in edges],
            "counts": counts[1:-1],
            "below": counts[0],
            "above": counts[-1],
        }
