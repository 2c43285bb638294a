"""Small models with answers worth something, made in a second: what they learn, they learn in their last layer alone."""

import functools

import lightgbm
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import Made, Material, Sample

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def onnx_made(model: onnx.ModelProto) -> Made:
    onnx.checker.check_model(model)
    return Made(runtime="onnx", file="model.onnx", files={"model.onnx": model.SerializeToString()})


def graph(nodes, inputs, outputs, weights, *, opset=20, functions=()):
    made = [[helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    opsets = [helper.make_opsetid("", opset), *functions]
    return helper.make_model(helper.make_graph(nodes, "g", *made, tensors), opset_imports=opsets, ir_version=9)


def node(kind, given, made, **settings):
    return helper.make_node(kind, given, [made], name=f"node_{made}", **settings)


def material(calibration, selection, truth, original, *, allowed=0.02) -> Material:
    said = right(original, selection, truth)
    return Material(
        calibration=calibration,
        training=calibration,
        selection=selection,
        drop=lambda made: said - right(made, selection, truth),
        allowed=allowed,
    )


def right(made: Made, sample: Sample, truth: np.ndarray) -> float:
    return float((answers(made, sample)[0].argmax(axis=1) == truth).mean())


def taught(model: onnx.ModelProto, features: str, feeds: np.ndarray, truth: np.ndarray) -> onnx.ModelProto:
    """The model's last layer (weights `last`, bias `last_bias`), fitted to what it is given."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    asked.graph.output.append(helper.make_empty_tensor_value_info(features))
    session = onnxruntime.InferenceSession(asked.SerializeToString(), providers=["CPUExecutionProvider"])
    seen = session.run([features], {model.graph.input[0].name: feeds})[0]
    fitted = RidgeClassifier(alpha=1.0).fit(seen, truth)
    for tensor in model.graph.initializer:
        if tensor.name == "last":
            tensor.CopyFrom(numpy_helper.from_array(fitted.coef_.astype(np.float32), "last"))
        if tensor.name == "last_bias":
            tensor.CopyFrom(numpy_helper.from_array(fitted.intercept_.astype(np.float32), "last_bias"))
    return model


@functools.cache
def digits() -> tuple[Sample, Sample, np.ndarray]:
    """Pictures to calibrate on, pictures to compare on, and what is on the latter."""
    pictures, truth = load_digits(return_X_y=True)
    rows = (pictures.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    return Sample(inputs=(rows[:900],), truth=truth[:900]), Sample(inputs=(rows[900:],), truth=truth[900:]), truth[900:]


@functools.cache
def conv() -> Made:
    random = np.random.default_rng(0)
    weights = {
        "first": random.standard_normal((12, 1, 3, 3)).astype(np.float32) / 3,
        "first_bias": np.zeros(12, np.float32),
        "second": random.standard_normal((24, 12, 3, 3)).astype(np.float32) / 10,
        "second_bias": np.zeros(24, np.float32),
        "last": np.zeros((10, 24 * 16), np.float32),
        "last_bias": np.zeros(10, np.float32),
    }
    nodes = [
        node("Conv", ["pictures", "first", "first_bias"], "one", pads=[1, 1, 1, 1]),
        node("Relu", ["one"], "one_up"),
        node("Conv", ["one_up", "second", "second_bias"], "two", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["two"], "two_up"),
        node("Flatten", ["two_up"], "flat"),
        node("Gemm", ["flat", "last", "last_bias"], "scores", transB=1),
    ]
    model = graph(nodes, [("pictures", FLOAT, ["rows", 1, 8, 8])], [("scores", FLOAT, ["rows", 10])], weights)
    sample, _, _ = digits()
    return onnx_made(taught(model, "flat", sample.inputs[0], sample.truth))


def conv_material(**settings) -> Material:
    calibration, selection, truth = digits()
    return material(calibration, selection, truth, conv(), **settings)


WIDTH, LENGTH, WORDS = 32, 12, 20


@functools.cache
def sentences() -> tuple[Sample, Sample, np.ndarray]:
    """Words by number; the class is which of three words is there most often."""
    random = np.random.default_rng(1)
    rows = random.integers(0, WORDS, (1200, LENGTH))
    counts = np.stack([(rows % 3 == kind).sum(axis=1) for kind in range(3)], axis=1)
    truth = counts.argmax(axis=1)
    return Sample(inputs=(rows[:700],), truth=truth[:700]), Sample(inputs=(rows[700:],), truth=truth[700:]), truth[700:]


@functools.cache
def transformer() -> Made:
    random = np.random.default_rng(2)

    def matrix(*shape):
        return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    weights = {
        "words": matrix(WORDS, WIDTH) * 4,
        **{name: matrix(WIDTH, WIDTH) for name in ("q", "k", "v", "o")},
        "up": matrix(WIDTH, 2 * WIDTH),
        "up_bias": matrix(2 * WIDTH),
        "down": matrix(2 * WIDTH, WIDTH),
        "scale": np.ones(WIDTH, np.float32),
        "shift": np.zeros(WIDTH, np.float32),
        "root": np.array(WIDTH**-0.5, np.float32),
        "last": np.zeros((3, WIDTH), np.float32),
        "last_bias": np.zeros(3, np.float32),
        "axis": np.array([1]),
    }
    nodes = [
        node("Gather", ["words", "tokens"], "x"),
        *(node("MatMul", ["x", name], f"x_{name}") for name in ("q", "k", "v")),
        node("Transpose", ["x_k"], "k_turned", perm=[0, 2, 1]),
        node("MatMul", ["x_q", "k_turned"], "fits"),
        node("Mul", ["fits", "root"], "fits_scaled"),
        node("Softmax", ["fits_scaled"], "looks", axis=-1),
        node("MatMul", ["looks", "x_v"], "seen"),
        node("MatMul", ["seen", "o"], "said"),
        node("Add", ["x", "said"], "sum"),
        node("LayerNormalization", ["sum", "scale", "shift"], "normed", axis=-1),
        node("MatMul", ["normed", "up"], "up_product"),
        node("Add", ["up_product", "up_bias"], "up_sum"),
        node("Gelu", ["up_sum"], "up_bent"),
        node("MatMul", ["up_bent", "down"], "down_product"),
        node("Add", ["normed", "down_product"], "out"),
        node("ReduceMean", ["out", "axis"], "mean", keepdims=0),
        node("Gemm", ["mean", "last", "last_bias"], "scores", transB=1),
    ]
    model = graph(nodes, [("tokens", INT64, ["rows", LENGTH])], [("scores", FLOAT, ["rows", 3])], weights)
    sample, _, _ = sentences()
    return onnx_made(taught(model, "mean", sample.inputs[0], sample.truth))


def transformer_material(**settings) -> Material:
    calibration, selection, truth = sentences()
    return material(calibration, selection, truth, transformer(), **settings)


@functools.cache
def two_inputs() -> Made:
    """Two tables side by side: numbers, and a row of a table by its number."""
    random = np.random.default_rng(3)
    weights = {
        "table": random.standard_normal((7, 8)).astype(np.float32),
        "first": random.standard_normal((14, 32)).astype(np.float32) / 4,
        "second": random.standard_normal((32, 2)).astype(np.float32) / 4,
        "axis": np.array([1]),
    }
    nodes = [
        node("Gather", ["table", "kind"], "kind_row"),
        node("Squeeze", ["kind_row", "axis"], "kind_flat"),
        node("Concat", ["numbers", "kind_flat"], "joined", axis=1),
        node("MatMul", ["joined", "first"], "hidden"),
        node("Relu", ["hidden"], "hidden_up"),
        node("MatMul", ["hidden_up", "second"], "scores"),
        node("ArgMax", ["scores"], "label", axis=1, keepdims=0),
    ]
    inputs = [("numbers", FLOAT, ["rows", 6]), ("kind", INT64, ["rows", 1])]
    outputs = [("scores", FLOAT, ["rows", 2]), ("label", INT64, ["rows"])]
    return onnx_made(graph(nodes, inputs, outputs, weights))


def two_input_rows(count=128) -> Sample:
    random = np.random.default_rng(4)
    return Sample(inputs=(random.standard_normal((count, 6)).astype(np.float32), random.integers(0, 7, (count, 1))))


@functools.cache
def slow(turns: int = 400) -> Made:
    """A quarter of a second or so for a row on one thread, of which nothing comes: the answers are those of one layer."""
    random = np.random.default_rng(8)
    weights = {
        "spread": random.standard_normal((4, 64 * 512)).astype(np.float32),
        "shape": np.array([-1, 64, 512]),
        "turn": np.linalg.qr(random.standard_normal((512, 512)))[0].astype(np.float32),
        "axis": np.array([1]),
        "little": np.full((512, 2), 1e-6, np.float32),
        "last": np.array([[-2, 2], [1, -1], [0.5, -0.5], [0, 0]], np.float32),
    }
    nodes = [
        node("MatMul", ["features", "spread"], "spread_out"),
        node("Reshape", ["spread_out", "shape"], "turned_0"),
        *(node("MatMul", [f"turned_{at}", "turn"], f"turned_{at + 1}") for at in range(turns)),
        node("ReduceMean", [f"turned_{turns}", "axis"], "mean", keepdims=0),
        node("MatMul", ["mean", "little"], "slowly"),
        node("MatMul", ["features", "last"], "soon"),
        node("Add", ["soon", "slowly"], "scores"),
    ]
    return onnx_made(graph(nodes, [("features", FLOAT, ["rows", 4])], [("scores", FLOAT, ["rows", 2])], weights))


def slow_rows(count=64) -> Sample:
    rows = np.random.default_rng(9).standard_normal((count, 4)).astype(np.float32)
    return Sample(inputs=(rows,), truth=(rows @ np.array([2, -1, -0.5, 0]) > 0).astype(np.int64))


@functools.cache
def table() -> tuple[np.ndarray, np.ndarray]:
    """Numbers with holes, a category as a number, and the same as columns of zeros and ones; and a class."""
    random = np.random.default_rng(5)
    kinds = random.integers(0, 9, 1500)
    numbers = random.standard_normal((1500, 4))
    truth = (numbers[:, 0] + numbers[:, 1] * numbers[:, 2] + (kinds % 3 == 1) > 0.3).astype(int)
    numbers = np.where(random.random(numbers.shape) < 0.05, np.nan, numbers)
    rows = np.column_stack([numbers, kinds, *(kinds == kind for kind in range(9))])
    return rows.astype(np.float32).astype(np.float64), truth


@functools.cache
def booster(objective="binary", leaves=15, rounds=60, categories=(), hidden=()) -> Made:
    rows, truth = table()
    rows = rows.copy()
    rows[:, list(hidden)] = 0.0
    classes = {"num_class": 3} if objective.startswith("multiclass") else {}
    aims = truth + (rows[:, 4] > 5) if classes or objective == "poisson" else truth
    settings = {"objective": objective, "verbose": -1, "num_leaves": leaves, "num_threads": 1, "seed": 0, **classes}
    data = lightgbm.Dataset(rows[:1000], aims[:1000], categorical_feature=list(categories), params={"verbose": -1})
    made = lightgbm.train({**settings, "min_data_in_leaf": 5, "min_data_per_group": 5}, data, rounds)
    return Made(runtime="lightgbm", file="model.txt", files={"model.txt": made.model_to_string().encode()})


def tree_material(dtype=np.float64) -> Material:
    rows, truth = table()
    training = Sample(inputs=(rows[:1000].astype(dtype),), truth=truth[:1000])
    return Material(
        calibration=training,
        training=training,
        selection=Sample(inputs=(rows[1000:].astype(dtype),), truth=truth[1000:]),
        drop=lambda made: 0.0,
    )
