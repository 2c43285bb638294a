"""The least of the values that each slot sees. Values are int64 keys that sort as they do; see `ordered_keys`."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from falaj.tables.joining.arrays import LATEST, Ints

_SIGN = -(2**63)
_NOT_SIGN = 2**63 - 1


class Least:
    """Of rows that are each seen by a run of slots. A run is covered by two of the same power of two, which are halved until
    they are single slots: the work grows with rows and slots, not with how many rows a window has."""

    def __init__(self, count: int) -> None:
        self.keys: Ints = np.full(count, LATEST)

    def add(self, keys: Ints, first: Ints, past: Ints) -> None:
        if not len(keys):
            return
        levels = np.frexp((past - first).astype(np.float64))[1] - 1
        least = np.full(len(self.keys), LATEST)
        for level in range(int(levels.max()), -1, -1):
            some = np.flatnonzero(levels == level)
            np.minimum.at(least, first[some], keys[some])
            np.minimum.at(least, past[some] - (1 << level), keys[some])
            if level:
                half = 1 << (level - 1)
                least[half:] = np.minimum(least[half:], least[:-half])
        np.minimum(self.keys, least, out=self.keys)


def ordered_keys(values: npt.NDArray[np.generic], *, greatest: bool) -> Ints:
    """The least key is that of the least value, or of the greatest. NaN comes before everything: it is never passed by."""
    if values.dtype.kind == "f":
        numbers = values.astype(np.float64)
        bits = numbers.view(np.int64)
        keys = bits ^ ((bits >> 63) & _NOT_SIGN)
        return np.where(np.isnan(numbers), _SIGN, ~keys if greatest else keys)
    keys = values.view(np.int64) ^ _SIGN if values.dtype == np.uint64 else values.astype(np.int64)
    return ~keys if greatest else keys


def from_keys(keys: Ints, dtype: npt.DTypeLike, *, greatest: bool) -> npt.NDArray[np.generic]:
    """The values back; NaN is always the same one."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        turned = ~keys if greatest else keys
        numbers = (turned ^ ((turned >> 63) & _NOT_SIGN)).view(np.float64)
        return np.where(keys == _SIGN, np.nan, numbers).astype(kind)
    turned = ~keys if greatest else keys
    return (turned ^ _SIGN).view(np.uint64) if kind == np.uint64 else turned.astype(kind)


def has_extremes(kind: pa.DataType) -> bool:
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(numbers or pa.types.is_temporal(kind))
