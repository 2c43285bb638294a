"""ONNX's operators as functions of torch, as far as networks are made of them. Each takes its node and what comes in: tensors,
and arrays of plain numbers where `NUMBERS` says so, which `shapes` computes."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from falaj.base.errors import Invalid
from falaj.base.values import value

Run = Callable[["Node", Sequence[Any]], Any]
_TYPES: Final = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64, 9: torch.bool,
    10: torch.float16, 11: torch.float64, 16: torch.bfloat16,
}  # fmt: skip


@value
class Node:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.attributes.get(name, otherwise)


def _given(arguments: Sequence[Any], place: int) -> Any:
    return arguments[place] if len(arguments) > place else None


def _numbers(node: Node, given: Sequence[Any], name: str, place: int) -> list[Any] | None:
    """Axes and sizes: older graphs have them as attributes, newer ones as inputs. While a program is traced they may be
    symbols, which stay what they are."""
    found = node.get(name)
    if found is None:
        found = _given(given, place)
    return None if found is None else [one if isinstance(one, torch.SymInt) else int(one) for one in np.ravel(found)]


def _padded(node: Node, x: Any, spatial: int, fill: float = 0.0) -> tuple[Any, Any]:
    """The tensor and the padding that torch may do itself: begin and end may differ, which torch does not take."""
    pads = list(node.get("pads") or [0] * 2 * spatial)
    if node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        kernel, strides = node.get("kernel_shape"), node.get("strides") or [1] * spatial
        sizes = [max((math.ceil(n / s) - 1) * s + k - n, 0) for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
        lower = node.get("auto_pad") == "SAME_LOWER"
        begin = [-(-size // 2) if lower else size // 2 for size in sizes]
        pads = [*begin, *(size - first for size, first in zip(sizes, begin, strict=True))]
    if pads[:spatial] == pads[spatial:]:
        return x, pads[:spatial]
    order = [pads[side * spatial + axis] for axis in reversed(range(spatial)) for side in (0, 1)]
    return functional.pad(x, order, value=fill), [0] * spatial


def _conv(node: Node, given: Sequence[Any]) -> Any:
    x, weight, bias = given[0], given[1], _given(given, 2)
    spatial = weight.dim() - 2
    if "kernel_shape" not in node.attributes:
        node = Node(
            inputs=node.inputs,
            outputs=node.outputs,
            attributes={**node.attributes, "kernel_shape": list(weight.shape[2:])},
            opset=node.opset,
        )
    x, pads = _padded(node, x, spatial)
    run = (functional.conv1d, functional.conv2d, functional.conv3d)[spatial - 1]
    strides, dilations = node.get("strides") or [1] * spatial, node.get("dilations") or [1] * spatial
    return run(x, weight, bias, strides, pads, dilations, node.get("group", 1))


def _gemm(node: Node, given: Sequence[Any]) -> Any:
    a = given[0].transpose(0, 1) if node.get("transA", 0) else given[0]
    b = given[1].transpose(0, 1) if node.get("transB", 0) else given[1]
    made = node.get("alpha", 1.0) * (a @ b)
    bias = _given(given, 2)
    return made if bias is None else made + node.get("beta", 1.0) * bias


def _batch_norm(node: Node, given: Sequence[Any]) -> Any:
    """As it answers, not as it was trained: means and variances are those of the graph."""
    x, scale, bias, mean, variance = given[:5]
    shape = [1, -1, *([1] * (x.dim() - 2))]
    factor = scale * torch.rsqrt(variance + node.get("epsilon", 1e-5))
    return x * factor.view(shape) + (bias - mean * factor).view(shape)


def _layer_norm(node: Node, given: Sequence[Any]) -> Any:
    axis = node.get("axis", -1) % given[0].dim()
    return functional.layer_norm(given[0], given[0].shape[axis:], given[1], _given(given, 2), float(node.get("epsilon", 1e-5)))


def _group_norm(node: Node, given: Sequence[Any]) -> Any:
    return functional.group_norm(given[0], node.get("num_groups"), given[1], given[2], float(node.get("epsilon", 1e-5)))


def _instance_norm(node: Node, given: Sequence[Any]) -> Any:
    return functional.instance_norm(given[0], weight=given[1], bias=given[2], eps=float(node.get("epsilon", 1e-5)))


def _clip(node: Node, given: Sequence[Any]) -> Any:
    bounds = [node.get(name) if _given(given, at) is None else given[at].item() for at, name in ((1, "min"), (2, "max"))]
    return given[0].clamp(*bounds)


def _softmax(run: Callable[..., Any]) -> Run:
    def softmax(node: Node, given: Sequence[Any]) -> Any:
        x = given[0]
        if node.opset >= 13:
            return run(x, dim=node.get("axis", -1))
        axis = node.get("axis", 1) % x.dim()
        return run(x.flatten(axis), dim=-1).view(x.shape) if axis else run(x.flatten(), dim=0).view(x.shape)

    return softmax


def _max_pool(node: Node, given: Sequence[Any]) -> Any:
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Invalid("pooling that gives the places of its maxima cannot be trained here")
    kernel = node.get("kernel_shape")
    spatial, one = len(kernel), [1] * len(kernel)
    x, pads = _padded(node, given[0], spatial, fill=-math.inf)
    run = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[spatial - 1]
    return run(x, kernel, node.get("strides") or one, pads, node.get("dilations") or one, bool(node.get("ceil_mode", 0)))


def _average_pool(node: Node, given: Sequence[Any]) -> Any:
    kernel = node.get("kernel_shape")
    spatial, one = len(kernel), [1] * len(kernel)
    counted = bool(node.get("count_include_pad", 0))
    run = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[spatial - 1]
    rest = (kernel, node.get("strides") or one)
    rounded_up = bool(node.get("ceil_mode", 0))
    x, pads = _padded(node, given[0], spatial)
    if x is given[0]:
        return run(x, *rest, pads, rounded_up, counted)
    made = run(x, *rest, 0, rounded_up)
    return made if counted else made / run(_padded(node, torch.ones_like(given[0]), spatial)[0], *rest, 0, rounded_up)


def _global(run: Callable[..., Any]) -> Run:
    return lambda _, given: run(given[0], tuple(range(2, given[0].dim())))


def _reshape(node: Node, given: Sequence[Any]) -> Any:
    shape = _numbers(node, given, "-", 1) or []
    if not node.get("allowzero", 0):
        shape = [given[0].shape[place] if isinstance(one, int) and one == 0 else one for place, one in enumerate(shape)]
    return given[0].reshape(shape)


def _flatten(node: Node, given: Sequence[Any]) -> Any:
    axis = node.get("axis", 1)
    return given[0].reshape(math.prod(given[0].shape[:axis]), -1)


def _transpose(node: Node, given: Sequence[Any]) -> Any:
    return given[0].permute(node.get("perm") or list(reversed(range(given[0].dim()))))


def _squeeze(node: Node, given: Sequence[Any]) -> Any:
    axes = _numbers(node, given, "axes", 1)
    return given[0].squeeze() if axes is None else given[0].squeeze(tuple(axes))


def _unsqueeze(node: Node, given: Sequence[Any]) -> Any:
    x, axes = given[0], _numbers(node, given, "axes", 1) or []
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _split(node: Node, given: Sequence[Any]) -> Any:
    axis, sizes = node.get("axis", 0), _numbers(node, given, "split", 1)
    if sizes is None:
        return tuple(given[0].split(-(-given[0].shape[axis] // len(node.outputs)), axis))
    return tuple(given[0].split(sizes, axis))


def _slice(node: Node, given: Sequence[Any]) -> Any:
    x = given[0]
    starts, ends = _numbers(node, given, "starts", 1) or [], _numbers(node, given, "ends", 2) or []
    axes = _numbers(node, given, "axes", 3) or list(range(len(starts)))
    steps = _numbers(node, given, "steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(start, end, step),)]
        else:
            chosen = list(range(x.shape[axis])[slice(start, end, step)])
            x = x.index_select(axis, torch.tensor(chosen, dtype=torch.int64, device=x.device))
    return x


def _gather(node: Node, given: Sequence[Any]) -> Any:
    x, places, axis = given[0], given[1], node.get("axis", 0)
    axis %= x.dim()
    if axis == 0 and x.is_floating_point() and x.dim() == 2:
        return functional.embedding(torch.where(places < 0, places + x.shape[0], places).long(), x)
    taken = x.index_select(axis, torch.where(places < 0, places + x.shape[axis], places).long().reshape(-1))
    return taken.view(*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])


def _reduce(run: Callable[..., Any]) -> Run:
    def reduce(node: Node, given: Sequence[Any]) -> Any:
        axes = _numbers(node, given, "axes", 1)
        if axes is None or not axes:
            if node.get("noop_with_empty_axes", 0):
                return given[0]
            axes = list(range(given[0].dim()))
        return run(given[0], tuple(axes), bool(node.get("keepdims", 1)))

    return reduce


def _gelu(node: Node, given: Sequence[Any]) -> Any:
    return functional.gelu(given[0], approximate=node.get("approximate", "none"))


def _constant_of_shape(node: Node, given: Sequence[Any]) -> Any:
    fill = node.get("value", torch.zeros(1))
    return torch.full(_numbers(node, given, "-", 0) or [], fill.item(), dtype=fill.dtype)


def _pad(node: Node, given: Sequence[Any]) -> Any:
    pads = _numbers(node, given, "pads", 1) or []
    axes = _numbers(node, given, "-", 3) or list(range(len(pads) // 2))
    whole = [(0, 0)] * given[0].dim()
    for place, axis in enumerate(axes):
        whole[axis] = (pads[place], pads[place + len(axes)])
    fill = _given(given, 2)
    order = [amount for pair in reversed(whole) for amount in pair]
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}[node.get("mode", "constant")]
    return functional.pad(given[0], order, mode, float(fill) if fill is not None and mode == "constant" else None)


def _expand(node: Node, given: Sequence[Any]) -> Any:
    """Either side may have the longer axis."""
    x, shape = given[0], _numbers(node, given, "-", 1) or []
    x = x.reshape((1,) * (len(shape) - x.dim()) + tuple(x.shape)) if len(shape) > x.dim() else x
    shape = [1] * (x.dim() - len(shape)) + shape
    return x.expand([own if isinstance(one, int) and one == 1 else one for own, one in zip(x.shape, shape, strict=True)])


def _range(_: Node, given: Sequence[Any]) -> Any:
    start, end, step = (one.reshape(()).tolist() for one in given)
    return torch.arange(start, end, step)


def _arg(run: Callable[..., Any]) -> Run:
    return lambda node, given: run(given[0], node.get("axis", 0), bool(node.get("keepdims", 1)))


def _einsum(node: Node, given: Sequence[Any]) -> Any:
    return torch.einsum(node.get("equation"), *given)


def _rms_norm(node: Node, given: Sequence[Any]) -> Any:
    axis = node.get("axis", -1) % given[0].dim()
    return functional.rms_norm(given[0], given[0].shape[axis:], given[1], float(node.get("epsilon", 1e-5)))


def _scaler(node: Node, given: Sequence[Any]) -> Any:
    """Of scikit-learn's pipelines, as their converter writes it."""
    offset, scale = (torch.tensor(node.get(name), dtype=torch.float32, device=given[0].device) for name in ("offset", "scale"))
    return (given[0].float() - offset) * scale


def _plain(run: Callable[..., Any]) -> Run:
    """Of what comes in alone, in order."""
    return lambda _, given: run(*given)


def _several(run: Callable[..., Any]) -> Run:
    def all_of(_: Node, given: Sequence[Any]) -> Any:
        made = given[0]
        for one in given[1:]:
            made = run(made, one)
        return made

    return all_of


def _divide(a: Any, b: Any) -> Any:
    return a / b if a.is_floating_point() or b.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


_STANDARD: Final[dict[str, Run]] = {
    "Abs": _plain(torch.abs),
    "Add": _plain(torch.add),
    "And": _plain(torch.logical_and),
    "ArgMax": _arg(torch.argmax),
    "ArgMin": _arg(torch.argmin),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": lambda node, given: given[0].to(_TYPES[node.get("to")]),
    "CastLike": lambda _, given: given[0].to(given[1].dtype),
    "Ceil": _plain(torch.ceil),
    "Celu": lambda node, given: functional.celu(given[0], node.get("alpha", 1.0)),
    "Clip": _clip,
    "Concat": lambda node, given: torch.cat(list(given), node.get("axis")),
    "ConstantOfShape": _constant_of_shape,
    "Conv": _conv,
    "Cos": _plain(torch.cos),
    "Div": _plain(_divide),
    "Dropout": lambda _, given: given[0],
    "Einsum": _einsum,
    "Elu": lambda node, given: functional.elu(given[0], node.get("alpha", 1.0)),
    "Equal": _plain(torch.eq),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Expand": _expand,
    "Flatten": _flatten,
    "Floor": _plain(torch.floor),
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _global(lambda x, axes: x.mean(axes, keepdim=True)),
    "GlobalMaxPool": _global(lambda x, axes: x.amax(axes, keepdim=True)),
    "Greater": _plain(torch.gt),
    "GreaterOrEqual": _plain(torch.ge),
    "GroupNormalization": _group_norm,
    "HardSigmoid": lambda node, given: (given[0] * node.get("alpha", 0.2) + node.get("beta", 0.5)).clamp(0, 1),
    "HardSwish": _plain(functional.hardswish),
    "Identity": lambda _, given: given[0],
    "InstanceNormalization": _instance_norm,
    "IsInf": _plain(torch.isinf),
    "IsNaN": _plain(torch.isnan),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda node, given: functional.leaky_relu(given[0], node.get("alpha", 0.01)),
    "Less": _plain(torch.lt),
    "LessOrEqual": _plain(torch.le),
    "Log": _plain(torch.log),
    "LogSoftmax": _softmax(torch.log_softmax),
    "MatMul": _plain(torch.matmul),
    "Max": _several(torch.maximum),
    "MaxPool": _max_pool,
    "Min": _several(torch.minimum),
    "Mish": _plain(functional.mish),
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "Not": _plain(torch.logical_not),
    "Or": _plain(torch.logical_or),
    "PRelu": _plain(lambda x, slope: torch.where(x >= 0, x, x * slope)),
    "Pad": _pad,
    "Pow": _plain(torch.pow),
    "RMSNormalization": _rms_norm,
    "Range": _range,
    "Reciprocal": _plain(torch.reciprocal),
    "ReduceL2": _reduce(lambda x, axes, kept: x.square().sum(axes, kept).sqrt()),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceSum": _reduce(torch.sum),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Round": _plain(torch.round),
    "Selu": _plain(functional.selu),
    "Sigmoid": _plain(torch.sigmoid),
    "Sign": _plain(torch.sign),
    "Softsign": _plain(functional.softsign),
    "Sin": _plain(torch.sin),
    "Slice": _slice,
    "Softmax": _softmax(torch.softmax),
    "Softplus": _plain(functional.softplus),
    "Split": _split,
    "Sqrt": _plain(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(torch.sub),
    "Sum": _several(torch.add),
    "Swish": lambda node, given: given[0] * torch.sigmoid(node.get("alpha", 1.0) * given[0]),
    "Tanh": _plain(torch.tanh),
    "Tile": lambda node, given: given[0].repeat(_numbers(node, given, "-", 1)),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _plain(torch.where),
}
OPERATORS: Final[dict[tuple[str, str], Run]] = {
    **{("", name): run for name, run in _STANDARD.items()},
    ("ai.onnx.ml", "ArrayFeatureExtractor"): lambda _, given: given[0][..., given[1].reshape(-1).long()],
    ("ai.onnx.ml", "Scaler"): _scaler,
}
# Where an operator is given plain numbers: the places of its inputs.
NUMBERS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("Expand", "Reshape", "Split", "Squeeze", "Tile", "Unsqueeze"), (1,)),
    **dict.fromkeys((name for name in _STANDARD if name.startswith("Reduce")), (1,)),
    "Clip": (1, 2),
    "ConstantOfShape": (0,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
}
MADE_HERE: Final = frozenset(["ConstantOfShape", "Range"])  # of numbers alone: somebody has to bring them to the device
