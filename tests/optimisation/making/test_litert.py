"""Networks as LiteRT models: they answer as the original does, for any number of rows, by LiteRT's own engine."""

import collections
from dataclasses import replace

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import helper

from falaj.optimisation.making.parity import parity
from falaj.optimisation.making.running import engine_of
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.making.values import CannotBeMade, Made, Material, Sample
from tests.optimisation.making.models import (
    FLOAT,
    INT64,
    conv,
    conv_material,
    digits,
    graph,
    node,
    onnx_made,
    sentences,
    two_input_rows,
    two_inputs,
)
from tests.optimisation.making.torch_nets import nets, numbers

KINDS = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
DOUBLE = 11
NETS = ("pictures", "dense", "reader")


def material_of(rows: Sample) -> Material:
    return Material(calibration=rows, training=rows, selection=rows, drop=lambda made: 0.0)


def rows_of(name: str) -> Sample:
    """Such as the network has not seen."""
    known = {
        "pictures": lambda: digits()[1],
        "dense": lambda: Sample(inputs=(numbers()[0][1000:],)),
        "reader": lambda: sentences()[1],
    }
    return known[name]()


def formed(name: str, step: str = "litert") -> Made:
    return STEPS[step](nets()[name], "", material_of(rows_of(name).part(0, 64)))


def kinds_in(form: Made) -> collections.Counter[str]:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(form.content, 0))
    return collections.Counter(
        KINDS[model.operatorCodes[step.opcodeIndex].builtinCode] for step in model.subgraphs[0].operators
    )


@pytest.mark.parametrize("name", NETS)
def test_a_trained_network_answers_as_it_did(name):
    held = parity(nets()[name], formed(name), rows_of(name))
    assert held.holds, held
    assert held.agreeing == 1.0


@pytest.mark.parametrize("name", NETS)
def test_any_number_of_rows_can_be_asked_one_after_the_other(name):
    original, form = engine_of(nets()[name]), engine_of(formed(name))
    assert form.batches
    for count in (1, 7, 64, 3):
        rows = [one[:count] for one in rows_of(name).inputs]
        np.testing.assert_allclose(form.run(rows)[0], original.run(rows)[0], atol=1e-3)


@pytest.mark.parametrize("name", NETS)
def test_weights_in_eight_bits_make_a_third_of_the_file_and_nearly_the_same_answers(name):
    form = formed(name, "litert-int8")
    assert 3 * form.size < nets()[name].size
    assert parity(nets()[name], form, rows_of(name)).agreeing > 0.98
    assert engine_of(form).batches
    assert "INT8" in form.notes[-1]


def test_tables_of_words_are_in_eight_bits_too():
    random = np.random.default_rng(0)
    weights = {"words": random.standard_normal((300, 64)).astype(np.float32), "axis": np.array([1])}
    nodes = [node("Gather", ["words", "x"], "found"), node("ReduceMean", ["found", "axis"], "y", keepdims=0)]
    made = onnx_made(graph(nodes, [("x", INT64, ["rows", 7])], [("y", FLOAT, ["rows", 64])], weights))
    rows = Sample(inputs=(random.integers(0, 300, (50, 7)),))
    form = STEPS["litert-int8"](made, "", material_of(rows))
    assert kinds_in(form)["EMBEDDING_LOOKUP"] == 1
    assert 3 * form.size < made.size
    assert parity(made, form, rows, tolerance=0.05).holds


def test_pictures_are_turned_nowhere_on_their_way_through_a_network():
    """They have one colour, so that even the first one lies as LiteRT wants it."""
    found = kinds_in(formed("pictures"))
    assert found["TRANSPOSE"] == 0
    assert found["CONV_2D"] + found["DEPTHWISE_CONV_2D"] == 13
    assert not found.keys() & {"RELU", "RELU6"}  # they are a part of the layers before


def test_layers_of_a_transformer_have_their_bias_within():
    found = kinds_in(formed("reader"))
    assert found["FULLY_CONNECTED"] == 9
    assert found["GELU"] == 2
    assert found["TRANSPOSE"] <= 8


def test_coloured_pictures_are_turned_at_the_door_and_where_they_become_numbers():
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((8, 3, 3, 3)).astype(np.float32) / 5,
        "deep": random.standard_normal((8, 1, 3, 3)).astype(np.float32) / 3,
        "last": random.standard_normal((5, 8 * 36)).astype(np.float32) / 17,
        "shift": random.standard_normal((8, 1, 1)).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]),
        node("HardSwish", ["a"], "a_bent"),
        node("Conv", ["a_bent", "deep"], "b", pads=[1, 1, 1, 1], group=8),
        node("Add", ["a_bent", "b"], "c"),
        node("Add", ["c", "shift"], "d"),
        node("GlobalAveragePool", ["d"], "e"),
        node("Sigmoid", ["e"], "f"),
        node("Mul", ["d", "f"], "g"),
        node("MaxPool", ["g"], "h", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["h"], "i"),
        node("Gemm", ["i", "last"], "y", transB=1),
    ]
    made = onnx_made(graph(nodes, [("x", FLOAT, ["rows", 3, 12, 12])], [("y", FLOAT, ["rows", 5])], weights))
    form = STEPS["litert"](made, "", material_of(Sample(inputs=(random.standard_normal((20, 3, 12, 12)).astype(np.float32),))))
    assert kinds_in(form)["TRANSPOSE"] == 2


def test_pictures_that_come_with_channels_last_are_never_turned():
    weights = {"w": np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)}
    nodes = [
        node("Transpose", ["x"], "first", perm=[0, 3, 1, 2]),
        node("Conv", ["first", "w"], "c"),
        node("Transpose", ["c"], "y", perm=[0, 2, 3, 1]),
    ]
    made = onnx_made(graph(nodes, [("x", FLOAT, ["rows", 6, 6, 3])], [("y", FLOAT, ["rows", 4, 4, 8])], weights))
    rows = Sample(inputs=(np.random.default_rng(1).standard_normal((9, 6, 6, 3)).astype(np.float32),))
    assert kinds_in(STEPS["litert"](made, "", material_of(rows))) == {"CONV_2D": 1}


def test_several_inputs_and_outputs_keep_their_names_and_types():
    rows = two_input_rows()
    form = STEPS["litert"](two_inputs(), "", material_of(rows))
    engine = engine_of(form)
    assert [(one.name, one.datatype, one.shape) for one in engine.inputs] == [
        ("numbers", "FP32", (-1, 6)),
        ("kind", "INT64", (-1, 1)),
    ]
    assert [(one.name, one.datatype, one.shape) for one in engine.outputs] == [
        ("scores", "FP32", (-1, 2)),
        ("label", "INT64", (-1,)),
    ]
    assert parity(two_inputs(), form, rows).agreeing == 1.0


def test_settings_of_other_engines_are_left_behind():
    form = STEPS["settings"](conv(), "arena=off", conv_material())
    assert STEPS["litert"](form, "", conv_material()).settings == {}


def with_trace(strange):
    note = strange.metadata_props.add()
    note.key, note.value = "pkg.torch.onnx.stack_trace", 'File "/home/me/model.py", line 12, in forward\n'
    return strange


@pytest.mark.parametrize("step", ["litert", "litert-int8"])
def test_an_operator_that_litert_does_not_have_is_named_with_the_line_that_made_it(step):
    strange = with_trace(node("Det", ["square"], "y"))
    model = graph([node("Abs", ["x"], "square"), strange], [("x", FLOAT, ["rows", 3, 3])], [("y", FLOAT, ["rows"])], {})
    with pytest.raises(
        CannotBeMade, match=r"no operator for Det \(node node_y, made by /home/me/model.py line 12 in forward\)"
    ):
        STEPS[step](onnx_made(model), "", conv_material())


def test_what_litert_itself_refuses_is_named_too():
    model = graph([with_trace(node("Tanh", ["x"], "y"))], [("x", DOUBLE, ["rows", 3])], [("y", DOUBLE, ["rows", 3])], {})
    with pytest.raises(CannotBeMade, match=r"TANH.*by Tanh \(node node_y, made by /home/me/model.py line 12 in forward\)"):
        STEPS["litert"](onnx_made(model), "", material_of(Sample(inputs=(np.ones((2, 3)),))))


def repeated(last: list):
    """A constant that is laid out once for each row, and what is done with it then."""
    weights = {"token": np.arange(4, dtype=np.float32).reshape(1, 1, 4), "first": np.array([0]), "two": np.array([1, 4])}
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Gather", ["shape", "first"], "rows"),
        node("Concat", ["rows", "two"], "wanted", axis=0),
        node("Expand", ["token", "wanted"], "tokens"),
        *last,
    ]
    return nodes, weights


def test_a_constant_for_each_row_is_refused_where_it_would_fit_one_number_of_rows():
    nodes, weights = repeated([node("Concat", ["tokens", "x"], "y", axis=1)])
    model = graph(nodes, [("x", FLOAT, ["rows", 3, 4])], [("y", FLOAT, ["rows", 4, 4])], weights)
    with pytest.raises(CannotBeMade, match=r"length for each row.*Concat \(node node_y\)"):
        STEPS["litert"](onnx_made(model), "", conv_material())


def test_a_constant_that_is_the_same_for_each_row_is_added_to_any_number_of_them():
    nodes, weights = repeated([node("Add", ["tokens", "x"], "y")])
    made = onnx_made(graph(nodes, [("x", FLOAT, ["rows", 3, 4])], [("y", FLOAT, ["rows", 3, 4])], weights))
    rows = Sample(inputs=(np.ones((9, 3, 4), np.float32),))
    assert parity(made, STEPS["litert"](made, "", material_of(rows)), rows).holds


def test_lengths_that_look_like_rows_are_told_from_them():
    """1009 is what rows are taken to be at first."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((4, 1009)).astype(np.float32),
        "v": random.standard_normal((1009, 2)).astype(np.float32),
    }
    nodes = [node("MatMul", ["x", "w"], "h"), node("Tanh", ["h"], "b"), node("MatMul", ["b", "v"], "y")]
    made = onnx_made(graph(nodes, [("x", FLOAT, ["rows", 4])], [("y", FLOAT, ["rows", 2])], weights))
    rows = Sample(inputs=(random.standard_normal((9, 4)).astype(np.float32),))
    assert engine_of(STEPS["litert"](made, "", material_of(rows))).outputs[0].shape == (-1, 2)


def test_a_model_that_counts_its_rows_is_refused():
    """Folded, the number of rows would be what it was taken to be."""
    weights = {"first": np.array(0)}
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Gather", ["shape", "first"], "rows"),
        node("Cast", ["rows"], "count", to=FLOAT),
        node("Div", ["x", "count"], "y"),
    ]
    made = onnx_made(graph(nodes, [("x", FLOAT, ["rows", 4])], [("y", FLOAT, ["rows", 4])], weights))
    with pytest.raises(CannotBeMade, match="answers something else"):
        STEPS["litert"](made, "", material_of(Sample(inputs=(np.ones((9, 4), np.float32),))))


def test_a_second_free_axis_is_refused_by_name():
    model = graph([node("Abs", ["x"], "y")], [("x", FLOAT, ["rows", "length"])], [("y", FLOAT, ["rows", "length"])], {})
    with pytest.raises(CannotBeMade, match=r"input x has a free axis beside its rows \(length\)"):
        STEPS["litert"](onnx_made(model), "", conv_material())


def test_a_model_without_layers_is_not_made_smaller():
    model = graph([node("Abs", ["x"], "y")], [("x", FLOAT, ["rows", 3])], [("y", FLOAT, ["rows", 3])], {})
    with pytest.raises(CannotBeMade, match="no layer"):
        STEPS["litert-int8"](onnx_made(model), "", conv_material())


def test_other_forms_than_onnx_are_refused():
    with pytest.raises(CannotBeMade, match="takes ONNX models"):
        STEPS["litert"](replace(conv(), runtime="openvino"), "", conv_material())


def test_an_operator_of_somebodys_own_is_refused():
    model = graph(
        [helper.make_node("Sparkle", ["x"], ["y"], domain="acme.ai")],
        [("x", FLOAT, ["rows", 3])],
        [("y", FLOAT, ["rows", 3])],
        {},
    )
    model.opset_import.append(helper.make_opsetid("acme.ai", 1))
    with pytest.raises(CannotBeMade, match=r"operators of its own: acme.ai.Sparkle"):
        STEPS["litert"](replace(conv(), files={"model.onnx": model.SerializeToString()}), "", conv_material())
