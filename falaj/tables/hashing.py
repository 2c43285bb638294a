"""Values of a column as 64-bit hashes, all of a block at once: equal values have equal ones, in every part and every type that
holds them. They tell values apart, and hide nothing."""

import hashlib
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes: TypeAlias = npt.NDArray[np.uint64]

_ONE, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF: Final = np.uint64(32)
_LONG: Final = 256  # bytes of a text from which on it is hashed by itself
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(8)] + [2**64 - 1], np.uint64)


def hashes(values: pa.Array) -> Hashes | None:
    """Of values without nulls; None for a type whose values are not told apart here."""
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = np.asarray(values.cast(pa.float64())) + 0.0  # minus zero is zero
        with np.errstate(invalid="ignore"):
            whole = numbers.astype(np.int64)
        return _mixed(np.where(whole == numbers, whole.view(np.uint64), numbers.view(np.uint64)))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _texts(values)
    if pa.types.is_boolean(kind):
        return _mixed(np.asarray(values.cast(pa.uint8())).astype(np.uint64))
    if pa.types.is_decimal(kind):
        return hashes(values.cast(pa.float64()))
    if pa.types.is_integer(kind):
        return _mixed(np.asarray(values).astype(np.int64 if pa.types.is_signed_integer(kind) else np.uint64).view(np.uint64))
    if pa.types.is_temporal(kind):
        return _mixed(
            np.asarray(values.view(pa.int32() if kind.bit_width == 32 else pa.int64())).astype(np.int64).view(np.uint64)
        )
    return None


def _mixed(words: Any) -> Hashes:
    mixed: Hashes = (words + _OTHER) * _ONE  # nothing is not hashed to nothing
    mixed ^= mixed >> _HALF
    mixed *= _OTHER
    mixed ^= mixed >> _HALF
    return mixed


def _texts(values: pa.Array) -> Hashes:
    """Eight bytes of every text at a time."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    lengths = np.diff(ends)
    content = b"" if data is None or not len(values) else memoryview(data)[ends[0] : ends[-1]]
    padded = bytes(content) + bytes(8)
    words = np.ndarray(len(padded) - 7, np.uint64, padded, strides=(1,))  # one begins at every byte
    found = _mixed(lengths.astype(np.uint64) + np.uint64(1))
    starts, shortest = ends[:-1] - ends[:1], int(lengths.min(initial=_LONG))
    for at in range(0, min(_LONG, int(lengths.max(initial=0))), 8):
        if shortest >= at + 8:
            found = _mixed(found ^ words[starts + at])
            continue
        rows = np.flatnonzero(lengths > at)
        taken = words[starts[rows] + at] & _MASKS[np.minimum(lengths[rows] - at, 8)]
        found[rows] = _mixed(found[rows] ^ taken)
    for row in np.flatnonzero(lengths > _LONG):
        text = padded[starts[row] : starts[row] + lengths[row]]
        found[row] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return found
