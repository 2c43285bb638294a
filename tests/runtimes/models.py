"""Small models of every kind, made here, with what the library that made them says to the same rows."""

import functools

import lightgbm
import numpy as np
import onnx
import openvino
import xgboost
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13
from skl2onnx import to_onnx
from sklearn.ensemble import GradientBoostingClassifier

from falaj.runtimes.engine import ModelFiles

FEATURES = 6
_random = np.random.default_rng(0)
ROWS = _random.standard_normal((96, FEATURES)).astype(np.float32)
TRUTH = (ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] > 0).astype(int)
WEIGHTS = _random.standard_normal((3, FEATURES)).astype(np.float32)
BIAS = _random.standard_normal(3).astype(np.float32)


def files(runtime: str, main: str, **contents: bytes) -> ModelFiles:
    return ModelFiles(
        runtime=runtime, main=main, contents={name.replace("_", "."): content for name, content in contents.items()}
    )


def softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows @ WEIGHTS.T + BIAS)
    return powers / powers.sum(1, keepdims=True)


@functools.cache
def classifier() -> GradientBoostingClassifier:
    return GradientBoostingClassifier(n_estimators=10, max_depth=3, random_state=0).fit(ROWS, TRUTH)


@functools.cache
def converted(zipmap: bool) -> bytes:
    return to_onnx(
        classifier(), ROWS[:1], options={"zipmap": zipmap}, target_opset={"": 17, "ai.onnx.ml": 3}
    ).SerializeToString()


def graph(nodes, inputs, outputs, weights=()) -> onnx.ModelProto:
    """Inputs and outputs as name, type, shape."""
    made = [[helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
    whole = helper.make_graph(nodes, "g", *made, list(weights))
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def dense_onnx() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gemm", ["x", "weights", "bias"], ["hidden"], transB=1),
        helper.make_node("Softmax", ["hidden"], ["y"], axis=1),
    ]
    weights = [numpy_helper.from_array(WEIGHTS, "weights"), numpy_helper.from_array(BIAS, "bias")]
    return graph(nodes, [("x", TensorProto.FLOAT, ["N", FEATURES])], [("y", TensorProto.FLOAT, ["N", 3])], weights)


@functools.cache
def lightgbm_booster(objective: str = "binary") -> lightgbm.Booster:
    truth, classes = (TRUTH, {}) if objective == "binary" else (TRUTH + (ROWS[:, 3] > 0), {"num_class": 3})
    settings = {"objective": objective, "verbose": -1, "num_leaves": 8, "num_threads": 1, "min_data_in_leaf": 2, **classes}
    names = [f"column{number}" for number in range(FEATURES)]
    return lightgbm.train(settings, lightgbm.Dataset(ROWS.astype(np.float64), truth, feature_name=names), 12)


@functools.cache
def xgboost_booster(objective: str = "binary:logistic") -> xgboost.Booster:
    several = objective.startswith("multi")
    truth, classes = (TRUTH + (ROWS[:, 3] > 0), {"num_class": 3}) if several else (TRUTH, {})
    names = [f"column{number}" for number in range(FEATURES)]
    return xgboost.train(
        {"objective": objective, "max_depth": 3, "nthread": 1, **classes}, xgboost.DMatrix(ROWS, truth, feature_names=names), 12
    )


@functools.cache
def openvino_files(folder: str) -> ModelFiles:
    x = opset13.parameter([-1, FEATURES], openvino.Type.f32, name="x")
    hidden = opset13.add(opset13.matmul(x, opset13.constant(WEIGHTS), False, True), opset13.constant(BIAS))
    y = opset13.softmax(hidden, 1)
    x.output(0).set_names({"x"})
    y.output(0).set_names({"y"})
    path = f"{folder}/model.xml"
    openvino.save_model(openvino.Model([y], [x], "m"), path, compress_to_fp16=False)
    read = {}
    for name in ("model.xml", "model.bin"):
        with open(f"{folder}/{name}", "rb") as file:
            read[name] = file.read()
    return ModelFiles(runtime="openvino", main="model.xml", contents=read)
