"""Values of known types as bytes: a bit for each that is null, what has a fixed size, then the rest one behind another.

Made for reading: most rows are numbers only, which one call of `struct` takes apart.
"""

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.tables.types import FLOATS, INTEGERS, Type

_CODES: Final = {
    **dict(zip(INTEGERS, "bhiqBHIQ", strict=True)),
    **dict(zip(FLOATS, "fd", strict=True)),
    **dict.fromkeys(("moment", "time", "duration"), "q"),
    **dict.fromkeys(("bool", "unknown"), "?"),  # what is unknown is only ever null
    "date": "i",
}
_LENGTH: Final = "I"  # of what stands behind, for types without a fixed size
_COUNT: Final = struct.Struct("<I")
_MOST_LISTS: Final = 128


class _Form(NamedTuple):
    """How values of a type without a fixed size become bytes and come back."""

    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]


class Block:
    """As many values as there are types. What does not fit raises what Python raises; more or fewer values do, too."""

    def __init__(self, kinds: Sequence[Type]) -> None:
        self._count = len(kinds)
        self._no_nulls = bytes(-(-len(kinds) // 8))
        codes = "".join(_CODES.get(kind.word, _LENGTH) for kind in kinds)
        self._layout = struct.Struct(f"<{len(self._no_nulls)}s{codes}")
        self._forms = [(index, _form(kind)) for index, kind in enumerate(kinds) if kind.word not in _CODES]
        self._truths = [index for index, kind in enumerate(kinds) if kind.word in ("bool", "unknown")]
        self._moments = [index for index, kind in enumerate(kinds) if kind.word == "moment"]

    def pack(self, values: Sequence[Any]) -> bytes:
        if len(values) != self._count:
            raise ValueError("there are more or fewer values than types")
        fixed, tail = [0 if one is None else one for one in values], []
        for index in self._truths:
            fixed[index] = values[index] is not None and a_truth(values[index])
        for index, form in self._forms:
            content = b"" if values[index] is None else form.pack(values[index])
            tail.append(content)
            fixed[index] = len(content)
        bits = sum(1 << index for index, one in enumerate(values) if one is None)
        packed = self._layout.pack(bits.to_bytes(len(self._no_nulls), "little"), *fixed)
        return b"".join((packed, *tail)) if tail else packed

    def unpack(self, packed: bytes, at: int = 0) -> tuple[Any, ...]:
        nulls, *values = self._layout.unpack_from(packed, at)
        for index in self._moments:
            values[index] = Moment(values[index])
        if nulls != self._no_nulls:
            bits = int.from_bytes(nulls, "little")
            for index in range(self._count):
                if bits >> index & 1:
                    values[index] = None
        if self._forms:
            self._unpack_rest(values, packed, at + self._layout.size)
        return tuple(values)

    def _unpack_rest(self, values: list[Any], packed: bytes, at: int) -> None:
        for index, form in self._forms:
            if (length := values[index]) is not None:
                values[index] = form.unpack(packed[at : at + length])
                at += length


def a_truth(one: Any) -> bool:
    if one is not True and one is not False and type(one).__name__ != "bool":  # numpy's has the same name
        raise TypeError("neither true nor false")
    return bool(one)


def _form(kind: Type) -> _Form:
    match kind.word:
        case "text":
            return _Form(str.encode, bytes.decode)
        case "bytes":
            return _Form(lambda one: bytes(memoryview(one)), bytes)
        case "decimal":
            return _Form(_pack_decimal, lambda packed: Decimal(packed.decode()))
        case "list":
            return _list_form(kind.inner[0], None)
        case "vector":
            return _list_form(kind.inner[0], kind.sizes[0])
        case "record":
            return _record_form(kind)
    raise Invalid(f"The online store does not keep values of type {kind}.")


def _list_form(inner: Type, size: int | None) -> _Form:
    def pack(values: Sequence[Any]) -> bytes:
        if isinstance(values, (str, bytes)) or (size is not None and len(values) != size):
            raise ValueError("no list, or one of another length")
        return _COUNT.pack(len(values)) + _repeated(inner, len(values)).pack(values)

    def unpack(packed: bytes) -> list[Any]:
        (count,) = _COUNT.unpack_from(packed)
        return list(_repeated(inner, count).unpack(packed, _COUNT.size))

    return _Form(pack, unpack)


def _record_form(kind: Type) -> _Form:
    block, names = Block(kind.inner), kind.names

    def pack(record: dict[str, Any]) -> bytes:
        if len(record) != len(names):
            raise ValueError("there are more or fewer values than names")
        return block.pack([record[name] for name in names])

    return _Form(pack, lambda packed: dict(zip(names, block.unpack(packed), strict=True)))


def _pack_decimal(one: Any) -> bytes:
    if not isinstance(one, Decimal) or not one.is_finite():
        raise TypeError("no decimal")
    return str(one).encode()


@lru_cache(_MOST_LISTS)
def _repeated(kind: Type, count: int) -> Block:
    """Lists of one length are many: what is known of their form is kept."""
    return Block([kind] * count)
