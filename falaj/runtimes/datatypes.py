"""The Open Inference Protocol's words for what tensors hold, and what numpy calls the same. Bytes are little-endian.

BYTES are object arrays of `bytes`, one element each; texts of a model are their UTF-8.
"""

from typing import Final

import numpy as np

BYTES: Final = "BYTES"
DTYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    BYTES: np.dtype(np.object_),
}
# Of one element; how long one of BYTES is stands before it, in four bytes.
SIZES: Final[dict[str, int]] = {name: dtype.itemsize for name, dtype in DTYPES.items() if name != BYTES}
_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}


def datatype_of(dtype: np.dtype[np.generic]) -> str | None:
    """The protocol's word, or none where it has no word for that."""
    return _NAMES.get(dtype)
