"""What is particular to ONNX: other files, texts, maps, models that mix rows, and ones that never end."""

import os
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

from falaj.registry.formats.content import Content, Malformed
from falaj.registry.formats.onnx import read_onnx
from falaj.runtimes.engine import ModelFiles, Placement, Stoppable
from falaj.runtimes.errors import EngineFailed, NotLoadable, Rejected
from falaj.runtimes.loading import load
from falaj.runtimes.onnx_files import external_files, inputs_without_shape
from tests.runtimes.models import FEATURES, ROWS, WEIGHTS, dense_onnx, files, graph, softmax

FLOAT = TensorProto.FLOAT


def loaded(model, **others):
    return load(
        ModelFiles(runtime="onnx", main="m.onnx", contents={"m.onnx": model.SerializeToString(), **others}), Placement()
    )


def with_weights_in(location: str) -> onnx.ModelProto:
    model = dense_onnx()
    weights = model.graph.initializer[0]
    content = weights.raw_data
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", str(len(content)))):
        entry = weights.external_data.add()
        entry.key, entry.value = key, text
    return model


def test_tensors_in_another_file_of_the_model_are_found():
    engine = loaded(with_weights_in("weights.bin"), **{"weights.bin": WEIGHTS.tobytes()})
    np.testing.assert_allclose(engine.run([ROWS])[0], softmax(ROWS), rtol=1e-5)


def test_tensors_in_another_file_are_found_beside_the_model_in_its_folder():
    contents = {"data/m.onnx": with_weights_in("w").SerializeToString(), "data/w": WEIGHTS.tobytes()}
    engine = load(ModelFiles(runtime="onnx", main="data/m.onnx", contents=contents), Placement())
    np.testing.assert_allclose(engine.run([ROWS])[0], softmax(ROWS), rtol=1e-5)


@pytest.mark.parametrize(
    "location", ["weights.bin", "/etc/hostname", "../w", "a/../../w", "", "*/_ORT_MEM_ADDR_/*", "./weights.bin"]
)
def test_no_file_of_the_machine_is_ever_read(location, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(WEIGHTS.tobytes())
    with pytest.raises(NotLoadable, match="not one of its files"):
        loaded(with_weights_in(location))


def test_a_tensor_deep_in_the_graph_is_no_way_around(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w").write_bytes(os.urandom(64))
    hidden = with_weights_in("w").graph.initializer[0]
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["z"], value=hidden)], "b", [], [helper.make_tensor_value_info("z", FLOAT, None)]
    )
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    with pytest.raises(NotLoadable, match="not one of its files"):
        loaded(graph(nodes, [("c", TensorProto.BOOL, [])], [("y", FLOAT, None)]))


def test_a_field_that_only_some_readers_see_is_refused(tmp_path, monkeypatch):
    """A number with one bit more than fields have: protobuf in C++ cuts it off, and finds weights in a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w").write_bytes(WEIGHTS.tobytes())
    model = with_weights_in("w")
    plain, long = bytes([14 << 3, 1]), bytes([(14 << 3) | 0x80, 0x80, 0x80, 0x80, 0x10, 1])
    tensor = model.graph.initializer[0].SerializeToString()
    assert tensor.count(plain) == 1
    del model.graph.initializer[:]
    inner = model.graph.SerializeToString() + _field(5, tensor.replace(plain, long))
    model.ClearField("graph")
    content = model.SerializeToString() + _field(7, inner)
    with pytest.raises(NotLoadable, match="no field can have"):
        external_files("m.onnx", {"m.onnx": content})
    with pytest.raises(Malformed, match="no field can have"):
        read_onnx(Content(lambda _, offset, length: content[offset : offset + length], "m.onnx", len(content)))


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 1 << 14
    return bytes([number << 3 | 2, len(content) & 0x7F | 0x80, len(content) >> 7]) + content


def test_external_tensors_cut_short_are_refused():
    with pytest.raises(NotLoadable):
        loaded(with_weights_in("w"), w=WEIGHTS.tobytes()[:-4])


def test_a_model_that_mixes_rows_is_asked_for_one_at_a_time():
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1), helper.make_node("Sub", ["x", "m"], ["y"])]
    engine = loaded(graph(nodes, [("x", FLOAT, ["N", 4])], [("y", FLOAT, ["N", 4])]))
    assert not engine.batches
    np.testing.assert_allclose(engine.run([np.ones((2, 4), np.float32)])[0], 0)


def test_a_model_of_one_row_says_so():
    engine = loaded(graph([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, [1, 4])], [("y", FLOAT, [1, 4])]))
    assert not engine.batches
    assert engine.inputs[0].shape == (1, 4)
    with pytest.raises(Rejected):
        engine.run([np.ones((2, 4), np.float32)])


def test_open_lengths_inside_a_row_are_open():
    engine = loaded(graph([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["N", "L"])], [("y", FLOAT, ["N", "L"])]))
    assert engine.batches
    assert engine.inputs[0].shape == (-1, -1)
    for length in (1, 7, 100):
        assert engine.run([np.ones((3, length), np.float32)])[0].shape == (3, length)


def test_inputs_without_a_shape_are_refused_and_scalars_are_not():
    shapeless = graph([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, None)], [("y", FLOAT, None)])
    assert inputs_without_shape(shapeless.SerializeToString()) == ["x"]
    with pytest.raises(NotLoadable, match="inputs without a shape: x"):
        loaded(shapeless)
    engine = loaded(graph([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, [])], [("y", FLOAT, [])]))
    assert engine.run([np.array(-2, np.float32)])[0] == 0


def test_texts_that_are_not_utf8_are_rejected():
    texts = [[(name, TensorProto.STRING, ["N"])] for name in "xy"]
    engine = loaded(graph([helper.make_node("Identity", ["x"], ["y"])], *texts))
    assert engine.run([np.array([b"a", "ü".encode()], object)])[0].tolist() == [b"a", "ü".encode()]
    with pytest.raises(Rejected, match="UTF-8"):
        engine.run([np.array([b"\xff"], object)])


def test_maps_of_texts_tell_their_labels():
    words = np.where(ROWS[:, 0] > 0, "yes", "no")
    trained = LogisticRegression().fit(ROWS, words)
    engine = loaded(to_onnx(trained, ROWS[:1], target_opset=17))
    assert engine.labels == {"output_probability": (b"no", b"yes")}
    label, chances = engine.run([ROWS])
    assert label.tolist() == [word.encode() for word in trained.predict(ROWS)]
    np.testing.assert_allclose(chances, trained.predict_proba(ROWS), atol=1e-5)


def test_types_without_a_word_in_the_protocol_are_refused_with_a_way_out():
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    with pytest.raises(NotLoadable, match="bfloat16"):
        loaded(graph([cast], [("x", FLOAT, ["N"])], [("y", TensorProto.BFLOAT16, ["N"])]))


def test_inputs_that_make_the_model_fail_are_told_and_the_next_are_answered():
    weights = [numpy_helper.from_array(np.arange(8, dtype=np.float32).reshape(4, 2), "table")]
    model = graph(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        [("x", TensorProto.INT64, ["N"])],
        [("y", FLOAT, ["N", 2])],
        weights,
    )
    engine = loaded(model)
    for _ in range(3):
        with pytest.raises((Rejected, EngineFailed), match="out of"):
            engine.run([np.array([99])])
        np.testing.assert_array_equal(engine.run([np.array([1, 3])])[0], [[2, 3], [6, 7]])


def endless() -> onnx.ModelProto:
    """Doubles `x`, as many times as it is told."""
    body = helper.make_graph(
        [helper.make_node("Add", ["held", "held"], ["next"]), helper.make_node("Identity", ["go"], ["going"])],
        "body",
        [
            helper.make_tensor_value_info(*one)
            for one in (("n", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("held", FLOAT, None))
        ],
        [helper.make_tensor_value_info(*one) for one in (("going", TensorProto.BOOL, []), ("next", FLOAT, None))],
    )
    nodes = [
        helper.make_node("Cast", ["times"], ["count"], to=TensorProto.INT64),
        helper.make_node("Loop", ["count", "", "x"], ["y"], body=body),
    ]
    return graph(nodes, [("x", FLOAT, [1, FEATURES]), ("times", TensorProto.INT64, [])], [("y", FLOAT, None)])


def test_outputs_without_a_shape_get_one_by_asking():
    engine = loaded(endless())
    assert engine.outputs[0].shape == (-1, -1)


def test_a_run_that_never_ends_can_be_stopped_and_the_engine_goes_on():
    engine = loaded(endless())
    assert isinstance(engine, Stoppable)
    threading.Timer(0.3, engine.stop).start()
    started = time.monotonic()
    with pytest.raises(EngineFailed, match="stopped"):
        engine.run([ROWS[:1], np.array(2**50)])
    assert time.monotonic() - started < 5
    np.testing.assert_allclose(engine.run([ROWS[:1], np.array(1)])[0], ROWS[:1] * 2)


def test_a_model_larger_than_a_cut_of_it_is_walked_in_time():
    """A forest of many thousand single numbers that also keeps a tensor elsewhere."""
    model = with_weights_in("w")
    numbers = helper.make_node("Constant", [], ["unused"], value_floats=[1.0] * 300_000)
    model.graph.node.append(numbers)
    started = time.monotonic()
    loaded(model, w=WEIGHTS.tobytes())
    assert time.monotonic() - started < 3


def test_files_of_the_wrong_kind_are_refused():
    with pytest.raises(NotLoadable):
        load(files("onnx", "m", m=b"ORTM" * 100), Placement())
