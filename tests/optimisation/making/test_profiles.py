"""What kind of model a file is, told from the file alone."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper, numpy_helper

from falaj.optimisation.making.onnx_graphs import read_graph, written
from falaj.optimisation.making.profiles import profile_of
from falaj.optimisation.making.values import CannotBeMade, Made
from tests.optimisation.making.models import FLOAT, booster, conv, graph, onnx_made, transformer, two_inputs


def test_networks_are_told_apart_by_their_operators():
    assert [profile_of(made).family for made in (conv(), transformer(), two_inputs())] == ["conv", "transformer", "mlp"]


def test_a_profile_says_what_an_export_has_to_report():
    found = profile_of(transformer())
    assert found.operators["MatMul"] == 8
    assert found.opsets == {"": 20}
    assert found.parameters == sum(int(np.prod(tensor.dims)) for tensor in read_graph(transformer()).graph.initializer) - 1
    assert found.size == transformer().size
    assert found.is_float
    assert not found.is_quantised
    assert [(face.name, face.datatype, face.axes) for face in found.inputs] == [("tokens", "INT64", ("rows", 12))]
    assert found.has_free_rows


def test_a_model_of_several_inputs_has_all_of_them_in_its_profile():
    found = profile_of(two_inputs())
    assert [face.name for face in found.inputs] == ["numbers", "kind"]
    assert [face.datatype for face in found.outputs] == ["FLOAT", "INT64"]


def test_trees_are_counted():
    found = profile_of(booster("binary", 15, 60))
    assert (found.family, found.trees, found.inputs[0].axes) == ("trees", 60, ("rows", 14))
    assert 2 <= found.leaves <= 15


def test_weights_in_a_file_beside_are_read_too():
    model = read_graph(conv())
    tensor = model.graph.initializer[0]
    values = numpy_helper.to_array(tensor)
    beside = values.tobytes()
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    for key, told in (("location", "weights.bin"), ("offset", "8"), ("length", str(len(beside)))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, told
    apart = replace(conv(), files={"model.onnx": model.SerializeToString(), "weights.bin": b"12345678" + beside})
    whole = written(apart, read_graph(apart))
    assert list(whole.files) == ["model.onnx"]
    np.testing.assert_array_equal(numpy_helper.to_array(read_graph(whole).graph.initializer[0]), values)


def test_operators_that_are_written_as_functions_are_seen_through():
    double = helper.make_function("mine", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [opset(18)])
    nodes = [helper.make_node("Double", ["x"], ["y"], domain="mine")]
    model = graph(nodes, [("x", FLOAT, ["rows", 3])], [("y", FLOAT, ["rows", 3])], {}, functions=[opset(1, "mine")])
    model.functions.append(double)
    assert profile_of(onnx_made(model)).operators == {"Add": 1}


def opset(version, domain=""):
    return helper.make_opsetid(domain, version)


@pytest.mark.parametrize(("runtime", "content"), [("onnx", b"\xff\xff no model"), ("lightgbm", b"no tree"), ("xgboost", b"{")])
def test_what_is_no_model_has_no_profile(runtime, content):
    with pytest.raises(CannotBeMade):
        profile_of(Made(runtime=runtime, file="m", files={"m": content}))
