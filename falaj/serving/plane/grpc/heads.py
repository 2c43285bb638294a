"""From header blocks to requests: HPACK, and the memory of blocks that were read before.

We announce a table of no size. From the moment a client keeps to that, a block means the same whenever and by whomever it is
sent, so that a block that was decoded and accepted once need never be decoded again. Before that moment, and for a client that
never says that it keeps to it, each connection decodes for itself.
"""

from typing import Final, Generic, TypeVar

import hpack

from falaj.serving.plane.grpc.fields import Field
from falaj.serving.plane.grpc.frames import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, ConnectionFailed

T = TypeVar("T")

_MOST_BLOCKS: Final = 4096
_MOST_FIELDS: Final = 8192
_MOST_BYTES: Final = 8 * 1024 * 1024  # of each


class Memory(Generic[T]):
    """What was read of late, by its bytes. Two halves: when the newer is full it becomes the older, which is forgotten."""

    __slots__ = ("_most_bytes", "_most_entries", "_newer", "_older", "_size")

    def __init__(self, most_entries: int, most_bytes: int) -> None:
        self._most_entries = most_entries // 2
        self._most_bytes = most_bytes // 2
        self._newer: dict[bytes, T] = {}
        self._older: dict[bytes, T] = {}
        self._size = 0  # of the newer's keys

    def get(self, key: bytes) -> T | None:
        found = self._newer.get(key)
        if found is None:
            found = self._older.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: bytes, read: T) -> None:
        self._size += len(key)
        if len(self._newer) >= self._most_entries or self._size > self._most_bytes:
            self._older, self._newer = self._newer, {}
            self._size = len(key)
        self._newer[key] = read

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)


class StatelessFields:
    """Decodes blocks whose sender keeps no table. Fields are remembered one by one: from request to request mostly all but one
    stay as they were (`grpc-timeout`)."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._known: Memory[Field] = Memory(_MOST_FIELDS, _MOST_BYTES)
        self._decoder = hpack.Decoder(max_header_list_size=largest)
        self._decoder.header_table_size = 0
        self._decoder.max_allowed_table_size = 0
        self.decoded = 0  # bytes of fields that were not remembered

    def decode(self, block: bytes) -> list[Field]:
        """Raises `ConnectionFailed`."""
        fields: list[Field] = []
        known = self._known
        position, end, size = 0, len(block), 0
        try:
            while position < end:
                after = _end_of_field(block, position)
                part = block[position:after]
                position = after
                field = known.get(part)
                if field is None:
                    self.decoded += len(part)
                    read = _decode(self._decoder, part)
                    if not read:  # an update of the table's size, which may only be to none
                        if fields:
                            raise ConnectionFailed(COMPRESSION_ERROR, "a table size update after a field")
                        continue
                    field = read[0]
                    known.keep(part, field)
                fields.append(field)
                size += len(field[0]) + len(field[1]) + 32
                if size > self._largest:
                    raise _too_large(self._largest)
        except IndexError:
            raise ConnectionFailed(COMPRESSION_ERROR, "the header block ends inside a field") from None
        return fields


class StatefulFields:
    """Decodes the blocks of one connection, each in the light of those before it."""

    __slots__ = ("_decoder", "_largest", "bound")

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._decoder = hpack.Decoder(max_header_list_size=largest)
        self.bound = False  # whether the client acknowledged that its table is to have no size

    @property
    def stateless(self) -> bool:
        return self.bound and self._decoder.header_table_size == 0

    def decode(self, block: bytes) -> list[Field]:
        """Raises `ConnectionFailed`."""
        if self.bound and block[:1] and block[0] & 0xE0 == 0x20:
            self._decoder.max_allowed_table_size = 0
        return _decode(self._decoder, block)


def _decode(decoder: hpack.Decoder, block: bytes) -> list[Field]:
    try:
        return [(bytes(name), bytes(content)) for name, content in decoder.decode(block, raw=True)]
    except hpack.OversizedHeaderListError:
        raise _too_large(decoder.max_header_list_size) from None
    except (hpack.HPACKError, IndexError) as error:
        raise ConnectionFailed(COMPRESSION_ERROR, type(error).__name__) from None


def _too_large(largest: int) -> ConnectionFailed:
    return ConnectionFailed(ENHANCE_YOUR_CALM, f"the header fields take more than {largest} bytes")


def _end_of_field(block: bytes, position: int) -> int:
    """Where the field that begins here ends. Only lengths are read; whether it holds, the decoder says."""
    first = block[position]
    if first & 0x80:
        return _number(block, position, 0x7F)[1]
    if first & 0x40:
        mask = 0x3F
    elif first & 0x20:
        return _number(block, position, 0x1F)[1]
    else:
        mask = 0x0F
    after_name = _number(block, position, mask)[1] if first & mask else _end_of_string(block, position + 1)
    return _end_of_string(block, after_name)


def _end_of_string(block: bytes, position: int) -> int:
    size, position = _number(block, position, 0x7F)
    if position + size > len(block):
        raise IndexError
    return position + size


def _number(block: bytes, position: int, mask: int) -> tuple[int, int]:
    number = block[position] & mask
    position += 1
    if number < mask:
        return number, position
    for shift in (0, 7, 14, 21, 28):
        byte = block[position]
        position += 1
        number += (byte & 127) << shift
        if byte < 128:
            return number, position
    raise ConnectionFailed(COMPRESSION_ERROR, "a number in the header block is too long")


class Heads(Generic[T]):
    """What all connections of a worker remember together: accepted requests by their blocks."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.known: Memory[T] = Memory(_MOST_BLOCKS, _MOST_BYTES)
        self.fields = StatelessFields(largest)
