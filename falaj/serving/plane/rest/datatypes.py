"""The protocol's datatypes: what JSON and the binary form of each look like, and arrays made into both."""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.runtimes.engine import Array


@value
class Datatype:
    """`size` is of one element in binary, 0 where each says its own. `low` and `high` bound whole numbers."""

    name: str
    kind: Literal["float", "int", "bool", "bytes"]
    size: int
    low: int = 0
    high: int = 0


def _whole(name: str, bits: int, signed: bool) -> Datatype:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return Datatype(name=name, kind="int", size=bits // 8, low=low, high=high)


DATATYPES: Final[dict[str, Datatype]] = {
    one.name: one
    for one in (
        Datatype(name="BOOL", kind="bool", size=1),
        *(_whole(f"INT{bits}", bits, True) for bits in (8, 16, 32, 64)),
        *(_whole(f"UINT{bits}", bits, False) for bits in (8, 16, 32, 64)),
        Datatype(name="FP16", kind="float", size=2),
        Datatype(name="BF16", kind="float", size=2),
        Datatype(name="FP32", kind="float", size=4),
        Datatype(name="FP64", kind="float", size=8),
        Datatype(name="BYTES", kind="bytes", size=0),
    )
}
# JSON has no such numbers. These words are what JSON made from protobuf says for them, and what numpy and Python read back.
NOT_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_NUMBERS: Final = {int, float}


def datatype_of(name: str, tensor: str) -> Datatype:
    found = DATATYPES.get(name)
    if found is None:
        raise Invalid(f"input {tensor!r} has datatype {name!r}; one of {', '.join(DATATYPES)} is expected")
    return found


def check_elements(elements: list[Any], datatype: Datatype, tensor: str) -> list[Any]:
    """A flat list as JSON gave it, with text made into bytes and the words for numbers that are not finite made into them."""
    kinds = set(map(type, elements))
    match datatype.kind:
        case "float" if kinds <= _NUMBERS:
            return _floats(elements, tensor) if int in kinds else elements
        case "float" if kinds <= {int, float, str}:
            return _floats([_number(one, datatype, tensor) for one in elements], tensor)
        case "int" if kinds <= {int}:
            if elements and (min(elements) < datatype.low or max(elements) > datatype.high):
                raise Invalid(f"input {tensor!r} has a number outside {datatype.name}: {datatype.low} to {datatype.high}")
            return elements
        case "bool" if kinds <= {bool}:
            return elements
        case "bytes" if kinds <= {str}:
            return [one.encode() for one in elements]
    raise Invalid(f"input {tensor!r} is {datatype.name} and so takes {_TAKEN[datatype.kind]}; {_stranger(elements, datatype)}")


_TAKEN: Final = {"float": "numbers", "int": "whole numbers", "bool": "true and false", "bytes": "strings"}
_FITTING: Final = {"float": (int, float), "int": (int,), "bool": (bool,), "bytes": (str,)}


def _stranger(elements: Sequence[Any], datatype: Datatype) -> str:
    for place, one in enumerate(elements):
        if type(one) not in _FITTING[datatype.kind]:
            shown = "null" if one is None else "an object" if isinstance(one, dict) else repr(one)[:40]
            return f"element {place} is {shown}"
    return "some elements are not"


def _number(given: Any, datatype: Datatype, tensor: str) -> Any:
    if type(given) is not str:
        return given
    found = NOT_FINITE.get(given)
    if found is None:
        raise Invalid(f"input {tensor!r} is {datatype.name} and so takes numbers; {given[:40]!r} is none")
    return found


def _floats(elements: list[Any], tensor: str) -> list[float]:
    try:
        return list(map(float, elements))
    except OverflowError:
        raise Invalid(f"input {tensor!r} has a number that is too large for any float") from None


def split_bytes(raw: bytes | bytearray | memoryview, count: int, tensor: str) -> list[bytes]:
    """The elements of a binary BYTES tensor, each after its length in four bytes."""
    elements: list[bytes] = []
    at, end = 0, len(raw)
    while end - at >= 4 and len(elements) < count:
        length = int.from_bytes(raw[at : at + 4], "little")
        at += 4
        if length > end - at:
            raise Invalid(f"input {tensor!r} has an element of {length} bytes where {end - at} are left")
        elements.append(bytes(raw[at : at + length]))
        at += length
    if at != end or len(elements) != count:
        found = f"{len(elements)} elements in {at} of {end} bytes"
        raise Invalid(f"input {tensor!r} has {found}; its shape wants {count}")
    return elements


def to_binary(array: Array, datatype: str) -> bytes | memoryview:
    """Little-endian and contiguous; a view of the array where it is so already."""
    if datatype == "BYTES":
        pack = struct.Struct("<I").pack
        return b"".join([piece for one in _texts(array) for piece in (pack(len(one)), one)])
    if datatype == "BF16" and array.dtype == np.float32:
        array = bf16_of(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.nbytes < 4096:
        return array.tobytes()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def to_list(array: Array, datatype: str, name: str) -> list[Any]:
    """Flat, as JSON can say it, but for numbers that are not finite."""
    if datatype == "BYTES":
        try:
            return [one.decode() for one in _texts(array)]
        except UnicodeDecodeError:
            raise Invalid(f"output {name!r} is not text, so JSON cannot hold it: ask for it with binary_data") from None
    if datatype == "BF16" and array.dtype != np.float32:
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.reshape(-1).tolist()


def bf16_of(array: Array) -> Array:
    """The upper half of each float, rounded to the nearest, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), rounded)


def _texts(array: Array) -> Iterable[bytes]:
    for one in array.reshape(-1).tolist():
        yield one if isinstance(one, bytes) else str(one).encode()
