"""Arrays over a pipe, as both sides of the walls write and read them: lengths, a header in JSON, then the bare bytes.

Nothing of it is ever unpickled. Texts are behind their lengths, as in the Open Inference Protocol's binary form.
"""

import json
import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from falaj.runtimes.datatypes import BYTES, DTYPES, datatype_of

Array = npt.NDArray[np.generic]
LENGTHS = struct.Struct("<IQ")  # of the header and of what follows it
LONGEST_HEADER = 16 << 20


def opening(header: dict[str, Any], following: int) -> bytes:
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), following) + text


def frame(header: dict[str, Any], arrays: Sequence[Array] = ()) -> list[bytes]:
    """What to write, in parts."""
    parts = [_bytes_of(array) for array in arrays]
    tensors = [[datatype_of(array.dtype), array.shape, len(part)] for array, part in zip(arrays, parts, strict=True)]
    return [opening({**header, "tensors": tensors}, sum(map(len, parts))), *parts]


def arrays_of(header: dict[str, Any], body: bytes) -> list[Array]:
    """Raises `ValueError`, or another of its family, where the two do not fit each other."""
    arrays, position = [], 0
    for datatype, shape, length in header["tensors"]:
        if type(length) is not int or not 0 <= length <= len(body) - position or any(not 0 <= axis < 2**40 for axis in shape):
            raise ValueError("lengths and bytes do not agree")
        part = memoryview(body)[position : position + length]
        position += length
        if datatype == BYTES:
            arrays.append(_texts(part, shape))
        else:
            dtype = DTYPES[datatype]
            if prod(shape) * dtype.itemsize != length:
                raise ValueError("lengths and bytes do not agree")
            arrays.append(np.frombuffer(part, dtype).reshape(tuple(shape)).copy())  # whoever reads it may change it
    return arrays


def _bytes_of(array: Array) -> bytes:
    if array.dtype != object:
        return array.tobytes()
    parts = []
    for text in array.reshape(-1).tolist():
        parts += [len(text).to_bytes(4, "little"), text]
    return b"".join(parts)


def _texts(part: memoryview, shape: Sequence[int]) -> Array:
    texts, position = [], 0
    while position < len(part):
        start = position + 4
        position = start + int.from_bytes(part[start - 4 : start], "little")
        if position > len(part):
            raise ValueError("lengths and bytes do not agree")
        texts.append(bytes(part[start:position]))
    made = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made.reshape(tuple(shape))
