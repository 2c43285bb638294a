"""Predictions that were made, written as the protocol's messages.

Written by hand: but for the numbers, an answer is a few fields that are nearly always the same, and those are remembered.
"""

import struct
from typing import Any, Final

from falaj.runtimes.engine import Array
from falaj.serving.plane.asking import Answer
from falaj.serving.plane.grpc.messages import ModelInferResponse
from falaj.serving.plane.grpc.requests import CONTENTS

_REMEMBERED: Final = 4096
_LARGE: Final = 64 * 1024
_RAW_CONTENTS: Final = bytes((6 << 3 | 2,))
_LENGTH: Final = struct.Struct("<I")


def _varint(number: int) -> bytes:
    if number < 128:
        return bytes((number,))
    written = bytearray()
    while number >= 128:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def _field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


def _parameter(key: str, choice: bytes) -> bytes:
    return _field(4, _field(1, key.encode()) + _field(2, choice))


_FINAL: Final = _parameter("triton_final_response", b"\x08\x01")


class Answers:
    """Writes answers; remembers the parts that come again."""

    def __init__(self) -> None:
        self._leads: dict[tuple[str, int, str, int, str], bytes] = {}
        self._outputs: dict[tuple[str, str, tuple[int, ...], int], bytes] = {}

    def encode(self, answer: Answer, raw: bool) -> bytes:
        """A `ModelInferResponse`, with raw tensors or typed ones."""
        told = (answer.endpoint, answer.revision, answer.model, answer.version, answer.variant)
        lead = self._leads.get(told) or self._lead(answer)
        if answer.unknown:
            lead += _parameter("unknown_entities", b"\x10" + _varint(answer.unknown))
        if not raw and all(datatype in CONTENTS for datatype in answer.datatypes):
            return _typed(lead, answer)
        parts: list[Any] = [lead]
        if answer.id:
            parts.append(_field(3, answer.id.encode()))
        outputs = self._outputs
        for name, datatype, array in zip(answer.names, answer.datatypes, answer.arrays, strict=True):
            content = raw_content(datatype, array)
            size = content.nbytes if isinstance(content, memoryview) else len(content)
            key = (name, datatype, array.shape, size)
            parts.append(outputs.get(key) or self._output(*key))
            parts.append(content)
        return b"".join(parts)

    def encode_in_stream(self, answer: Answer, raw: bool) -> bytes:
        """A `ModelStreamInferResponse`. There is one answer to each request, so that each is the final one."""
        return _field(2, self.encode(answer, raw) + _FINAL)

    def _lead(self, answer: Answer) -> bytes:
        lead = b"".join(
            (
                _field(1, answer.endpoint.encode()),
                _field(2, str(answer.revision).encode()),
                _parameter("model", _field(3, answer.model.encode())),
                _parameter("version", b"\x10" + _varint(answer.version)),
                _parameter("variant", _field(3, answer.variant.encode())) if answer.variant else b"",
            )
        )
        if len(self._leads) >= _REMEMBERED:
            self._leads.clear()
        self._leads[answer.endpoint, answer.revision, answer.model, answer.version, answer.variant] = lead
        return lead

    def _output(self, name: str, datatype: str, shape: tuple[int, ...], size: int) -> bytes:
        """The output without its content, and what stands before that: fields may come in any order."""
        sizes = b"".join([_varint(length) for length in shape])
        output = _field(5, _field(1, name.encode()) + _field(2, datatype.encode()) + _field(3, sizes))
        output += _RAW_CONTENTS + _varint(size)
        if len(self._outputs) >= _REMEMBERED:
            self._outputs.clear()
        self._outputs[name, datatype, shape, size] = output
        return output


def encode_stream_error(id: str, words: str) -> bytes:
    """A `ModelStreamInferResponse` that says which request failed, and why."""
    return _field(1, words.encode(errors="replace")) + _field(2, _field(3, id.encode()))


def raw_content(datatype: str, array: Array) -> bytes | memoryview:
    """Little-endian, rows first; text with its length before each."""
    if datatype == "BYTES":
        return b"".join([_LENGTH.pack(len(text)) + text for text in _texts(array)])
    if array.nbytes < _LARGE or not array.flags.c_contiguous:
        return array.tobytes()
    return array.data


def _texts(array: Array) -> list[bytes]:
    return [text if isinstance(text, bytes) else str(text).encode() for text in array.ravel().tolist()]


def _typed(lead: bytes, answer: Answer) -> bytes:
    message = ModelInferResponse.FromString(lead)
    message.id = answer.id
    for name, datatype, array in zip(answer.names, answer.datatypes, answer.arrays, strict=True):
        output = message.outputs.add(name=name, datatype=datatype, shape=array.shape)
        values = _texts(array) if datatype == "BYTES" else array.ravel().tolist()
        getattr(output.contents, CONTENTS[datatype]).extend(values)
    written: bytes = message.SerializeToString()
    return written
