"""What an ONNX file says about other files, read without any library for it.

ONNX Runtime would look for tensors that live in other files below the working directory; here they are found among the
model's own files or nowhere. The file is protobuf; only the parts that lead to a tensor are walked.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final

from falaj.runtimes.errors import NotLoadable

# Message -> field number -> message in that field. Numbers are those of onnx.proto.
_PARTS: Final[dict[str, dict[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 11: "input", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
    "input": {},
    "entry": {},
}
_DEPTH: Final = 100  # protobuf's own limit
# Trees are written as long runs of single numbers: fields 7 (float) and 8 (int64) of an attribute.
_NUMBERS: Final = re.compile(rb"(?:\x3d.{4}|\x40[\x80-\xff]{0,9}[\x00-\x7f])+", re.DOTALL)


def external_files(main: str, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that tensors of the model are in, by the names the model calls them."""
    model = contents[main]
    if b"location" not in model:  # the key of an external tensor's entry: nearly every model ends here
        return {}
    found: dict[str, bytes] = {}
    for path, entry in _walk(model):
        if path[-1] != "entry":
            continue
        texts = {number: bytes(text) for number, text in _fields(entry) if text is not None}
        if texts.get(1) != b"location":
            continue
        location = texts.get(2, b"").decode("utf-8", "replace")
        name = posixpath.join(posixpath.dirname(main), location)
        if posixpath.isabs(location) or ".." in location.split("/") or "*" in location or name not in contents:
            raise NotLoadable(f"the model keeps tensors in {location!r}, which is not one of its files")
        found[location] = contents[name]
    return found


def inputs_without_shape(model: bytes) -> list[str]:
    """The names of the graph's inputs that do not even say how many axes they have."""
    inputs = [message for path, message in _walk(model) if path == ("graph", "input")]
    return [
        b"".join(bytes(name) for name in _inside([described], 1)).decode("utf-8", "replace")
        for described in inputs
        if not _inside(_inside(_inside([described], 2), 1), 2)  # its type, the tensor's type, the shape
    ]


def _inside(messages: list[memoryview], wanted: int) -> list[memoryview]:
    return [part for message in messages for number, part in _fields(message) if number == wanted and part is not None]


def _walk(model: bytes) -> Iterator[tuple[tuple[str, ...], memoryview]]:
    """Every message of `_PARTS` in the file, with the kinds of the messages it is in, outermost first."""
    waiting: list[tuple[tuple[str, ...], memoryview]] = [((), memoryview(model))]
    while waiting:
        path, message = waiting.pop()
        parts = _PARTS[path[-1] if path else "model"]
        if len(path) >= _DEPTH:
            raise NotLoadable(f"the ONNX file is nested more than {_DEPTH} deep")
        fields = _fields(message)
        children = [((*path, parts[number]), part) for number, part in fields if number in parts and part is not None]
        yield from children
        waiting.extend(children)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Number and bytes of each field of a protobuf message; fields that hold plain numbers come as none."""
    at, end = 0, len(message)
    while at < end:
        if run := _NUMBERS.match(message, at):
            at = run.end()
            continue
        key, at = _varint(message, at)
        if key >> 32:  # which others would read as another field than is seen here
            raise NotLoadable("the ONNX file is not protobuf: a field has a number that no field can have")
        number, kind = key >> 3, key & 7
        if kind == 0:
            at = _varint(message, at)[1]
            yield number, None
        elif kind == 2:
            length, at = _varint(message, at)
            if length > end - at:
                raise NotLoadable("the ONNX file is cut short")
            yield number, message[at : at + length]
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
            yield number, None
        else:
            raise NotLoadable(f"the ONNX file is not protobuf: a field of kind {kind}")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    number = 0
    for shift, byte in enumerate(message[at : at + 10]):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return number, at + shift + 1
    raise NotLoadable("the ONNX file is not protobuf, or cut short")
