"""The protocol's requests and answers for predictions, as JSON and with binary tensors after it.

JSON has no word for NaN and the infinities. Answers say them as the strings "NaN", "Infinity" and "-Infinity": so they stay
JSON for everybody and are still read as numbers by numpy and `tritonclient`. Requests may say them so, or bare as Triton does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, prod
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from falaj.base.errors import Invalid, TooLarge
from falaj.runtimes.engine import Array
from falaj.serving.plane.asking import Answer, Given, check_texts
from falaj.serving.plane.rest.datatypes import (
    Datatype,
    check_elements,
    datatype_of,
    split_bytes,
    to_binary,
    to_list,
)

Body = bytes | bytearray | memoryview
_RANK_MOST: Final = 32
_TENSORS_MOST: Final = 1_000
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Shape = Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=_RANK_MOST)]
_Name = Annotated[str, Meta(max_length=1_000)]


class _InputParameters(Struct, gc=False):
    binary_data_size: Annotated[int, Meta(ge=0)] | None = None
    shared_memory_region: str | None = None


class _Input(Struct, gc=False):
    """As nearly all come: numbers in a flat list."""

    name: _Name
    shape: _Shape
    datatype: str
    data: list[_Int64 | float] | None = None
    parameters: _InputParameters | None = None


class _OddInput(Struct, gc=False):
    name: _Name
    shape: _Shape
    datatype: str
    data: list[Any] | None = None
    parameters: _InputParameters | None = None


class _OutputParameters(Struct, gc=False):
    binary_data: bool | None = None
    classification: int = 0
    shared_memory_region: str | None = None


class _Output(Struct, gc=False):
    name: _Name
    parameters: _OutputParameters | None = None


class _Parameters(Struct, gc=False):
    timeout: int | None = None  # microseconds
    binary_data_output: bool = False
    sequence_id: int | str = 0


class _Infer(Struct, gc=False):
    inputs: Annotated[list[_Input], Meta(max_length=_TENSORS_MOST)]
    id: Annotated[str, Meta(max_length=1_000)] = ""
    outputs: Annotated[list[_Output], Meta(max_length=_TENSORS_MOST)] | None = None
    parameters: _Parameters | None = None


class _OddInfer(Struct, gc=False):
    inputs: Annotated[list[_OddInput], Meta(max_length=_TENSORS_MOST)]
    id: Annotated[str, Meta(max_length=1_000)] = ""
    outputs: Annotated[list[_Output], Meta(max_length=_TENSORS_MOST)] | None = None
    parameters: _Parameters | None = None


_decode: Final = msgspec.json.Decoder(_Infer).decode
_decode_odd: Final = msgspec.json.Decoder(_OddInfer).decode
_encode: Final = msgspec.json.Encoder().encode
_NOTHING: Final[dict[str, bytes]] = {}
SLICE: Final = 16 * 1024  # elements of an answer that are written at once: a millisecond or two


class Asked:
    """A request for a prediction. `binary` names the outputs that are wanted in binary; None where `all_binary` decides."""

    __slots__ = ("all_binary", "binary", "given", "id", "patience", "wanted")

    def __init__(self, given: list[Given], id: str) -> None:
        self.given = given
        self.id = id
        self.wanted: Sequence[str] = ()
        self.binary: frozenset[str] | None = None
        self.all_binary = False
        self.patience: float | None = None

    def is_binary(self, output: str) -> bool:
        """Whether this output is wanted in binary."""
        return self.all_binary if self.binary is None else output in self.binary


def read_infer(body: Body, header_length: int, most_json: int) -> Asked:
    """Raises `Invalid` and `TooLarge`. Nothing refers to `body` afterwards, except binary tensors where there are any."""
    whole = len(body)
    if header_length >= 0:
        if header_length > whole:
            raise Invalid(f"inference-header-content-length is {header_length}, the body has only {whole} bytes")
        view = memoryview(body)
        text: Body = view[:header_length]
        sections: memoryview | None = view[header_length:]
    else:
        text, sections = body, None
    if len(text) > most_json:
        raise TooLarge(f"the request has {len(text)} bytes of JSON; at most {most_json} are taken: send tensors in binary")
    try:
        request: _Infer | _OddInfer = _decode(text)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        request = _read_odd(text)
    if sections is not None:
        check_texts(sum([_most_texts(one, len(sections)) for one in request.inputs]))
    asked = Asked(_given(request.inputs, sections), request.id)
    if request.outputs or request.parameters is not None:
        _read_wishes(asked, request)
    return asked


def _read_odd(text: Body) -> _OddInfer:
    """Nested data, booleans, strings, numbers beyond 64 bits, and JSON that is wrong."""
    try:
        return _decode_odd(text)
    except (ValueError, RecursionError) as error:
        plain = bytes(text)
        if b"NaN" not in plain and b"Infinity" not in plain:
            raise Invalid(f"the request is not as the protocol has it: {_said(error)}") from None
    try:
        loaded = json.loads(plain.decode())
        _encode(loaded)  # refuses halves of characters, which the standard library lets through
        return msgspec.convert(loaded, _OddInfer)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the request is not as the protocol has it: {_said(error)}") from None


def _said(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _given(inputs: Sequence[_Input | _OddInput], sections: memoryview | None) -> list[Given]:
    if not inputs:
        raise Invalid("the request has no inputs")
    given, at = [], 0
    for one in inputs:
        data, shape = one.data, one.shape
        count = prod(shape)
        datatype = datatype_of(one.datatype, one.name)
        if data is not None:
            if type(one) is _OddInput:
                data = _flat(data, shape, one.name)
            if len(data) != count:
                raise Invalid(f"input {one.name!r} has {len(data)} elements; its shape {list(shape)} wants {_shown(count)}")
            if datatype.kind != "float" or type(one) is _OddInput:
                data = check_elements(data, datatype, one.name)
            if one.parameters is not None and one.parameters.binary_data_size is not None:
                raise Invalid(f"input {one.name!r} has both data and binary_data_size: one of them is expected")
            given.append(Given(one.name, one.datatype, shape, data))
        else:
            size = _section_size(one, sections, at)
            section = sections[at : at + size]  # type: ignore[index]  # there are sections where there is a size
            at += size
            given.append(Given(one.name, one.datatype, shape, _from_section(section, datatype, one, count)))
    if sections is not None and at != len(sections):
        raise Invalid(f"the body has {len(sections)} bytes after its JSON; the inputs account for {at}")
    if len(given) > 1 and len({one.name for one in given}) != len(given):
        raise Invalid(f"the inputs {', '.join(repr(one.name) for one in given[:20])} are not all named differently")
    return given


def _most_texts(one: _Input | _OddInput, room: int) -> int:
    """How many elements may have to be made of a BYTES tensor, each with its length in four bytes."""
    return min(prod(one.shape), room // 4) if one.datatype == "BYTES" and one.data is None else 0


def _shown(count: int) -> str:
    return str(count) if count < 10**15 else "more than any memory holds"


def _section_size(one: _Input | _OddInput, sections: memoryview | None, at: int) -> int:
    parameters = one.parameters
    if parameters is not None and parameters.shared_memory_region is not None:
        raise Invalid(f"input {one.name!r} lies in shared memory, which is not offered: send its data")
    if parameters is None or parameters.binary_data_size is None:
        raise Invalid(f"input {one.name!r} has no data: give data, or binary_data_size with the bytes after the JSON")
    if sections is None:
        raise Invalid(f"input {one.name!r} is binary, but the header inference-header-content-length is missing")
    if parameters.binary_data_size > len(sections) - at:
        left = len(sections) - at
        raise Invalid(f"input {one.name!r} is said to have {parameters.binary_data_size} bytes; {left} are left in the body")
    return parameters.binary_data_size


def _from_section(section: memoryview, datatype: Datatype, one: _Input | _OddInput, count: int) -> list[bytes] | memoryview:
    if not datatype.size:
        return split_bytes(section, count, one.name)
    if len(section) != count * datatype.size:
        wanted = _shown(count * datatype.size)
        raise Invalid(f"input {one.name!r} has {len(section)} bytes; {one.datatype} of shape {list(one.shape)} wants {wanted}")
    return section


def _flat(data: list[Any], shape: Sequence[int], name: str) -> list[Any]:
    """Nested lists made one, each level held against the shape; what is flat already stays."""
    if not any(type(one) is list for one in data):
        return data
    for depth, length in enumerate(shape):
        if depth:
            if not all(type(one) is list for one in data):
                raise Invalid(f"the data of input {name!r} is nested in some places and not in others")
            if any(len(one) != length for one in data):
                raise Invalid(
                    f"the data of input {name!r} has lists at depth {depth} that are not {length} long, as its shape says"
                )
            data = [element for one in data for element in one]
        elif len(data) != length:
            raise Invalid(f"the data of input {name!r} has {len(data)} lists; its shape {list(shape)} says {length}")
    if any(type(one) is list for one in data):
        raise Invalid(f"the data of input {name!r} is nested more deeply than its shape {list(shape)}")
    return data


def _read_wishes(asked: Asked, request: _Infer | _OddInfer) -> None:
    parameters = request.parameters
    if parameters is not None:
        asked.all_binary = parameters.binary_data_output
        if parameters.timeout is not None and parameters.timeout > 0:
            asked.patience = parameters.timeout / 1_000_000
        if parameters.sequence_id:
            raise Invalid("the request belongs to a sequence; models here keep nothing between requests")
    if not request.outputs:
        return
    binary = []
    for one in request.outputs:
        wish = one.parameters
        if wish is not None and wish.classification:
            raise Invalid(f"output {one.name!r} is asked for as a classification, which is not offered: ask for its values")
        if wish is not None and wish.shared_memory_region is not None:
            raise Invalid(f"output {one.name!r} is asked for in shared memory, which is not offered")
        if asked.all_binary if wish is None or wish.binary_data is None else wish.binary_data:
            binary.append(one.name)
    asked.wanted = [one.name for one in request.outputs]
    if len(set(asked.wanted)) != len(asked.wanted):
        raise Invalid("an output is asked for twice")
    asked.binary = frozenset(binary)


class Writer:
    """Writes answers. What is the same in all answers of a revision is made once."""

    def __init__(self) -> None:
        self._openings: dict[tuple[str, int, int, str, str], bytes] = {}
        self._tensors: dict[tuple[str, str], bytes] = {}
        self._shapes: dict[tuple[int, ...], bytes] = {}

    def write(
        self, answer: Answer, asked: Asked, written: Mapping[str, bytes] = _NOTHING
    ) -> tuple[bytes, list[bytes | memoryview]]:
        """The JSON, and the binary tensors that go after it. `written` holds the data of outputs that is JSON already."""
        key = (answer.endpoint, answer.revision, answer.version, answer.model, answer.variant)
        opening = self._openings.get(key) or self._open(key)
        if answer.unknown:
            opening = b'%b,"unknown_entities":%d}' % (opening[:-1], answer.unknown)  # among the parameters, which come last
        sections: list[bytes | memoryview] = []
        binary, all_binary, tensors = asked.binary, asked.all_binary, []
        for name, datatype, array in zip(answer.names, answer.datatypes, answer.arrays, strict=True):
            tensor = self._tensors.get((name, datatype)) or self._open_tensor(name, datatype)
            shape = self._shapes.get(array.shape) or self._write_shape(array.shape)
            if all_binary if binary is None else name in binary:
                section = to_binary(array, datatype)
                sections.append(section)
                tensors.append(b'%b%b,"parameters":{"binary_data_size":%d}}' % (tensor, shape, len(section)))
            else:
                data = written.get(name) or _write_data(to_list(array, datatype, name))
                tensors.append(b'%b%b,"data":%b}' % (tensor, shape, data))
        said = tensors[0] if len(tensors) == 1 else b",".join(tensors)
        if asked.id:
            return b'%b,"id":%b,"outputs":[%b]}' % (opening, _encode(asked.id), said), sections
        return b'%b,"outputs":[%b]}' % (opening, said), sections

    def _open(self, key: tuple[str, int, int, str, str]) -> bytes:
        endpoint, revision, version, model, variant = key
        parameters = {"model": model, "version": version} | ({"variant": variant} if variant else {})
        made = _encode({"model_name": endpoint, "model_version": str(revision), "parameters": parameters})[:-1]
        if len(self._openings) >= 4_096:
            self._openings.clear()
        self._openings[key] = made
        return made

    def _open_tensor(self, name: str, datatype: str) -> bytes:
        made = b'{"name":%b,"datatype":%b,"shape":' % (_encode(name), _encode(datatype))
        if len(self._tensors) >= 4_096:
            self._tensors.clear()
        self._tensors[name, datatype] = made
        return made

    def _write_shape(self, shape: tuple[int, ...]) -> bytes:
        made = _encode(shape)
        if len(self._shapes) >= 4_096:
            self._shapes.clear()
        self._shapes[shape] = made
        return made


def slices_of(array: Array, datatype: str, name: str) -> Iterator[bytes]:
    """The data of an output as JSON, in slices to be joined by commas, and without the brackets around all of them."""
    flat = array.reshape(-1)
    for at in range(0, flat.size, SLICE):
        yield _write_data(to_list(flat[at : at + SLICE], datatype, name))[1:-1]


def _write_data(elements: list[Any]) -> bytes:
    written = _encode(elements)
    # msgspec writes null for what is not finite; nothing else that a tensor holds is written so, but text may say it.
    return _encode(finite_or_word(elements)) if b"null" in written else written


def finite_or_word(elements: list[Any]) -> list[Any]:
    return [one if type(one) is not float or isfinite(one) else _WORDS[str(one)] for one in elements]


_WORDS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
