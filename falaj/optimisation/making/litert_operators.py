"""What becomes of each ONNX operator in LiteRT, in one table; here are those that work number by number.

`litert_layers` has those with weights, `litert_axes` those that move and join.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from falaj.optimisation.making import litert_axes, litert_layers
from falaj.optimisation.making.litert_graphs import BETWEEN, NO_ACTIVATION, RELU, RELU6, Conversion, Tensor, setting
from falaj.optimisation.making.litert_writing import type_of
from falaj.optimisation.making.values import Array

Operator: TypeAlias = Callable[[Conversion, Any], None]

_ONE_BY_ONE: Final = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "HardSwish": "HARD_SWISH",
    "Log": "LOG",
    "Neg": "NEG",
    "Not": "LOGICAL_NOT",
    "Round": "ROUND",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}
_PAIRS: Final = {
    "And": "LOGICAL_AND",
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
    "Max": "MAXIMUM",
    "Min": "MINIMUM",
    "Or": "LOGICAL_OR",
    "PRelu": "PRELU",
}
# Those that can bend what they make.
_ARITHMETIC: Final = {"Add": "ADD", "Div": "DIV", "Mul": "MUL", "Sub": "SUB"}
_OPTIONS: Final = {"ADD": "AddOptions", "DIV": "DivOptions", "MUL": "MulOptions", "SUB": "SubOptions"}


def _one_by_one(into: Conversion, node: Any) -> None:
    _keep(into, node, _bent(into, into.tensor(node.input[0]), _ONE_BY_ONE[node.op_type]))


def _pair(into: Conversion, node: Any) -> None:
    if len(node.input) != 2:
        raise into.refused(node, f"it takes {len(node.input)} values, where two are taken")
    given, last = into.side_by_side(node)
    shape, dtype = into.shape(node.output[0]), into.dtype(node.output[0])
    _keep(into, node, into.step(_PAIRS[node.op_type], given, shape, dtype, last=last))


def _arithmetic(into: Conversion, node: Any) -> None:
    given, last = into.side_by_side(node)
    kind, shape, dtype = _ARITHMETIC[node.op_type], into.shape(node.output[0]), into.dtype(node.output[0])
    floats = dtype == np.float32
    name, activation = into.activation_after(node.output[0]) if floats else (node.output[0], NO_ACTIVATION)
    made = into.step(kind, given, shape, dtype, _OPTIONS[kind], last=last, fusedActivationFunction=activation)
    into.give(name, made)


def _same(into: Conversion, node: Any) -> None:
    _keep(into, node, into.tensor(node.input[0]))


def _relu(into: Conversion, node: Any) -> None:
    _keep(into, node, _bent(into, into.tensor(node.input[0]), "RELU"))


def _clip(into: Conversion, node: Any) -> None:
    found, (low, high) = into.tensor(node.input[0]), into.bounds(node)
    word = {RELU: "RELU", RELU6: "RELU6"}.get(BETWEEN.get((low, high), NO_ACTIVATION))
    if word and found.dtype == np.float32:
        _keep(into, node, _bent(into, found, word))
        return
    for kind, bound in (("MAXIMUM", low), ("MINIMUM", high)):
        if np.isfinite(bound):
            found = _with(into, kind, found, bound)
    _keep(into, node, found)


def _leaky_relu(into: Conversion, node: Any) -> None:
    alpha = setting(node, "alpha", 0.01)
    _keep(into, node, _bent(into, into.tensor(node.input[0]), "LEAKY_RELU", "LeakyReluOptions", alpha=alpha))


def _elu(into: Conversion, node: Any) -> None:
    if setting(node, "alpha", 1.0) != 1.0:
        raise into.refused(node, "its alpha is not 1")
    _keep(into, node, _bent(into, into.tensor(node.input[0]), "ELU"))


def _hard_sigmoid(into: Conversion, node: Any) -> None:
    """Between 0 and 6, which LiteRT can cut at, and then a sixth of it."""
    alpha, beta, found = setting(node, "alpha", 0.2), setting(node, "beta", 0.5), into.tensor(node.input[0])
    steep = found if abs(6 * alpha - 1) < 1e-6 else _with(into, "MUL", found, 6 * alpha)
    cut = _with(into, "ADD", steep, 6 * beta, fusedActivationFunction=RELU6)
    _keep(into, node, _with(into, "MUL", cut, 1 / 6))


def _gelu(into: Conversion, node: Any) -> None:
    found = into.tensor(node.input[0])
    if len(node.input) > 1 and node.input[1]:
        bias = into.constant(node, 1)
        if bias is None:
            raise into.refused(node, "its bias is found only while it runs")
        found = into.step("ADD", [into.plain(node.input[0]), bias], found.shape, found.dtype, "AddOptions")
    roughly = node.op_type == "FastGelu" or setting(node, "approximate", "none") == "tanh"
    _keep(into, node, _bent(into, found, "GELU", "GeluOptions", approximate=roughly))


def _power(into: Conversion, node: Any) -> None:
    found, exponent = into.tensor(node.input[0]), into.constant(node, 1)
    known = {2.0: "SQUARE", 0.5: "SQRT", -0.5: "RSQRT"}
    if exponent is not None and exponent.size == 1 and float(exponent.item()) in known:
        _keep(into, node, _bent(into, found, known[float(exponent.item())]))
        return
    given, last = into.side_by_side(node)
    if exponent is not None:  # LiteRT wants both of one type
        given[1] = np.asarray(given[1]).astype(found.dtype)
    _keep(into, node, into.step("POW", given, into.shape(node.output[0]), found.dtype, "PowOptions", last=last))


def _reciprocal(into: Conversion, node: Any) -> None:
    found = into.tensor(node.input[0])
    one = np.array(1, found.dtype)
    _keep(into, node, into.step("DIV", [one, found], found.shape, found.dtype, "DivOptions", last=found.last))


def _cast(into: Conversion, node: Any) -> None:
    found, dtype = into.tensor(node.input[0]), into.dtype(node.output[0])
    if found.dtype != dtype:
        kinds = {"inDataType": type_of(found.dtype), "outDataType": type_of(dtype)}
        found = into.step("CAST", [found], found.shape, dtype, "CastOptions", last=found.last, **kinds)
    _keep(into, node, found)


def _where(into: Conversion, node: Any) -> None:
    given, last = into.side_by_side(node)
    shape, dtype = into.shape(node.output[0]), into.dtype(node.output[0])
    _keep(into, node, into.step("SELECT_V2", given, shape, dtype, "SelectV2Options", last=last))


def _batch_normalization(into: Conversion, node: Any) -> None:
    """One that no layer before could take in."""
    known = [into.constant(node, position) for position in (1, 2, 3, 4)]
    found, ranks = into.tensor(node.input[0]), len(into.shape(node.input[0]))
    if any(one is None for one in known) or setting(node, "training_mode", 0):
        raise into.refused(node, "it learns while it runs")
    scale, shift, mean, spread = (np.asarray(one, np.float32) for one in known)
    factor = scale / np.sqrt(spread + np.float32(setting(node, "epsilon", 1e-5)))
    # One number for each channel: as they lie where channels are last, otherwise with axes behind them.
    lengths = (-1,) if found.last or ranks == 2 else (-1, *(1,) * (ranks - 2))
    wide = _both(into, "MUL", found, factor.reshape(lengths))
    _keep(into, node, _both(into, "ADD", wide, (shift - mean * factor).reshape(lengths)))


def _layer_normalization(into: Conversion, node: Any) -> None:
    found = into.plain(node.input[0])
    first = setting(node, "axis", -1) % len(found.shape)
    axes = np.arange(first, len(found.shape), dtype=np.int32)
    scale, shift = into.constant(node, 1), into.constant(node, 2)
    if scale is None or (shift is None and len(node.input) > 2 and node.input[2]):
        raise into.refused(node, "its scale and shift are found only while it runs")
    means = (*found.shape[:first], *(1 for _ in axes))
    middle = into.step("MEAN", [found, axes], means, found.dtype, "ReducerOptions", keepDims=True)
    apart = into.step("SUB", [found, middle], found.shape, found.dtype, "SubOptions")
    squared = into.step("MUL", [apart, apart], found.shape, found.dtype, "MulOptions")
    spread = into.step("MEAN", [squared, axes], means, found.dtype, "ReducerOptions", keepDims=True)
    factor = _bent(into, _with(into, "ADD", spread, setting(node, "epsilon", 1e-5)), "RSQRT")
    even = into.step("MUL", [apart, factor], found.shape, found.dtype, "MulOptions")
    made = _both(into, "MUL", even, scale)
    _keep(into, node, made if shift is None else _both(into, "ADD", made, shift))


def _bent(into: Conversion, found: Tensor, kind: str, options: str = "", **fields: Any) -> Tensor:
    return into.step(kind, [found], found.shape, found.dtype, options, last=found.last, **fields)


def _with(into: Conversion, kind: str, found: Tensor, number: float, **fields: Any) -> Tensor:
    return _both(into, kind, found, np.array(number, found.dtype), **fields)


def _both(into: Conversion, kind: str, found: Tensor, other: Array, **fields: Any) -> Tensor:
    return into.step(kind, [found, other], found.shape, found.dtype, _OPTIONS.get(kind, ""), last=found.last, **fields)


def _keep(into: Conversion, node: Any, made: Tensor) -> None:
    into.give(node.output[0], made)


OPERATORS: Final[dict[str, Operator]] = {
    **dict.fromkeys(_ONE_BY_ONE, _one_by_one),
    **dict.fromkeys(_PAIRS, _pair),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(("Identity", "Dropout"), _same),
    **dict.fromkeys(("Gelu", "FastGelu"), _gelu),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), litert_axes.reshape),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), litert_axes.reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), litert_axes.argmax),
    **dict.fromkeys(("LogSoftmax", "Softmax"), litert_axes.softmax),
    "AveragePool": litert_layers.average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": litert_axes.concat,
    "Conv": litert_layers.conv,
    "Elu": _elu,
    "Gather": litert_axes.gather,
    "Gemm": litert_layers.gemm,
    "GlobalAveragePool": litert_layers.global_average_pool,
    "HardSigmoid": _hard_sigmoid,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": _leaky_relu,
    "MatMul": litert_layers.matmul,
    "MaxPool": litert_layers.max_pool,
    "Pad": litert_axes.pad,
    "Pow": _power,
    "Reciprocal": _reciprocal,
    "Relu": _relu,
    "Slice": litert_axes.slice_,
    "Split": litert_axes.split,
    "Transpose": litert_axes.transpose,
    "Where": _where,
}
