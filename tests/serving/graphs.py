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


def layers(count: int) -> bytes:
    """Gives back what it is given, the long way: through so many times 16 MiB of weights, a few milliseconds for each."""
    wide, random = 2048, np.random.default_rng(1)
    names = [f"w{number}" for number in range(count)]
    weights = [numpy_helper.from_array(random.random((wide, wide), np.float32) / wide, name) for name in names]
    nodes = [helper.make_node("MatMul", ["x", "up"], ["h0"])]
    nodes += [helper.make_node("MatMul", [f"h{number}", name], [f"h{number + 1}"]) for number, name in enumerate(names)]
    nodes += [
        helper.make_node("MatMul", [f"h{count}", "down"], ["nothing"]),
        helper.make_node("Add", ["x", "nothing"], ["y"]),
    ]
    ends = [("up", np.ones((4, wide), np.float32)), ("down", np.zeros((wide, 4), np.float32))]
    return _model(nodes, [*weights, *(numpy_helper.from_array(array, name) for name, array in ends)])


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


def same(kind: int) -> bytes:
    """Gives back whatever it is given, of one of ONNX's own types."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "same",
        [helper.make_tensor_value_info("x", kind, ["rows", 2])],
        [helper.make_tensor_value_info("y", kind, ["rows", 2])],
    )
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())


def mixed() -> bytes:
    """Adds and subtracts, and passes a word on: three inputs of two types, three outputs."""
    tables = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 3]) for name in ("a", "b", "sum", "difference")]
    words = [helper.make_tensor_value_info(name, TensorProto.STRING, ["rows", 1]) for name in ("word", "word_out")]
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Sub", ["a", "b"], ["difference"]),
        helper.make_node("Identity", ["word"], ["word_out"]),
    ]
    graph = helper.make_graph(nodes, "mixed", [*tables[:2], words[0]], [*tables[2:], words[1]])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())
