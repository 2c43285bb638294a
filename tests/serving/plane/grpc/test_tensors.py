"""Tensors come out of messages as they went in, and the other way round."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from falaj.base.errors import Invalid, TooLarge
from falaj.serving.plane.asking import Answer, Ask
from falaj.serving.plane.grpc.answers import Answers, encode_stream_error
from falaj.serving.plane.grpc.messages import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from falaj.serving.plane.grpc.requests import CONTENTS, Requests, read_ask
from tests.serving.plane.grpc.arithmetic import DTYPES, array_of

MOST = 4_000_000


class Somebody:
    token, key, override = "t", "k", "o"

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds

    def deadline(self, arrived: float) -> float | None:
        return None if self.seconds is None else arrived + self.seconds


class Listener:
    gone = False
    raw = False

    def answer(self, answer: Answer) -> None: ...

    def refuse(self, error: Exception) -> None: ...


def read(request: Any, reply: Listener | None = None) -> Ask:
    return read_ask(request.SerializeToString(), Somebody(), reply or Listener(), 0.0, MOST)


shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
named_arrays = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda datatype: st.tuples(st.just(datatype), arrays.arrays(np.dtype(DTYPES[datatype]), shapes))
)
texts = arrays.arrays(np.dtype(object), shapes, elements=st.binary(max_size=20)).map(lambda array: ("BYTES", array))
tensors = st.one_of(named_arrays, texts)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.shape == other.shape and one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
    )


@given(st.lists(tensors, max_size=4), st.integers(0, 30_000))
def test_raw_tensors_arrive_as_they_are(sent: list[tuple[str, np.ndarray]], filler: int):
    """Large messages take another way than small ones, with the same outcome."""
    request = ModelInferRequest(model_name="m", model_version="2", id="i")
    sent = [*sent, ("UINT8", np.zeros(filler, np.uint8))]
    for number, (datatype, array) in enumerate(sent):
        request.inputs.add(name=f"x{number}", datatype=datatype, shape=array.shape)
        raw = b"".join(len(t).to_bytes(4, "little") + t for t in array.ravel()) if datatype == "BYTES" else array.tobytes()
        request.raw_input_contents.append(raw)
    reply = Listener()
    ask = read(request, reply)
    assert (ask.endpoint, ask.version, ask.id, ask.token, ask.key, ask.override) == ("m", "2", "i", "t", "k", "o")
    assert reply.raw
    for number, ((datatype, array), got) in enumerate(zip(sent, ask.given, strict=True)):
        assert (got.name, got.datatype, list(got.shape)) == (f"x{number}", datatype, list(array.shape))
        assert same(array_of(got), array)


@given(tensors.filter(lambda tensor: tensor[0] in CONTENTS), st.sampled_from([1, 400]))
def test_typed_tensors_arrive_as_they_are(tensor: tuple[str, np.ndarray], times: int):
    datatype, array = tensor
    array = np.concatenate([array.ravel()] * times)  # many numbers take another way than few
    request = ModelInferRequest(model_name="m")
    contents = request.inputs.add(name="x", datatype=datatype, shape=array.shape).contents
    getattr(contents, CONTENTS[datatype]).extend(array.tolist())
    reply = Listener()
    ask = read(request, reply)
    assert not reply.raw
    got = array_of(ask.given[0])
    assert got.tolist() == array.tolist() or same(np.nan_to_num(got), np.nan_to_num(array))


def test_an_answer_names_the_variant_that_gave_it_where_there_are_several():
    answers, given_array = Answers(), [np.zeros((1, 1), np.float32)]
    for variant in ("", "int8", "original", ""):
        answer = Answer("e", 1, 1, "", ["y"], ["FP32"], given_array, "m", variant)
        told = ModelInferResponse.FromString(answers.encode(answer, raw=True)).parameters
        assert told["variant"].string_param == variant if variant else "variant" not in told


@given(
    st.lists(tensors, min_size=1, max_size=4),
    st.text(max_size=5),
    st.integers(1, 2**31 - 1),
    st.integers(0, 2**40),
    st.booleans(),
)
def test_answers_are_read_as_they_were_given(given_arrays: list[Any], id: str, revision: int, version: int, raw: bool):
    names = [f"y{number}" for number in range(len(given_arrays))]
    answer = Answer(
        "end", revision, version, id, names, [each[0] for each in given_arrays], [each[1] for each in given_arrays], "model"
    )
    answers = Answers()
    for _ in range(2):  # the second time, parts are remembered
        response = ModelInferResponse.FromString(answers.encode(answer, raw))
        assert (response.model_name, response.model_version, response.id) == ("end", str(revision), id)
        assert response.parameters["model"].string_param == "model"
        assert response.parameters["version"].int64_param == version
        typed = not raw and all(each[0] in CONTENTS for each in given_arrays)
        assert len(response.raw_output_contents) == (0 if typed else len(given_arrays))
        for number, (datatype, array) in enumerate(given_arrays):
            output = response.outputs[number]
            assert (output.name, output.datatype, list(output.shape)) == (names[number], datatype, list(array.shape))
            if typed:
                got = list(getattr(output.contents, CONTENTS[datatype]))
                assert np.array_equal(np.array(got, array.dtype), array.ravel(), equal_nan=array.dtype.kind == "f")
            elif datatype != "BYTES":
                assert response.raw_output_contents[number] == array.tobytes()
            else:
                raw_texts = b"".join(len(text).to_bytes(4, "little") + text for text in array.ravel())
                assert response.raw_output_contents[number] == raw_texts
    streamed = ModelStreamInferResponse.FromString(answers.encode_in_stream(answer, raw)).infer_response
    assert streamed.id == id
    assert streamed.parameters["triton_final_response"].bool_param


def test_large_and_strided_answers_are_written_rows_first():
    whole = np.arange(200_000, dtype=np.float32).reshape(400, 500)
    for array in (whole, whole.T, whole[::2], whole[:, 3:7], np.asfortranarray(whole)):
        message = Answers().encode(Answer("e", 1, 1, "", ["y"], ["FP32"], [array]), raw=True)
        assert ModelInferResponse.FromString(message).raw_output_contents[0] == np.ascontiguousarray(array).tobytes()


def test_texts_may_be_of_any_kind_that_numpy_has():
    for array in (np.array(["ä", "b"]), np.array([b"\xc3\xa4", b"b"]), np.array(["ä", b"b"], dtype=object)):
        message = Answers().encode(Answer("e", 1, 1, "", ["y"], ["BYTES"], [array]), raw=True)
        assert ModelInferResponse.FromString(message).raw_output_contents[0] == b"\x02\0\0\0\xc3\xa4\x01\0\0\0b"


def test_an_error_in_a_stream_names_its_request():
    message = ModelStreamInferResponse.FromString(encode_stream_error("i", "größer"))
    assert (message.error_message, message.infer_response.id) == ("größer", "i")


def test_what_is_remembered_of_answers_is_bounded():
    answers = Answers()
    for number in range(10_000):
        answers.encode(Answer(f"e{number}", 1, 1, "", [f"y{number}"], ["FP32"], [np.zeros(1, np.float32)]), raw=True)
    assert len(answers._leads) <= 4096
    assert len(answers._outputs) <= 4096


def request(**more: Any) -> Any:
    made = ModelInferRequest(model_name="m", **more)
    made.inputs.add(name="x", datatype="FP32", shape=[1])
    return made


def test_raw_contents_must_be_as_many_as_inputs():
    with pytest.raises(Invalid, match="1 inputs came with 2"):
        read(request(raw_input_contents=[b"1234", b"1234"]))


def test_raw_and_typed_contents_cannot_be_mixed():
    mixed = request(raw_input_contents=[b"1234"])
    mixed.inputs[0].contents.fp32_contents.append(1.0)
    with pytest.raises(Invalid, match="send one of the two"):
        read(mixed)


def test_typed_contents_must_stand_in_their_field():
    wrong = request()
    wrong.inputs[0].contents.fp64_contents.append(1.0)
    with pytest.raises(Invalid, match="another field than fp32_contents"):
        read(wrong)


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP8", ""])
def test_datatypes_without_typed_contents_must_be_raw(datatype: str):
    wrong = request()
    wrong.inputs[0].datatype = datatype
    with pytest.raises(Invalid, match="raw_input_contents"):
        read(wrong)


def test_many_typed_numbers_that_do_not_fit_are_refused():
    wrong = request()
    wrong.inputs[0].datatype = "INT8"
    wrong.inputs[0].contents.int_contents.extend([300] * 2000)
    with pytest.raises(Invalid, match="no INT8"):
        read(wrong)


def test_a_message_of_many_parts_is_refused_before_it_grows():
    """A tensor of two bytes takes fifty times as many when protobuf has read it."""
    flood = b"\x2a\x00" * 50_000
    with pytest.raises(TooLarge):
        read_ask(flood, Somebody(), Listener(), 0.0, 1_000_000)
    with pytest.raises(TooLarge):
        read_ask(b"\x2a\x00" * 4000, Somebody(), Listener(), 0.0, 1_000_000)


def test_typed_contents_have_a_limit_of_their_own():
    large = request()
    large.inputs[0].contents.fp32_contents.extend([1.0] * (MOST // 4))
    with pytest.raises(TooLarge, match="send large tensors in raw_input_contents"):
        read(large)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(message: bytes):
    for text in (message, message + b"\x3a\x80\x80\x02" + b"0" * 32_768):
        try:
            ask = read_ask(text, Somebody(), Listener(), 0.0, MOST)
        except (Invalid, TooLarge):
            continue
        assert isinstance(ask.endpoint, str)


def facts(ask: Ask) -> Any:
    given = [(each.name, each.datatype, list(each.shape), bytes(each.data)) for each in ask.given]
    return ask.endpoint, ask.version, ask.id, list(ask.wanted), ask.deadline, ask.token, ask.key, ask.override, given


raw_requests = st.builds(
    lambda name, version, id, tensors, wanted, timeout: (name, version, id, tensors, wanted, timeout),
    st.sampled_from(["m", "other"]),
    st.sampled_from(["", "3"]),
    st.sampled_from(["", "", "7"]),
    st.lists(
        st.tuples(st.sampled_from(["x", "y"]), st.sampled_from([b"1234", b"5678", b"", b":\x04ab"])), min_size=1, max_size=2
    ),
    st.sampled_from([[], ["o"]]),
    st.sampled_from([0, 0, 1000]),
)


def raw_message(name: str, version: str, id: str, tensors: list[Any], wanted: list[str], timeout: int, turned: bool) -> bytes:
    made = ModelInferRequest(model_name=name, model_version=version, id=id)
    for tensor, raw in tensors:
        made.inputs.add(name=tensor, datatype="UINT8", shape=[len(raw)])
    for output in wanted:
        made.outputs.add(name=output)
    if timeout:
        made.parameters["timeout"].int64_param = timeout
    raws = ModelInferRequest(raw_input_contents=[raw for _, raw in tensors]).SerializeToString()
    described = made.SerializeToString()
    return raws + described if turned else described + raws


deadlines = st.sampled_from([None, 0.0001, 5.0])


@given(st.lists(st.tuples(raw_requests, st.booleans(), deadlines), min_size=1, max_size=12))
def test_what_is_remembered_of_requests_changes_nothing(sent: list[Any]):
    """Whatever order the fields come in, and whatever came before."""
    requests = Requests(MOST)
    for request, turned, seconds in sent * 2:
        message = raw_message(*request, turned)
        one, other, caller = Listener(), Listener(), Somebody(seconds)
        assert facts(requests.read(message, caller, one, 1.0)) == facts(read_ask(message, caller, other, 1.0, MOST))
        assert one.raw == other.raw


@given(st.binary(max_size=60), st.binary(min_size=4, max_size=4), st.integers(0, 60), st.binary(max_size=3))
def test_messages_that_resemble_a_remembered_one_are_read_for_themselves(tail: bytes, raw: bytes, at: int, change: bytes):
    requests = Requests(MOST)
    message = raw_message("m", "", "", [("x", raw)], [], 0, turned=False)
    requests.read(message, Somebody(), Listener(), 1.0)
    for similar in (message + tail, message[:at] + change + message[at + len(change) :], message[:-4] + tail):
        outcomes = []
        for read_it in (requests.read, lambda *given: read_ask(*given, MOST)):
            try:
                outcomes.append(facts(read_it(similar, Somebody(), Listener(), 1.0)))
            except (Invalid, TooLarge) as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]


def test_what_is_remembered_of_requests_is_bounded():
    requests = Requests(MOST)
    for number in range(3000):
        message = raw_message(f"m{number}", "", "", [("x", b"1" * (number % 1500 + 1))], [], 0, turned=False)
        requests.read(message, Somebody(), Listener(), 0.0)
    assert len(requests._layouts) <= 1024
    assert len(requests._starts) <= 1024


def test_a_message_with_a_group_is_read():
    """An old form of protobuf, which nobody sends and everybody must skip."""
    message = b"\x7b\x7c" + raw_message("m", "", "", [("x", b"1234")], [], 0, turned=False)
    requests = Requests(MOST)
    for _ in range(2):
        assert requests.read(message, Somebody(), Listener(), 0.0).given[0].data == b"1234"


@pytest.mark.parametrize(("datatype", "field", "element"), [("INT32", "int_contents", 1), ("BYTES", "bytes_contents", b"")])
def test_numbers_and_texts_that_are_not_raw_are_so_many_that_nobody_waits_for_them(datatype: str, field: str, element: Any):
    message = ModelInferRequest(model_name="double")
    tensor = message.inputs.add(name="x", datatype=datatype, shape=[1])
    getattr(tensor.contents, field).extend([element] * 510_000)
    with pytest.raises(TooLarge, match=r"raw|several"):
        read(message)
