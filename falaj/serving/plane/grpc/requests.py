"""Predictions that are asked for, read from the protocol's message.

Raw tensors are taken out of a message before protobuf sees it, where they are large enough for copies to matter. What is left
may grow to many times its size when protobuf reads it, and has a limit of its own.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from falaj.base.errors import Invalid, TooLarge
from falaj.serving.plane.asking import Ask, Given, Reply, check_texts
from falaj.serving.plane.grpc.messages import ModelInferRequest

Message: TypeAlias = bytes | memoryview

# Where a datatype's numbers stand in `InferTensorContents`.
CONTENTS: Final = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
_DTYPES: Final = {
    "BOOL": np.dtype(np.bool_),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
_MOST_TENSORS: Final = 1000
_MOST_PARTS: Final = 10_000  # of a large message: tensors, parameters
_WORTH_SPLITTING: Final = 16 * 1024
_MOST_NUMBERS: Final = 500_000  # of a tensor that is not raw: each is looked at by itself
_WORTH_AN_ARRAY: Final = 1024  # numbers; fewer are as fast in a list
_MOST_LAYOUTS: Final = 1024
_LONGEST_LAYOUT: Final = 1024  # bytes
_RAW_CONTENTS: Final = 7 << 3 | 2  # the field's number and its wire type, as they stand before it
_PLAIN_FIELDS: Final = frozenset(field << 3 | 2 for field in (1, 2, 5, 6, 7))  # neither id nor parameters


class Caller(Protocol):
    """What a call's head says about who asks, and how."""

    token: str
    key: str
    override: str

    def deadline(self, arrived: float) -> float | None: ...


class RawReply(Reply, Protocol):
    """`raw` says that the client sent raw tensors, and will want such back."""

    raw: bool


class Layout:
    """A request with one raw tensor, but for the tensor. `name` and the rest are what the bytes before it say."""

    __slots__ = ("datatype", "endpoint", "name", "shape", "size", "version", "wanted")

    def __init__(self, ask: Ask, size: int) -> None:
        tensor = ask.given[0]
        self.size = size  # of the whole message
        self.endpoint = ask.endpoint
        self.version = ask.version
        self.wanted = tuple(ask.wanted)
        self.name = tensor.name
        self.datatype = tensor.datatype
        self.shape = tuple(tensor.shape)


class Requests:
    """Reads requests. Most are one raw tensor behind bytes that are the same each time; those bytes are remembered.

    Such a message ends with the tensor, before it stands its length, and that length reaches to the message's end: what stands
    before means the same whatever the tensor is.
    """

    def __init__(self, most_described: int) -> None:
        self._most_described = most_described
        self._starts: dict[int, int] = {}  # where the tensor begins, by the message's size
        self._layouts: dict[bytes, Layout] = {}

    def read(self, message: Message, caller: Caller, reply: RawReply, arrived: float) -> Ask:
        """Raises `Invalid` and `TooLarge`."""
        size = len(message)
        start = self._starts.get(size)
        if start is not None and type(message) is bytes:
            layout = self._layouts.get(message[:start])
            if layout is not None and layout.size == size:
                reply.raw = True
                return Ask(
                    token=caller.token,
                    endpoint=layout.endpoint,
                    given=(Given(layout.name, layout.datatype, layout.shape, message[start:]),),
                    reply=reply,
                    arrived=arrived,
                    version=layout.version,
                    wanted=layout.wanted,
                    key=caller.key,
                    override=caller.override,
                    deadline=caller.deadline(arrived),
                )
        ask = read_ask(message, caller, reply, arrived, self._most_described)
        if size <= _WORTH_SPLITTING and len(ask.given) == 1 and reply.raw and type(message) is bytes:
            self._learn(message, ask)
        return ask

    def _learn(self, message: bytes, ask: Ask) -> None:
        start = len(message) - len(ask.given[0].data)
        if start > _LONGEST_LAYOUT or not _is_plain(message, start):
            return
        if len(self._layouts) >= _MOST_LAYOUTS or len(self._starts) >= _MOST_LAYOUTS:
            self._layouts.clear()
            self._starts.clear()
        self._starts[len(message)] = start
        self._layouts[message[:start]] = Layout(ask, len(message))


def _is_plain(message: bytes, start: int) -> bool:
    """Whether there is nothing but names, one tensor's description, and that tensor's content from here to the end."""
    view = memoryview(message)
    position = 0
    while position < start:
        key, content = _varint(view, position)
        if key not in _PLAIN_FIELDS:
            return False
        size, content = _varint(view, content)
        position = content + size
        if key == _RAW_CONTENTS:
            return content == start and position == len(message)
    return False


def read_ask(message: Message, caller: Caller, reply: RawReply, arrived: float, most_described: int) -> Ask:
    """Raises `Invalid` and `TooLarge`."""
    raws: Sequence[Message]
    if len(message) > _WORTH_SPLITTING:
        described, raws = _split(message, most_described)
        request = parse(ModelInferRequest, described)
    else:
        request = parse(ModelInferRequest, message)
        raws = request.raw_input_contents
    inputs = request.inputs
    outputs = request.outputs
    if len(inputs) > _MOST_TENSORS or len(outputs) > _MOST_TENSORS:
        raise TooLarge(f"a request has at most {_MOST_TENSORS} inputs and as many outputs")
    if raws:
        reply.raw = True
        given = _with_raw(inputs, raws)
    else:
        reply.raw = not inputs
        given = [_typed(tensor) for tensor in inputs]
    deadline = caller.deadline(arrived)
    if request.parameters:
        deadline = _sooner(deadline, request.parameters, arrived)
    return Ask(
        token=caller.token,
        endpoint=request.model_name,
        given=given,
        reply=reply,
        arrived=arrived,
        version=request.model_version,
        wanted=[_wanted(output) for output in outputs] if outputs else (),
        id=request.id,
        key=caller.key,
        override=caller.override,
        deadline=deadline,
    )


def parse(kind: Any, message: Message) -> Any:
    try:
        return kind.FromString(message)
    except DecodeError:
        raise Invalid(f"the {len(message)} bytes sent are no {kind.DESCRIPTOR.full_name}") from None


def _with_raw(inputs: Any, raws: Sequence[Message]) -> list[Given]:
    if len(raws) != len(inputs):
        raise Invalid(f"{len(inputs)} inputs came with {len(raws)} raw_input_contents; each input needs one")
    given = []
    for tensor, raw in zip(inputs, raws, strict=True):
        if tensor.parameters or tensor.HasField("contents"):
            _check_alone(tensor)
        given.append(Given(tensor.name, tensor.datatype, list(tensor.shape), raw))
    return given


def _check_alone(tensor: Any) -> None:
    _check_parameters(tensor)
    if tensor.HasField("contents"):
        raise Invalid(f"input {tensor.name!r} has contents though the request has raw_input_contents; send one of the two")


def _check_parameters(tensor: Any) -> None:
    if "shared_memory_region" in tensor.parameters:
        raise Invalid(f"{tensor.name!r} lies in shared memory, which is not offered here; send the tensor in the request")


def _wanted(output: Any) -> str:
    if output.parameters:
        _check_parameters(output)
        if "classification" in output.parameters:
            raise Invalid(f"output {output.name!r} is wanted as classes, which is not offered here; ask for the plain output")
    name: str = output.name
    return name


def _typed(tensor: Any) -> Given:
    if tensor.parameters:
        _check_parameters(tensor)
    datatype = tensor.datatype
    field = CONTENTS.get(datatype)
    contents = tensor.contents
    if field is None:
        raise Invalid(f"input {tensor.name!r} of type {datatype!r} has no typed contents; send it in raw_input_contents")
    numbers = getattr(contents, field)
    if any(filled.name != field for filled, _ in contents.ListFields()):
        raise Invalid(f"input {tensor.name!r} of type {datatype} has its values in another field than {field}")
    data: list[Any] | memoryview
    if datatype == "BYTES":
        check_texts(len(numbers))
    elif len(numbers) > _MOST_NUMBERS:
        raise TooLarge(f"input {tensor.name!r} has {len(numbers)} numbers in {field}; send more than {_MOST_NUMBERS} as raw")
    if len(numbers) < _WORTH_AN_ARRAY or datatype == "BYTES":
        data = list(numbers)
    else:
        try:
            data = np.fromiter(numbers, _DTYPES[datatype], len(numbers)).data.cast("B")
        except OverflowError:
            raise Invalid(f"input {tensor.name!r} has a number that no {datatype} can be") from None
    return Given(tensor.name, datatype, list(tensor.shape), data)


def _sooner(deadline: float | None, parameters: Any, arrived: float) -> float | None:
    """The protocol's own `timeout` is in microseconds."""
    if "timeout" not in parameters:
        return deadline
    timeout = parameters["timeout"]
    micros: int = timeout.int64_param or timeout.uint64_param
    if micros <= 0:
        return deadline
    own = arrived + micros / 1e6
    return own if deadline is None else min(own, deadline)


def _split(message: Message, most: int) -> tuple[bytes, list[memoryview]]:
    """What describes the tensors, and the raw tensors, which stay where they are."""
    view = memoryview(message)
    described = bytearray()
    raws: list[memoryview] = []
    position, end, parts = 0, len(view), 0
    try:
        while position < end:
            key, start = _varint(view, position)
            after = _end_of_value(view, key & 7, start)
            if after > end:
                raise IndexError
            if key == _RAW_CONTENTS:
                raws.append(view[_varint(view, start)[1] : after])
            else:
                described += view[position:after]
            position = after
            parts += 1
            if parts > _MOST_PARTS or len(described) > most:
                raise TooLarge(
                    f"the request describes more than {most} bytes or {_MOST_PARTS} parts beside raw tensors; "
                    "send large tensors in raw_input_contents"
                )
    except IndexError:
        raise Invalid(f"the {len(message)} bytes sent are no inference.ModelInferRequest") from None
    return bytes(described), raws


def _end_of_value(view: memoryview, wire: int, start: int) -> int:
    if wire == 2:
        size, start = _varint(view, start)
        return start + size
    if wire == 0:
        return _varint(view, start)[1]
    if wire in (1, 5):
        return start + (8 if wire == 1 else 4)
    raise IndexError


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 64:
        byte = view[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    raise IndexError
