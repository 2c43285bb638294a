"""Files of Avro, as lakes write lists of files in them: records, whatever their schema says. Read inside walls.

https://avro.apache.org/docs/1.12.0/specification/
"""

import io
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from falaj.base.errors import Invalid

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_LONGEST: Final = 64 << 20
_DEEPEST: Final = 30
_META: Final = {"type": "map", "values": "bytes"}


class Avro:
    """`about` is what the file says of itself. Raises `Invalid`, here and from `records`."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)
        self._size = len(content)
        if self._file.read(4) != _MAGIC:
            raise Invalid("This is no file of Avro.")
        self._names: dict[str, Any] = {}
        self.about: dict[str, bytes] = self._value(_META, 0)
        self._sync = self._bytes(_SYNC)
        self._schema = json.loads(self.about["avro.schema"])
        self._learn(self._schema, 0)
        self._codec = self.about.get("avro.codec", b"null").decode()

    def records(self) -> Iterator[dict[str, Any]]:
        while self._file.tell() < self._size:
            count, size = self._long(), self._long()
            block = self._decompressed(self._bytes(size))
            if not 0 <= count <= len(block):  # no record of a list of files is empty
                raise Invalid("The file of Avro is damaged: a block has more records than bytes.")
            if self._bytes(_SYNC) != self._sync:
                raise Invalid("A block of the file of Avro is damaged.")
            outer, self._file = self._file, io.BytesIO(block)
            for _ in range(count):
                yield self._value(self._schema, 0)
            self._file = outer

    def _decompressed(self, block: bytes) -> bytes:
        match self._codec:
            case "null":
                return block
            case "deflate":
                inflating = zlib.decompressobj(-15)
                made = inflating.decompress(block, _LONGEST)
                if inflating.unconsumed_tail:
                    raise Invalid("A block of the file of Avro is too large.")
                return made
            case "zstandard":
                return bytes(pa.CompressedInputStream(pa.BufferReader(block), "zstd").read(_LONGEST))
        raise Invalid(f"The file of Avro is compressed by {self._codec[:50]!r}, which is not read here.")

    def _learn(self, schema: Any, depth: int) -> None:
        """Types that are named once and meant again by their names."""
        if depth > _DEEPEST:
            raise Invalid("The schema of the file of Avro is too deep.")
        if isinstance(schema, list):
            for one in schema:
                self._learn(one, depth + 1)
        elif isinstance(schema, Mapping):
            if "name" in schema and schema.get("type") in ("record", "fixed", "enum"):
                self._names[schema["name"]] = schema
            for field in schema.get("fields", ()):
                self._learn(field["type"], depth + 1)
            for name in ("items", "values", "type"):
                self._learn(schema.get(name), depth + 1)

    def _value(self, schema: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise Invalid("The values of the file of Avro are too deep.")
        if isinstance(schema, list):
            at = self._long()
            if not 0 <= at < len(schema):
                raise Invalid("The file of Avro is damaged.")
            return self._value(schema[at], depth + 1)
        kind = schema["type"] if isinstance(schema, Mapping) else schema
        if not isinstance(kind, str):
            return self._value(kind, depth + 1)
        match kind:
            case "record":
                return {field["name"]: self._value(field["type"], depth + 1) for field in schema["fields"]}
            case "array":
                return [self._value(schema["items"], depth + 1) for _ in self._counted()]
            case "map":
                return {self._bytes(self._long()).decode(): self._value(schema["values"], depth + 1) for _ in self._counted()}
            case "fixed":
                return self._bytes(int(schema["size"]))
            case "enum":
                return schema["symbols"][self._long()]
        return self._plain(kind, depth)

    def _plain(self, kind: str, depth: int) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return self._bytes(1) != b"\0"
            case "int" | "long":
                return self._long()
            case "float":
                return struct.unpack("<f", self._bytes(4))[0]
            case "double":
                return struct.unpack("<d", self._bytes(8))[0]
            case "bytes":
                return self._bytes(self._long())
            case "string":
                return self._bytes(self._long()).decode()
        if kind in self._names:
            return self._value(self._names[kind], depth + 1)
        raise Invalid(f"The file of Avro has a type {kind[:50]!r}, which is not read here.")

    def _counted(self) -> Iterator[None]:
        """Once for each item: blocks of some, until one of none."""
        while count := self._long():
            if count < 0:
                self._long()  # the size of the block in bytes
            if abs(count) > len(self._file.getbuffer()) - self._file.tell():
                raise Invalid("The file of Avro is cut short.")
            for _ in range(abs(count)):
                yield None

    def _long(self) -> int:
        found, shift = 0, 0
        while True:
            byte = self._bytes(1)[0]
            found |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift > 63:
                raise Invalid("The file of Avro is damaged: a number has no end.")

    def _bytes(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST:
            raise Invalid("The file of Avro is damaged: a length cannot be.")
        found = self._file.read(size)
        if len(found) != size:
            raise Invalid("The file of Avro is cut short.")
        return found
