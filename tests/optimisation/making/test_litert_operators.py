"""Every ONNX operator that has a form in LiteRT, on its own: answers are what ONNX Runtime gives."""

import numpy as np
import pytest
from onnx import defs, helper, shape_inference

from falaj.optimisation.making.litert_operators import OPERATORS
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.making.values import CannotBeMade, Material, Sample
from tests.optimisation.making.models import FLOAT, INT64, graph, node, onnx_made

BOOL = 9
TABLE, SERIES, PICTURE = (6,), (5, 6), (4, 7, 8)
RANDOM = np.random.default_rng(0)


def weights(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def made_of(nodes, shape, weights_of, kind=FLOAT, *, opset=20, made=FLOAT):
    """Whatever shape comes out: ONNX finds it."""
    model = graph(nodes, [("x", kind, ["rows", *shape])], [("y", made, None)], weights_of, opset=opset)
    return onnx_made(shape_inference.infer_shapes(model))


def check(nodes, shape, weights_of=None, *, rows=None, **settings):
    """A step says itself where answers differ."""
    made = made_of(nodes, shape, weights_of or {}, **settings)
    drawn = RANDOM.standard_normal((5, *shape)).astype(np.float32) if rows is None else rows
    sample = Sample(inputs=(drawn,))
    return STEPS["litert"](made, "", Material(calibration=sample, training=sample, selection=sample, drop=lambda made: 0.0))


ALONE = {
    **{kind: {} for kind in ("Abs", "Ceil", "Cos", "Exp", "Floor", "HardSwish", "Identity", "Neg", "Relu", "Round", "Sigmoid")},
    **{kind: {} for kind in ("Sign", "Sin", "Tanh", "Elu", "Gelu", "LeakyRelu", "HardSigmoid", "Reciprocal")},
    "Softmax": {"axis": -1},
    "LogSoftmax": {"axis": -1},
}


@pytest.mark.parametrize("shape", [TABLE, SERIES, PICTURE])
@pytest.mark.parametrize("kind", ALONE)
def test_number_by_number(kind, shape):
    check([node(kind, ["x"], "y", **ALONE[kind])], shape)


@pytest.mark.parametrize("kind", ["Log", "Sqrt"])
def test_of_positive_numbers_alone(kind):
    check([node("Abs", ["x"], "up"), node(kind, ["up"], "y")], TABLE)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("LeakyRelu", {"alpha": 0.3}),
        ("HardSigmoid", {"alpha": 1 / 6}),
        ("Gelu", {"approximate": "tanh"}),
        ("Softmax", {"axis": 1}),
    ],
)
def test_with_settings_of_its_own(kind, given):
    check([node(kind, ["x"], "y", **given)], SERIES)


@pytest.mark.parametrize("bounds", [(0.0, 6.0), (-0.5, 0.5), (None, 0.2), (0.1, None)])
def test_clipping(bounds):
    known = {name: np.float32(bound) for name, bound in zip(("low", "high"), bounds, strict=True) if bound is not None}
    names = [name if name in known else "" for name in ("low", "high")]
    check([node("Clip", ["x", *names], "y")], SERIES, known)


@pytest.mark.parametrize("shape", [(), (6,), (5, 1), (1, 5, 6)])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_arithmetic_with_constants_of_any_shape(kind, shape):
    check([node(kind, ["x", "w"], "y")], SERIES, {"w": np.abs(weights(*shape)) + 1})
    check([node(kind, ["w", "x"], "z"), node("Relu", ["z"], "y")], SERIES, {"w": weights(*shape)})


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -0.5])
def test_powers(exponent):
    check([node("Abs", ["x"], "up"), node("Pow", ["up", "e"], "y")], TABLE, {"e": np.float32(exponent)})


@pytest.mark.parametrize("kind", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparing_and_choosing(kind):
    nodes = [node(kind, ["x", "w"], "is"), node("Not", ["is"], "not"), node("Where", ["not", "x", "w"], "y")]
    check(nodes, SERIES, {"w": weights(6)})


@pytest.mark.parametrize("kind", ["And", "Or"])
def test_of_truths(kind):
    nodes = [node("Less", ["x", "w"], "one"), node("Greater", ["x", "v"], "other"), node(kind, ["one", "other"], "y")]
    check(nodes, SERIES, {"w": weights(6), "v": weights(6)}, made=BOOL)


def test_types():
    check([node("Cast", ["x"], "whole", to=INT64), node("Cast", ["whole"], "y", to=FLOAT)], TABLE)


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("axes", [[1], [-1], [2, 3], [1, 2], [1, 2, 3]])
@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
def test_over_axes_of_pictures_on_their_way(kind, axes, keeps):
    known = {"w": weights(4, 4, 1, 1), "axes": np.array(axes)}
    nodes = [node("Conv", ["x", "w"], "c"), node(kind, ["c", "axes"], "y", keepdims=keeps)]
    check(nodes, PICTURE, known)


def test_over_axes_named_as_older_models_do():
    check([node("ReduceMean", ["x"], "y", axes=[1], keepdims=0)], SERIES, opset=13)
    check([node("Unsqueeze", ["x"], "w", axes=[2]), node("Squeeze", ["w"], "y", axes=[2])], SERIES, opset=11)
    check([node("Clip", ["x"], "y", min=0.0, max=6.0)], TABLE, opset=10)


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keeps", [0, 1])
def test_where_the_largest_is(kind, keeps):
    check([node(kind, ["x"], "y", axis=1, keepdims=keeps)], SERIES, made=INT64)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1], [2, 1, 0, 3]])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions(groups, stride, pads):
    known = {"w": weights(8, 4 // groups, 3, 3), "b": weights(8)}
    check([node("Conv", ["x", "w", "b"], "y", pads=pads, strides=[stride, stride], group=groups)], PICTURE, known)


@pytest.mark.parametrize("given", [{"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}, {"dilations": [2, 2]}])
def test_convolutions_told_otherwise(given):
    strides = [1, 1] if "dilations" in given else [2, 2]
    check([node("Conv", ["x", "w"], "y", strides=strides, **given)], PICTURE, {"w": weights(3, 4, 3, 3)})


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1]])
@pytest.mark.parametrize(("stride", "rounding"), [(1, 0), (2, 0), (2, 1), (3, 0)])
def test_pooling(stride, rounding, pads):
    given = {"kernel_shape": [3, 3], "strides": [stride, stride], "pads": pads, "ceil_mode": rounding}
    check([node("MaxPool", ["x"], "y", **given)], PICTURE)
    for counts in (0, 1):
        check([node("AveragePool", ["x"], "y", count_include_pad=counts, **given)], PICTURE)
    check([node("GlobalAveragePool", ["x"], "y")], PICTURE)


def test_norms_that_no_layer_took_in():
    known = {name: np.abs(weights(4)) + 0.1 for name in ("scale", "shift", "mean", "spread")}
    norm = ["scale", "shift", "mean", "spread"]
    check([node("Relu", ["x"], "up"), node("BatchNormalization", ["up", *norm], "y")], PICTURE, known)
    check([node("MaxPool", ["x"], "p", kernel_shape=[2, 2]), node("BatchNormalization", ["p", *norm], "y")], PICTURE, known)


@pytest.mark.parametrize("axis", [-1, 1])
def test_norms_of_layers(axis):
    shape = SERIES if axis == 1 else SERIES[1:]
    known = {"scale": weights(*shape), "shift": weights(*shape)}
    check([node("LayerNormalization", ["x", "scale", "shift"], "y", axis=axis)], SERIES, known)


def test_a_gelu_that_was_written_out():
    known = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    nodes = [
        node("Div", ["x", "root"], "a"),
        node("Erf", ["a"], "b"),
        node("Add", ["b", "one"], "c"),
        node("Mul", ["x", "c"], "d"),
        node("Mul", ["d", "half"], "y"),
    ]
    check(nodes, SERIES, known, opset=17)


@pytest.mark.parametrize("turned", [0, 1])
def test_dense_layers(turned):
    known = {"w": weights(*((9, 6) if turned else (6, 9))), "b": weights(9)}
    check([node("Gemm", ["x", "w", "b"], "z", transB=turned, alpha=0.5, beta=2.0), node("Relu", ["z"], "y")], TABLE, known)


def test_products():
    known = {"w": weights(6, 9), "b": weights(9)}
    check([node("MatMul", ["x", "w"], "z"), node("Add", ["b", "z"], "y")], SERIES, known)
    check([node("Transpose", ["x"], "t", perm=[0, 2, 1]), node("MatMul", ["x", "t"], "y")], SERIES)
    check([node("MatMul", ["w", "x"], "y")], SERIES, {"w": weights(3, 5)})


def test_axes_added_taken_away_and_moved():
    known = {"to": np.array([0, 3, -1]), "one": np.array([2])}
    check(
        [node("Reshape", ["x", "to"], "r"), node("Unsqueeze", ["r", "one"], "u"), node("Squeeze", ["u", "one"], "y")],
        SERIES,
        known,
    )
    check([node("Reshape", ["x", "to"], "y")], PICTURE, {"to": np.array([-1, 8])})
    check([node("Transpose", ["x"], "y", perm=[0, 3, 2, 1])], PICTURE)
    check([node("Flatten", ["x"], "y", axis=2)], PICTURE)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_pictures_joined_and_cut_on_their_way(axis):
    known = {"w": weights(4, 4, 1, 1), "start": np.array([1]), "end": np.array([4]), "axis": np.array([axis])}
    nodes = [
        node("Conv", ["x", "w"], "c"),
        node("Relu", ["c"], "r"),
        node("Concat", ["c", "r"], "j", axis=axis),
        helper.make_node("Split", ["j"], ["one", "other"], num_outputs=2, axis=axis, name="parts"),
        node("Sub", ["one", "other"], "s"),
        node("Slice", ["s", "start", "end", "axis"], "y"),
    ]
    check(nodes, PICTURE, known)


def test_every_second_one():
    known = {"start": np.array([1]), "end": np.array([100]), "axis": np.array([2]), "step": np.array([2])}
    check([node("Slice", ["x", "start", "end", "axis", "step"], "y")], SERIES, known)


@pytest.mark.parametrize("places", [np.array(-1), np.array([0, -1, 2])])
def test_picking(places):
    check([node("Gather", ["x", "at"], "y", axis=1)], SERIES, {"at": places})


def test_picking_from_a_table_by_what_is_asked():
    rows = RANDOM.integers(0, 9, (5, 3))
    check([node("Gather", ["table", "x"], "y")], (3,), {"table": weights(9, 4)}, rows=rows, kind=INT64)


@pytest.mark.parametrize("filling", [0.0, 1.5])
def test_padding(filling):
    known = {"pads": np.array([0, 0, 1, 2, 0, 0, 3, 0]), "with": np.float32(filling), "w": weights(4, 4, 1, 1)}
    check([node("Conv", ["x", "w"], "c"), node("Pad", ["c", "pads", "with"], "y")], PICTURE, known)


def test_slopes_of_each_channel():
    check(
        [node("Conv", ["x", "w"], "c"), node("PRelu", ["c", "s"], "y")],
        PICTURE,
        {"w": weights(4, 4, 1, 1), "s": weights(4, 1, 1)},
    )


REFUSED = {
    "groups of channels": ([node("Conv", ["x", "w"], "y", group=2)], PICTURE, {"w": weights(4, 2, 1, 1)}),
    "over two axes": ([node("Conv", ["x", "w"], "y")], SERIES, {"w": weights(4, 5, 3)}),
    "windows have gaps": ([node("MaxPool", ["x"], "y", kernel_shape=[2, 2], dilations=[2, 2])], PICTURE, {}),
    "adds up rows": ([node("ReduceSum", ["x", "axes"], "y")], TABLE, {"axes": np.array([0])}),
    "picks among rows": ([node("Gather", ["x", "at"], "y")], TABLE, {"at": np.array([0, 1])}),
    "cuts among rows": ([node("Slice", ["x", "s", "e"], "y")], TABLE, {"s": np.array([0]), "e": np.array([2])}),
    "joins rows": ([node("Concat", ["x", "x"], "y", axis=0)], TABLE, {}),
    "one axis alone": ([node("MatMul", ["x", "w"], "y")], TABLE, {"w": weights(6)}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_taken_is_told_with_the_node(why):
    nodes, shape, known = REFUSED[why]
    with pytest.raises(CannotBeMade, match=rf"LiteRT cannot take {nodes[0].op_type} \(node node_y\).*{why}"):
        check(nodes, shape, known)


def test_no_operator_is_in_the_table_by_a_wrong_name():
    ours = {"FastGelu"}  # ONNX Runtime's own
    assert all(defs.has(kind) for kind in OPERATORS.keys() - ours)
