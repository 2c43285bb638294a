"""Requests and answers as JSON and binary: what is written is read back, and nothing that is sent can break the reader."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import FalajError, Invalid, TooLarge
from falaj.serving.plane.asking import Answer
from falaj.serving.plane.rest.codec import Asked, Writer, read_infer
from falaj.serving.plane.rest.compression import deflate, inflate_now
from falaj.serving.plane.rest.datatypes import DATATYPES, bf16_of
from falaj.serving.plane.rest.records import write_predictions
from tests.serving.plane.rest.arithmetic import NUMPY, to_array

MOST = 1 << 20


def read(said: Any, *sections: bytes) -> Asked:
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    return read_infer(text + b"".join(sections), len(text) if sections else -1, MOST)


def one(datatype: str = "FP32", shape: Any = (3,), **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "datatype": datatype, "shape": list(shape), **more}]}


SHAPES = st.lists(st.integers(0, 4), max_size=4)


def elements(datatype: str) -> st.SearchStrategy[Any]:
    match DATATYPES[datatype].kind:
        case "bool":
            return st.booleans()
        case "bytes":
            return st.text(max_size=5)
        case "int":
            return st.integers(DATATYPES[datatype].low, DATATYPES[datatype].high)
    return {"FP16": st.floats(width=16), "FP32": st.floats(width=32), "FP64": st.floats(width=64)}[datatype]


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, list[int], list[Any]]:
    datatype, shape = draw(st.sampled_from([*sorted(NUMPY), "BYTES"])), draw(SHAPES)
    count = math.prod(shape)
    return datatype, shape, draw(st.lists(elements(datatype), min_size=count, max_size=count))


def nested(flat: list[Any], shape: list[int]) -> Any:
    for length in reversed(shape[1:]):
        flat = [flat[at : at + length] for at in range(0, len(flat), length)] if length else [[] for _ in range(0)]
    return flat


@given(tensors(), st.booleans(), st.booleans())
def test_what_is_written_is_read_back(tensor: tuple[str, list[int], list[Any]], binary: bool, folded: bool) -> None:
    datatype, shape, flat = tensor
    folded = folded and 0 not in shape and bool(shape)
    first = to_array(read(one(datatype, shape, data=nested(flat, shape) if folded else flat)).given[0])
    assert list(first.shape) == shape
    wish = Asked([], "an id")
    wish.all_binary = binary
    text, sections = Writer().write(Answer("e", 2, 5, "", ("x",), (datatype,), [first], "m"), wish)
    said = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert (said["id"], said["model_name"], said["model_version"]) == ("an id", "e", "2")
    if binary:
        said["outputs"][0]["parameters"]["binary_data_size"] = sum(map(len, sections))
    again = read({"inputs": said["outputs"]}, *[bytes(section) for section in sections]).given[0]
    assert np.array_equal(to_array(again), first, equal_nan=datatype.startswith("FP"))


def test_an_answer_names_the_variant_that_gave_it_where_there_are_several() -> None:
    writer, array = Writer(), np.zeros((1, 1), np.float32)
    for variant in ("", "int8", "original", ""):
        answer = Answer("e", 1, 2, "", ("y",), ("FP32",), [array], "m", variant)
        answer.unknown = 3
        told = {"model": "m", "version": 2} | ({"variant": variant} if variant else {}) | {"unknown_entities": 3}
        assert json.loads(writer.write(answer, Asked([], ""))[0])["parameters"] == told
        plain = json.loads(write_predictions(answer))
        assert plain.get("variant", "") == variant


@given(st.binary(max_size=300), st.integers(-1, 320))
@settings(max_examples=300)
def test_arbitrary_bytes_are_refused_in_plain_words(body: bytes, length: int) -> None:
    with pytest.raises(FalajError):
        read_infer(body, length, MOST)


FIELDS = st.sampled_from(["inputs", "name", "shape", "datatype", "data", "parameters", "binary_data_size"])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner),
    max_leaves=20,
)


@given(JSONS, JSONS, JSONS, st.binary(max_size=20))
@settings(max_examples=300)
def test_arbitrary_json_is_read_or_refused(shape: Any, data: Any, parameters: Any, tail: bytes) -> None:
    said = {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": data, "parameters": parameters}]}
    for whole in (said, {"inputs": data, "outputs": shape, "parameters": parameters}):
        try:
            asked = read(whole, tail)
        except FalajError:
            continue
        for tensor in asked.given:
            assert to_array(tensor).size == math.prod(tensor.shape)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"inputs": []}, "no inputs"),
        ({}, "inputs"),
        ([], "object"),
        (one(shape=[16, 2**60], data=[1.0]), "more than any memory"),
        (one(shape=[-1], data=[1.0]), ">= 0"),
        (one(shape=[1] * 40, data=[1.0]), "32"),
        (one(shape=[2.5], data=[1.0]), "int"),
        (one(shape=["1"], data=[1.0]), "int"),
        (one(data=[1.0, 2.0]), "2 elements; its shape \\[3\\] wants 3"),
        (one(data=[1.0, "2", 3.0]), "'2' is none"),
        (one(data=[1.0, None, 3.0]), "element 1 is null"),
        (one(data=[1.0, {}, 3.0]), "element 1 is an object"),
        (one(data=[1.0, True, 3.0]), "element 1 is True"),
        (one(data=[1.0, [2.0], 3.0]), "nested more deeply"),
        (one(shape=[2, 2], data=[[1.0, 2.0], [3.0]]), "not 2 long"),
        (one(shape=[2, 2], data=[[1.0, 2.0], 3.0]), "some places"),
        (one(shape=[2, 2], data=[[1.0, 2.0]] * 3), "3 lists"),
        (one("INT8", data=[1, 2, 128]), "-128 to 127"),
        (one("UINT64", data=[1, 2, -1]), "0 to"),
        (one("INT64", data=[1, 2, 3.0]), "element 2 is 3.0"),
        (one("INT64", data=[1, 2, True]), "element 2 is True"),
        (one("BOOL", data=[0, 1, 0]), "true and false"),
        (one("BYTES", data=["a", "b", 1]), "element 2 is 1"),
        (one("COMPLEX", data=[1, 2, 3]), "BF16"),
        (one(), "no data"),
        (one(parameters={"shared_memory_region": "r"}), "shared memory"),
        (one(data=[1, 2, 3], parameters={"binary_data_size": 12}), "both"),
        (one(parameters={"binary_data_size": 12}), "inference-header-content-length"),
        ({"inputs": one(data=[1, 2, 3])["inputs"] * 2}, "named differently"),
        ({**one(data=[1, 2, 3]), "outputs": [{"name": "y"}] * 2}, "twice"),
        ({**one(data=[1, 2, 3]), "outputs": [{"name": "y", "parameters": {"classification": 3}}]}, "classification"),
        ({**one(data=[1, 2, 3]), "outputs": [{"name": "y", "parameters": {"shared_memory_region": "r"}}]}, "shared memory"),
        ({**one(data=[1, 2, 3]), "parameters": {"sequence_id": 5}}, "sequence"),
        ({**one(data=[1, 2, 3]), "id": 5}, "id"),
        ({"inputs": one(data=[1, 2, 3])["inputs"] * 1001}, "1000"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":' + b"[" * 100_000, "nested too deeply"),
        (b'{"inputs":' + b"[" * 100_000, "object"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1e999]}]}', "range"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1' + b"0" * 400 + b"]}]}", "too large"),
        (b'{"inputs":[{"name":"\\ud800","datatype":"FP32","shape":[1],"data":[NaN]}]}', "surrogate"),
        (b"\xff", "UTF-8|malformed"),
        (b"", "truncated"),
    ],
)
def test_what_is_wrong_is_said(said: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read(said)


def binary(name: str, size: int, count: int, datatype: str = "FP32") -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [count], "parameters": {"binary_data_size": size}}


@pytest.mark.parametrize(
    ("inputs", "tail", "words"),
    [
        ([binary("x", 12, 3)], b"\0" * 8, "8 are left"),
        ([binary("x", 12, 3)], b"\0" * 16, "account for 12"),
        ([binary("x", 8, 3)], b"\0" * 8, "wants 12"),
        ([binary("x", 12, 3), binary("y", 12, 3)], b"\0" * 20, "8 are left"),
        ([binary("x", -1, 3)], b"\0", ">= 0"),
        ([binary("x", 2**70, 3)], b"\0", "left"),
        ([binary("x", 5, 1, "BYTES")], b"\2\0\0\0a", "2 bytes where 1"),
        ([binary("x", 5, 2, "BYTES")], b"\1\0\0\0a", "wants 2"),
        ([binary("x", 3, 1, "BYTES")], b"\1\0\0", "0 elements"),
        ([binary("x", 4, 1, "BYTES")], b"\xff\xff\xff\xff", "4294967295"),
    ],
)
def test_binary_sections_that_do_not_add_up_are_refused(inputs: list[Any], tail: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read({"inputs": inputs}, tail)


def test_binary_input_is_not_copied() -> None:
    text = json.dumps({"inputs": [binary("x", 12, 3)]}).encode()
    body = bytearray(text + np.arange(3, dtype="<f4").tobytes())
    array = to_array(read_infer(body, len(text), MOST).given[0])
    body[-4:] = np.float32(9).tobytes()
    assert array.tolist() == [0, 1, 9]


def test_json_and_binary_inputs_mix() -> None:
    plain = {"name": "b", "datatype": "INT8", "shape": [1], "data": [5]}
    asked = read({"inputs": [binary("a", 4, 1), plain, binary("c", 8, 2)]}, np.array([1, 2, 3], dtype="<f4").tobytes())
    assert [to_array(tensor).tolist() for tensor in asked.given] == [[1], [5], [2, 3]]


@pytest.mark.parametrize("word", [b"NaN", b'"NaN"'])
def test_numbers_that_are_not_finite_may_be_bare_or_quoted(word: bytes) -> None:
    body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[%b,2]}]}' % word
    assert np.array_equal(to_array(read(body).given[0]), [np.nan, 2], equal_nan=True)


def test_a_bare_word_within_text_stays_text() -> None:
    body = b'{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"data":["[NaN, Infinity]"]}]}'
    assert read(body).given[0].data == [b"[NaN, Infinity]"]


def test_more_json_than_is_taken_is_refused() -> None:
    with pytest.raises(TooLarge, match="binary"):
        read_infer(b" " * 101, -1, 100)


def test_bytes_that_are_no_text_can_only_be_had_in_binary() -> None:
    answer = Answer("e", 1, 1, "", ("y",), ("BYTES",), [np.array([b"\xff"], dtype=np.object_)])
    with pytest.raises(Invalid, match="binary_data"):
        Writer().write(answer, Asked([], ""))


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_bf16_is_the_nearest_to_the_float(floats: list[float]) -> None:
    import ml_dtypes

    array = np.array(floats, dtype=np.float32)
    with np.errstate(over="ignore"):
        wanted = array.astype(ml_dtypes.bfloat16)
    got = bf16_of(array).view(ml_dtypes.bfloat16)
    assert np.array_equal(got.astype(np.float32), wanted.astype(np.float32), equal_nan=True)


@given(st.binary(max_size=3000), st.sampled_from(["gzip", "deflate"]))
def test_what_is_deflated_inflates_again(body: bytes, encoding: str) -> None:
    packed = deflate([body], encoding)
    assert inflate_now(packed, encoding, 3000) == body
    with pytest.raises(Invalid):
        inflate_now(packed[:-1], encoding, 3000)
    with pytest.raises(Invalid):
        inflate_now(packed + b"x", encoding, 3000)


def test_a_body_that_inflates_without_end_is_refused() -> None:
    bomb = deflate([b"\0" * 50_000_000], "gzip")
    assert len(bomb) < 300_000
    with pytest.raises(TooLarge):
        inflate_now(bomb, "gzip", 1_000_000)
