"""What may be given for a model's inputs, and how it becomes arrays."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.runtimes.datatypes import DTYPES, SIZES
from falaj.runtimes.engine import TensorSpec
from falaj.serving.plane.asking import Given
from falaj.serving.plane.core.inputs import Inputs

INTEGERS = [name for name in DTYPES if "INT" in name]
NUMBERS = sorted(SIZES)


def inputs(*specs: tuple[str, str, tuple[int, ...]], batches: bool = True, nan: str = "allow") -> Inputs:
    return Inputs(
        [TensorSpec(name=name, datatype=datatype, shape=shape) for name, datatype, shape in specs],
        batches=batches,
        nan=nan,  # type: ignore[arg-type]
    )


def single(datatype: str = "FP32", shape: tuple[int, ...] = (-1, 4), **more) -> Inputs:
    return inputs(("x", datatype, shape), **more)


def arrays_of(model: Inputs, *requests: list[Given]):
    checked = [model.check(request) for request in requests]
    rows = sum(one[1] for one in checked)
    return model.stack([one[0] for one in checked], rows, checked[0][2])


def one_of(model: Inputs, data, shape, datatype: str = "FP32"):
    return arrays_of(model, [Given("x", datatype, shape, data)])[0]


@pytest.mark.parametrize(
    "shape",
    [
        [16, 2**60],
        [2**62, 4],
        [2**31, 2**31],
        [-1, 4],
        [1, -4],
        [0, 4],
        [1, 4, 1],
        [4],
        [],
        [1, 5],
        [1, "4"],
        [1.0, 4.0],
        [True, None],
        [[1], [4]],
        [10**400, 4],
    ],
)
def test_a_shape_that_the_model_does_not_take_is_refused_before_anything_is_made(shape: list):
    for data in ([1.0] * 4, b"\0" * 16):
        with pytest.raises(Invalid, match="'x'"):
            single().check([Given("x", "FP32", shape, data)])


@given(st.lists(st.integers(-(2**70), 2**70), max_size=5), st.integers(0, 64))
def test_whatever_the_shape_it_is_refused_or_matches_the_data(shape: list[int], length: int):
    model = single(shape=(-1, -1))
    try:
        _, rows, (tail,), _ = model.check([Given("x", "FP32", shape, b"\0" * (4 * length))])
    except Invalid:
        return
    assert math.prod(shape) == length
    assert min(shape) > 0
    assert (rows, *tail) == tuple(shape)


def test_data_shorter_or_longer_than_the_shape_is_refused():
    for data in ([1.0] * 3, [1.0] * 5, b"\0" * 15, b"\0" * 17, b"", []):
        with pytest.raises(Invalid, match="were given"):
            single().check([Given("x", "FP32", [1, 4], data)])


def test_another_datatype_than_the_models_is_refused():
    for datatype in ("FP64", "INT64", "BYTES", "fp32", "", "NONSENSE" * 1000):
        with pytest.raises(Invalid, match="takes FP32") as refused:
            single().check([Given("x", datatype, [1, 4], [1.0] * 4)])
        assert len(str(refused.value)) < 200


def test_inputs_come_in_any_order():
    model = inputs(("a", "INT64", (-1, 2)), ("b", "FP32", (-1, 1)))
    a, b = Given("a", "INT64", [1, 2], [1, 2]), Given("b", "FP32", [1, 1], [0.5])
    for request in ([a, b], [b, a]):
        first, second = arrays_of(model, request)
        assert first.tolist() == [[1, 2]]
        assert second.tolist() == [[0.5]]


def test_missing_unknown_and_doubled_inputs_are_named():
    model = inputs(("a", "INT64", (-1, 1)), ("b", "INT64", (-1, 1)))
    a, b, c = (Given(name, "INT64", [1, 1], [1]) for name in "abc")
    with pytest.raises(Invalid, match="'b' is missing"):
        model.check([a])
    with pytest.raises(Invalid, match="'a' is missing"):
        model.check([])
    with pytest.raises(Invalid, match="no input 'c'"):
        model.check([a, b, c])
    with pytest.raises(Invalid, match="'a' was given twice"):
        model.check([a, b, a])
    with pytest.raises(Invalid, match="'x' is missing"):
        single().check([Given("y", "FP32", [1, 4], [1.0] * 4)])
    with pytest.raises(Invalid, match="'x' was given twice"):
        single().check([Given("x", "FP32", [1, 4], [1.0] * 4)] * 2)


def test_all_inputs_have_as_many_rows():
    model = inputs(("a", "INT64", (-1, 1)), ("b", "INT64", (-1, 1)))
    with pytest.raises(Invalid, match="has 2 rows, input 'b' has 1"):
        model.check([Given("a", "INT64", [2, 1], [1, 2]), Given("b", "INT64", [1, 1], [1])])


def test_a_model_that_does_not_batch_takes_its_exact_shape():
    model = inputs(("a", "FP32", (2, 2)), ("b", "FP32", (3,)), batches=False)
    first, second = arrays_of(model, [Given("a", "FP32", [2, 2], [1.0] * 4), Given("b", "FP32", [3], [2.0] * 3)])
    assert (first.shape, second.shape) == ((2, 2), (3,))


@pytest.mark.parametrize("datatype", INTEGERS)
def test_integers_are_taken_to_the_last_of_their_range_and_not_beyond(datatype: str):
    limits = np.iinfo(DTYPES[datatype])
    made = one_of(single(datatype, (-1, 2)), [int(limits.min), int(limits.max)], [1, 2], datatype)
    assert made.dtype == DTYPES[datatype]
    assert made.tolist() == [[limits.min, limits.max]]
    for beyond in (int(limits.max) + 1, int(limits.min) - 1, 10**30, 10**5000, 0.5, float("nan"), float("inf"), "1", None, [1]):
        with pytest.raises(Invalid, match=f"'x' is {datatype}"):
            one_of(single(datatype, (-1, 2)), [1, beyond], [1, 2], datatype)


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64"])
def test_floats_are_taken_unless_they_are_too_large(datatype: str):
    limits = np.finfo(DTYPES[datatype])
    data = [float(limits.max), 7, True, -0.0]
    made = one_of(single(datatype), data, [1, 4], datatype)
    assert made.dtype == DTYPES[datatype]
    assert made.tolist() == [[float(limits.max), 7.0, 1.0, 0.0]]
    beyond = ["1.5", None, b"1", [1.0], {}, 10**400]
    if datatype != "FP64":
        beyond.append(float(limits.max) * 2)
    for bad in beyond:
        with pytest.raises(Invalid, match=f"'x' is {datatype}"):
            one_of(single(datatype), [1.0, 1.0, 1.0, bad], [1, 4], datatype)


def test_a_whole_number_written_as_a_float_counts_as_an_integer():
    assert one_of(single("INT64", (-1, 2)), [1.0, -3.0], [1, 2], "INT64").tolist() == [[1, -3]]


def test_booleans_are_true_or_false():
    assert one_of(single("BOOL", (-1, 3)), [True, False, 1], [1, 3], "BOOL").tolist() == [[True, False, True]]
    assert one_of(single("BOOL", (-1, 3)), b"\1\0\1", [1, 3], "BOOL").tolist() == [[True, False, True]]
    for bad in ([True, False, 2], [True, False, "x"], [True, 0.5, False], b"\1\0\2", b"\xff\0\0"):
        with pytest.raises(Invalid, match="BOOL"):
            one_of(single("BOOL", (-1, 3)), bad, [1, 3], "BOOL")


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=10))
def test_texts_come_as_a_list_or_each_behind_its_length(texts: list[bytes]):
    raw = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    for data in (list(texts), raw, memoryview(raw)):
        made = one_of(single("BYTES", (-1,)), data, [len(texts)], "BYTES")
        assert made.dtype == np.object_
        assert made.tolist() == texts


@given(st.binary(max_size=60), st.integers(1, 6))
def test_whatever_bytes_come_for_texts_they_are_read_whole_or_refused(raw: bytes, count: int):
    try:
        made = one_of(single("BYTES", (-1,)), raw, [count], "BYTES")
    except Invalid:
        made = None
    if made is not None:
        assert b"".join(struct.pack("<I", len(text)) + text for text in made.tolist()) == raw


def test_texts_may_be_strings_but_not_numbers():
    assert one_of(single("BYTES", (-1,)), ["ä", b"b"], [2], "BYTES").tolist() == ["ä".encode(), b"b"]
    for bad in (1, None, ["a"], float("nan")):
        with pytest.raises(Invalid, match="no text"):
            one_of(single("BYTES", (-1,)), ["a", bad], [2], "BYTES")


@given(st.sampled_from(NUMBERS), st.integers(1, 5), st.integers(0, 7))
def test_raw_bytes_become_the_array_they_are_wherever_they_lie(datatype: str, rows: int, offset: int):
    values = (np.arange(rows * 3) % 2).astype(DTYPES[datatype]).reshape(rows, 3)
    buffer = b"\0" * offset + values.tobytes()
    made = one_of(single(datatype, (-1, 3)), memoryview(buffer)[offset:], [rows, 3], datatype)
    assert made.dtype == values.dtype
    assert made.flags.aligned
    assert np.array_equal(made, values)


def test_raw_bytes_of_one_request_are_not_copied():
    buffer = np.arange(4, dtype=np.float32).tobytes()
    made = one_of(single(), buffer, [1, 4])
    assert np.shares_memory(made, np.frombuffer(buffer, np.float32))


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=6))
def test_requests_in_json_and_in_bytes_share_a_batch(parts: list[tuple[int, bool]]):
    model, requests, expected = single(), [], []
    for number, (rows, raw) in enumerate(parts):
        values = np.full((rows, 4), number, np.float32)
        expected.append(values)
        data = values.tobytes() if raw else values.ravel().tolist()
        requests.append([Given("x", "FP32", (rows, 4) if raw else [rows, 4], data)])
    assert np.array_equal(arrays_of(model, *requests)[0], np.concatenate(expected))


def test_a_nan_is_taken_or_refused_as_the_endpoint_says():
    for bad in (float("nan"), float("inf"), float("-inf")):
        for data in ([1.0, bad, 1.0, 1.0], np.array([1.0, bad, 1.0, 1.0], np.float32).tobytes()):
            assert not np.isfinite(one_of(single(), data, [1, 4])).all()
            with pytest.raises(Invalid, match="refuses those"):
                one_of(single(nan="refuse"), data, [1, 4])
    assert one_of(single("INT64", nan="refuse"), [1] * 4, [1, 4], "INT64").tolist() == [[1, 1, 1, 1]]


def test_shapes_that_vary_do_not_fill_the_memory():
    model = single(shape=(-1, -1))
    for width in range(1, 2000):
        model.check([Given("x", "FP32", [1, width], [0.0] * width)])
        arrays_of(model, [Given("x", "FP32", [1, width], [0.0] * width)])
    assert len(model.all[0].known) <= 256
    assert len(model.all[0]._packs) <= 256
