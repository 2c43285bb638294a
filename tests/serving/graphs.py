"""Small ONNX models whose answers tell which of them answered, and some that misbehave."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def _model(nodes: list[Any], initializers: list[Any] = [], *, width: int = 4) -> bytes:  # noqa: B006
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", width])],
        initializers,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def times(factor: float) -> bytes:
    """Multiplies every number."""
    return _model([helper.make_node("Mul", ["x", "k"], ["y"])], [numpy_helper.from_array(np.float32(factor), "k")])


def loops() -> bytes:
    """Goes round as many times as the greatest number it is given says: a large one hangs it."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["goes_on"]),
            helper.make_node("Identity", ["before"], ["after"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["turns"], to=TensorProto.INT64),
        helper.make_node("Loop", ["turns", "yes", "x"], ["looped"], body=body),
        helper.make_node("Identity", ["looped"], ["y"]),
    ]
    return _model(nodes, [numpy_helper.from_array(np.array(True), "yes")])
