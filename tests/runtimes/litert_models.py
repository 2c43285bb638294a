"""A LiteRT model written field by field: what TensorFlow's converter would give for one dense layer and a softmax."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema


def dense(weights: np.ndarray, bias: np.ndarray) -> bytes:
    """softmax(x @ weights.T + bias), any number of rows."""
    made, taken = weights.shape
    model = schema.ModelT()
    model.version = 3
    model.operatorCodes = [_operator(schema.BuiltinOperator.FULLY_CONNECTED), _operator(schema.BuiltinOperator.SOFTMAX)]
    model.buffers = [_buffer(b""), _buffer(weights.tobytes()), _buffer(bias.tobytes())]
    graph = schema.SubGraphT()
    graph.tensors = [
        _tensor("x", [1, taken], 0, [-1, taken]),
        _tensor("weights", [made, taken], 1),
        _tensor("bias", [made], 2),
        _tensor("hidden", [1, made], 0, [-1, made]),
        _tensor("y", [1, made], 0, [-1, made]),
    ]
    graph.inputs, graph.outputs = [0], [4]
    softmax = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    graph.operators = [
        _step(0, [0, 1, 2], [3], schema.BuiltinOptions.FullyConnectedOptions, schema.FullyConnectedOptionsT()),
        _step(1, [3], [4], schema.BuiltinOptions.SoftmaxOptions, softmax),
    ]
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _operator(code: int) -> schema.OperatorCodeT:
    made = schema.OperatorCodeT()
    made.builtinCode = made.deprecatedBuiltinCode = code
    made.version = 1
    return made


def _buffer(content: bytes) -> schema.BufferT:
    made = schema.BufferT()
    made.data = np.frombuffer(content, np.uint8) if content else None
    return made


def _tensor(name: str, shape: list[int], buffer: int, signature: list[int] | None = None) -> schema.TensorT:
    made = schema.TensorT()
    made.name, made.shape, made.buffer, made.type = name, shape, buffer, schema.TensorType.FLOAT32
    made.shapeSignature = signature
    return made


def _step(code: int, inputs: list[int], outputs: list[int], kind: int, options: object) -> schema.OperatorT:
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = code, inputs, outputs
    made.builtinOptionsType, made.builtinOptions = kind, options
    return made
