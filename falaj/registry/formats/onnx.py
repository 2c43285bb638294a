"""What an ONNX file needs, read from its protobuf without the library: operators, inputs, outputs, files of its own.

Weights are stepped over, so that a model of gigabytes costs no more than its graph.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from falaj.base.values import value
from falaj.registry.formats.content import Content, Malformed

# Operators of these domains are part of the runtime. The key is as the file spells it; the empty one is ONNX's own.
STANDARD: Final = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc")
DEEPEST = 50
MOST_PARTS = 1_000_000
PARTS_LOOKED_AT = 2000
LONGEST = 1000
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
_EXTERNAL = 1  # TensorProto.DataLocation


@value
class OnnxModel:
    """`operators` are how often each is used, the most frequent first; `custom` those that the runtime does not know, as
    `domain:name`; `external` the files that hold weights."""

    ir_version: int
    opsets: tuple[tuple[str, int], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[tuple[str, int], ...]
    custom: tuple[str, ...]
    external: tuple[str, ...]


def read_onnx(content: Content) -> OnnxModel:
    """Raises `Malformed` where it is no ONNX model."""
    return _Reading(content, MOST_PARTS).model()


def looks_like_onnx(content: Content) -> bool:
    """By its beginning, where it is long: a version has many files, and reading each to its end would take minutes."""
    try:
        _Reading(content, PARTS_LOOKED_AT).model()
    except _TooMany:
        return True
    except Malformed:
        return False
    return True


class _TooMany(Malformed):
    """It was written in protobuf as far as it was read."""


class _Part(NamedTuple):
    """A field of a message: a number, or where its bytes are. A tuple, for there may be a million of them."""

    field: int
    number: int
    start: int
    end: int


class _Reading:
    def __init__(self, content: Content, most_parts: int) -> None:
        self._content = content
        self._most_parts = most_parts
        self._parts = 0
        self._used: Counter[tuple[str, str]] = Counter()
        self._own: set[tuple[str, str]] = set()
        self._external: set[str] = set()
        self._opsets: dict[str, int] = {}
        self._inputs: list[str] = []
        self._outputs: list[str] = []
        self._initialised: set[str] = set()

    def model(self) -> OnnxModel:
        ir_version, graphs = 0, 0
        for part in self._fields(0, self._content.size):
            if part.field == 1:
                ir_version = part.number
            elif part.field == 7:
                graphs += 1
                self._graph(part, DEEPEST, outermost=True)
            elif part.field == 8:
                self._opset(part)
            elif part.field == 25:
                self._function(part)
        if graphs != 1 or not ir_version or not self._opsets:
            raise Malformed("it lacks what every ONNX model has: a version, a graph and the operators it was made for")
        custom = {f"{domain}:{name}" for domain, name in self._used.keys() - self._own if domain not in STANDARD}
        return OnnxModel(
            ir_version=ir_version,
            opsets=tuple(sorted(self._opsets.items())),
            inputs=tuple(name for name in self._inputs if name not in self._initialised),
            outputs=tuple(self._outputs),
            operators=tuple((name, count) for (_, name), count in self._used.most_common()),
            custom=tuple(sorted(custom)),
            external=tuple(sorted(self._external)),
        )

    def _graph(self, graph: _Part, depth: int, *, outermost: bool = False) -> None:
        if depth == 0:
            raise Malformed(f"its graphs are nested more than {DEEPEST} levels deep")
        for part in self._inside(graph):
            if part.field == 1:
                self._node(part, depth)
            elif part.field == 5:
                self._initialised.add(self._tensor(part))
            elif part.field == 15:
                self._each_tensor(part, 1, 2)
            elif outermost and part.field == 11:
                self._inputs.append(self._named(part, 1))
            elif outermost and part.field == 12:
                self._outputs.append(self._named(part, 1))

    def _node(self, node: _Part, depth: int) -> None:
        domain = name = ""
        for part in self._inside(node):
            if part.field == 4:
                name = self._text(part)
            elif part.field == 7:
                domain = self._text(part)
            elif part.field == 5:
                self._attribute(part, depth)
        self._used[domain, name] += 1

    def _attribute(self, attribute: _Part, depth: int) -> None:
        for part in self._inside(attribute):
            if part.field in (6, 11):
                self._graph(part, depth - 1)
            elif part.field in (5, 10):
                self._tensor(part)
            elif part.field in (22, 23):
                self._each_tensor(part, 1, 2)

    def _function(self, function: _Part) -> None:
        """A function is an operator that the model brings along."""
        domain = name = ""
        for part in self._inside(function):
            if part.field == 1:
                name = self._text(part)
            elif part.field == 10:
                domain = self._text(part)
            elif part.field == 7:
                self._node(part, DEEPEST)
        self._own.add((domain, name))

    def _opset(self, opset: _Part) -> None:
        domain, version = "", 0
        for part in self._inside(opset):
            if part.field == 1:
                domain = self._text(part)
            elif part.field == 2:
                version = part.number
        self._opsets[domain] = version

    def _each_tensor(self, holder: _Part, *fields: int) -> None:
        for part in self._inside(holder):
            if part.field in fields:
                self._tensor(part)

    def _tensor(self, tensor: _Part) -> str:
        """The name; where its values are in a file of their own, that file is noted."""
        name, location, outside = "", "", False
        for part in self._inside(tensor):
            if part.field == 8:
                name = self._text(part)
            elif part.field == 14:
                outside = part.number & 0xFFFFFFFF == _EXTERNAL  # as readers in C++ cut it
            elif part.field == 13 and self._named(part, 1) == "location":
                location = self._named(part, 2)
        if outside:
            self._external.add(location)
        return name

    def _named(self, message: _Part, field: int) -> str:
        return next((self._text(part) for part in self._inside(message) if part.field == field), "")

    def _text(self, part: _Part) -> str:
        if not 0 <= part.end - part.start <= LONGEST:
            raise Malformed(f"it has a name that is no text of at most {LONGEST} bytes")
        return self._content.at(part.start, part.end - part.start).decode(errors="replace")

    def _inside(self, message: _Part) -> Iterator[_Part]:
        return self._fields(message.start, message.end)

    def _fields(self, position: int, end: int) -> Iterator[_Part]:
        while position < end:
            self._parts += 1
            if self._parts > self._most_parts:
                raise _TooMany(f"its graph has more than {self._most_parts} parts")
            key, position = self._varint(position, end)
            if key >> 32:  # which others would read as another field than is seen here
                raise Malformed("it has a field with a number that no field can have")
            field, wire = key >> 3, key & 7
            number, start = 0, end  # what is no message has nothing inside
            if wire == _VARINT:
                number, position = self._varint(position, end)
            elif wire == _BYTES:
                length, start = self._varint(position, end)
                position = start + length
            else:
                position += _FIXED.get(wire, self._content.size)
            if position > end or not field:
                raise Malformed("it is not written in protobuf")
            yield _Part(field, number, start, position)

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        ahead = self._content.at(position, min(10, end - position))
        number = 0
        for index, byte in enumerate(ahead):
            number |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return number, position + index + 1
        raise Malformed("it is not written in protobuf")
