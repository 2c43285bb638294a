"""The requests every server gets, in each protocol's form, written to files for `load.c` and `requests.lua`; and what they
answered, read back as numbers. No library between: a client library's own cost is not what is compared."""

import json
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from falaj.base.values import value

GRPC_METHOD = "/inference.GRPCInferenceService/ModelInfer"


@value
class Questions:
    """Rows of a model, as float32 bytes, and the right answer to each."""

    name: str
    file: Path
    shape: tuple[int, ...]
    rows: tuple[bytes, ...]
    answers: tuple[tuple[float, ...], ...]

    @property
    def outputs(self) -> int:
        return len(self.answers[0])


def read_questions(folder: Path, name: str) -> Questions:
    told = json.loads((folder / "models.json").read_text())[name]
    count, rows = told["count"], (folder / f"{name}.rows").read_bytes()
    width, answers = len(rows) // count, array("f", (folder / f"{name}.answers").read_bytes())
    return Questions(
        name=name,
        file=folder / f"{name}.onnx",
        shape=tuple(told["shape"]),
        rows=tuple(rows[number * width : (number + 1) * width] for number in range(count)),
        answers=tuple(tuple(answers[at : at + told["outputs"]]) for at in range(0, len(answers), told["outputs"])),
    )


@value
class Target:
    """Whom a request asks, and as whom."""

    path: str
    model: str
    token: str


Record = tuple[bytes, bytes]  # head and body


@value
class Form:
    """How a row becomes a request's body, with headers that belong to it, and how an answer becomes numbers."""

    name: str
    body: Callable[[Questions, bytes, str], tuple[bytes, str]]
    numbers: Callable[[bytes], Sequence[float]]
    http2: bool = False


# --- bodies ------------------------------------------------------------------------------------------------------------------


def _values(row: bytes) -> list[float]:
    return [round(number, 6) for number in array("f", row)]


def _compact(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _input(questions: Questions, **more: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [1, *questions.shape], "datatype": "FP32", **more}


def _json(questions: Questions, row: bytes, _model: str) -> tuple[bytes, str]:
    return _compact({"inputs": [_input(questions, data=_values(row))]}), "content-type: application/json\r\n"


def _plain(_questions: Questions, row: bytes, _model: str) -> tuple[bytes, str]:
    """For peers with a JSON of their own."""
    return _compact({"x": [_values(row)]}), "content-type: application/json\r\n"


def _binary(questions: Questions, row: bytes, _model: str) -> tuple[bytes, str]:
    wanted = [{"name": "y", "parameters": {"binary_data": True}}]
    said = _compact({"inputs": [_input(questions, parameters={"binary_data_size": len(row)})], "outputs": wanted})
    headers = f"content-type: application/octet-stream\r\ninference-header-content-length: {len(said)}\r\n"
    return said + row, headers


def _grpc(questions: Questions, row: bytes, model: str) -> tuple[bytes, str]:
    """ModelInferRequest: model_name 1, inputs 5 (name 1, datatype 2, shape 3), raw_input_contents 7."""
    shape = b"".join(map(_varint, (1, *questions.shape)))
    tensor = _field(1, b"x") + _field(2, b"FP32") + _field(3, shape)
    message = _field(1, model.encode()) + _field(5, tensor) + _field(7, row)
    return struct.pack(">BI", 0, len(message)) + message, ""


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


# --- answers -----------------------------------------------------------------------------------------------------------------


def _json_numbers(answer: bytes) -> Sequence[float]:
    return list(_flat(json.loads(answer)["outputs"][0]["data"]))


def _plain_numbers(answer: bytes) -> Sequence[float]:
    told = json.loads(answer)
    return list(_flat(told["y"] if isinstance(told, dict) else told))


def _flat(found: Any) -> Iterator[float]:
    if isinstance(found, list):
        for part in found:
            yield from _flat(part)
    else:
        yield found


def _binary_numbers(answer: bytes) -> Sequence[float]:
    """The JSON part says how many bytes follow it; no brace is in a name here, so its end is found without the header."""
    said, end = json.JSONDecoder().raw_decode(answer.decode("latin-1"))
    [output] = said["outputs"]
    assert len(answer) - end == output["parameters"]["binary_data_size"], "the binary part is not as long as is said"
    return array("f", answer[end:])


def _grpc_numbers(answer: bytes) -> Sequence[float]:
    """ModelInferResponse: outputs 5 (contents 5, fp32_contents 6), raw_output_contents 6."""
    compressed, size = struct.unpack_from(">BI", answer)
    message = dict(_fields(answer[5:]))
    assert (compressed, size) == (0, len(answer) - 5), "not one plain message"
    contents = message[6] if 6 in message else dict(_fields(dict(_fields(message[5]))[5]))[6]
    return array("f", contents)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-prefixed fields of a protobuf message; numbers are passed over."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        size, at = _read_varint(message, at)
        if key & 7 == 2:
            yield key >> 3, message[at : at + size]
            at += size
        else:
            assert key & 7 == 0, f"a field of an unexpected kind, {key & 7}"


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


JSON = Form(name="json", body=_json, numbers=_json_numbers)
PLAIN = Form(name="plain", body=_plain, numbers=_plain_numbers)
BINARY = Form(name="binary", body=_binary, numbers=_binary_numbers)
GRPC = Form(name="grpc", body=_grpc, numbers=_grpc_numbers, http2=True)
FORMS = {form.name: form for form in (JSON, PLAIN, BINARY, GRPC)}


# --- files -------------------------------------------------------------------------------------------------------------------


def records(form: Form, questions: Questions, targets: Iterable[Target], authority: str) -> Iterator[Record]:
    """One request for each row, to one target after the other."""
    for row, target in zip(questions.rows, cycle(targets), strict=False):
        body, headers = form.body(questions, row, target.model)
        if form.http2:
            head = (
                f":method: POST\n:scheme: http\n:path: {GRPC_METHOD}\n:authority: {authority}\nte: trailers\n"
                f"content-type: application/grpc\nauthorization: Bearer {target.token}"
            )
        else:
            head = (
                f"POST {target.path} HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer {target.token}\r\n"
                f"{headers}content-length: {len(body)}\r\n\r\n"
            )
        yield head.encode(), body


def write_records(file: Path, made: Iterable[Record]) -> Path:
    with file.open("wb") as out:
        for record in made:
            for part in record:
                out.write(struct.pack("<I", len(part)) + part)
    return file


def read_parts(file: Path) -> list[bytes]:
    content, at, parts = file.read_bytes(), 0, []
    while at < len(content):
        [size] = struct.unpack_from("<I", content, at)
        parts.append(content[at + 4 : at + 4 + size])
        at += 4 + size
    return parts


def first_wrong(form: Form, questions: Questions, answers: Sequence[bytes]) -> str:
    """What is wrong with the answers to all rows; empty where nothing is."""
    if len(answers) != len(questions.rows):
        return f"{len(answers)} answers to {len(questions.rows)} rows"
    for number, (answer, right) in enumerate(zip(answers, questions.answers, strict=True)):
        try:
            told = form.numbers(answer)
        except (ValueError, KeyError, TypeError, IndexError, AssertionError, struct.error) as error:
            return f"row {number}: {answer[:200]!r} is no answer ({error!r})"
        limits = [1e-3 + 1e-2 * abs(wanted) for wanted in right]
        near = len(told) == len(right) and all(
            abs(got - wanted) <= limit for got, wanted, limit in zip(told, right, limits, strict=True)
        )
        if not near:
            return f"row {number}: {list(told)[:4]} instead of {list(right)[:4]}"
    return ""
