"""Layers with weights, and pooling, as LiteRT has them: weights in its order, padding by a word where there is one for it."""

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from falaj.base.values import value
from falaj.optimisation.making.litert_graphs import Conversion, Tensor, setting
from falaj.optimisation.making.values import Array

_SAME, _VALID = schema.Padding.SAME, schema.Padding.VALID
_PICTURE: Final = 4


@value
class _Windows:
    """How windows go over a picture, each as (downwards, to the right). `before` and `after` are what has to be added around
    it for the first and the last one, `told` what the model said to add behind."""

    size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    told: tuple[int, int]
    given: tuple[int, int]

    @property
    def pads(self) -> bool:
        return any(self.before) or any(self.after)

    @property
    def is_same(self) -> bool:
        """Whether LiteRT's word SAME means this: as much as is needed, the odd one behind."""
        return all(map(self._same_along, (0, 1)))

    def _same_along(self, axis: int) -> bool:
        reach, stride, given = (self.size[axis] - 1) * self.dilation[axis] + 1, self.stride[axis], self.given[axis]
        needed = max(0, (-(-given // stride) - 1) * stride + reach - given)
        return (self.before[axis], self.after[axis]) == (needed // 2, needed - needed // 2)


def conv(into: Conversion, node: Any) -> None:
    weights, groups = into.constant(node, 1), setting(node, "group", 1)
    if weights is None or weights.ndim != _PICTURE:
        raise into.refused(node, "only convolutions over two axes, with weights that were learnt, are taken")
    channels = into.shape(node.input[0])[1]
    deep = groups == channels and groups > 1
    if groups > 1 and not deep:
        raise into.refused(node, f"it has {groups} groups of channels, where all together or each by itself are taken")
    windows = _windows_of(into, node, (int(weights.shape[2]), int(weights.shape[3])))
    bias = into.constant(node, 2) if len(node.input) > 2 and node.input[2] else np.zeros(len(weights), np.float32)
    if bias is None:
        raise into.refused(node, "its bias is found only while it runs")
    given, padding = _padded(into, into.last(node.input[0]), windows, 0.0)
    name, activation = into.activation_after(node.output[0])
    fields: dict[str, Any] = {
        "padding": padding,
        **_strides(windows),
        "dilationHFactor": windows.dilation[0],
        "dilationWFactor": windows.dilation[1],
        "fusedActivationFunction": activation,
    }
    learnt: Array | int
    if deep:
        # In float: such layers have few weights, and LiteRT's kernel for them in eight bits is several times slower.
        learnt = np.ascontiguousarray(weights.transpose(1, 2, 3, 0))
        kind, options, fields["depthMultiplier"] = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", len(weights) // groups
    else:
        learnt, _ = into.writer.weights(np.ascontiguousarray(weights.transpose(0, 2, 3, 1)))
        kind, options = "CONV_2D", "Conv2DOptions"
    shape = into.shape(node.output[0])
    into.give(name, into.step(kind, [given, learnt, bias], shape, given.dtype, options, last=True, **fields))


def max_pool(into: Conversion, node: Any) -> None:
    if len(node.output) > 1 and node.output[1]:
        raise into.refused(node, "where the largest was is not told")
    windows = _windows_of(into, node, tuple(setting(node, "kernel_shape", ())))
    if windows.dilation != (1, 1):
        raise into.refused(node, "its windows have gaps")
    given, padding = _padded(into, into.last(node.input[0]), windows, float(np.finfo(np.float32).min))
    into.give(node.output[0], _pooled(into, node, "MAX_POOL_2D", given, windows, padding))


def average_pool(into: Conversion, node: Any) -> None:
    windows = _windows_of(into, node, tuple(setting(node, "kernel_shape", ())))
    if windows.dilation != (1, 1):
        raise into.refused(node, "its windows have gaps")
    picture, counts_pads = into.last(node.input[0]), bool(setting(node, "count_include_pad", 0))
    if windows.is_same and not counts_pads:  # LiteRT leaves out what it has added itself
        into.give(node.output[0], _pooled(into, node, "AVERAGE_POOL_2D", picture, windows, _SAME))
        return
    given, padding = _padded(into, picture, windows, 0.0, explicit=True)
    mean = _pooled(into, node, "AVERAGE_POOL_2D", given, windows, padding)
    factors = _share_within(windows, mean.shape[2:], counts_pads=counts_pads)
    if not np.all(factors == 1):
        mean = into.step("MUL", [mean, factors], mean.shape, mean.dtype, "MulOptions", last=True)
    into.give(node.output[0], mean)


def global_average_pool(into: Conversion, node: Any) -> None:
    picture, shape = into.last(node.input[0]), into.shape(node.output[0])
    axes = np.array([1, 2], np.int32)
    into.give(
        node.output[0], into.step("MEAN", [picture, axes], shape, picture.dtype, "ReducerOptions", last=True, keepDims=True)
    )


def gemm(into: Conversion, node: Any) -> None:
    alpha, beta = setting(node, "alpha", 1.0), setting(node, "beta", 1.0)
    weights, turned = into.constant(node, 1), bool(setting(node, "transB", 0))
    if weights is None or setting(node, "transA", 0):
        raise into.refused(node, "its weights are found only while it runs, or its rows lie across")
    rows = np.ascontiguousarray(weights if turned else weights.T) * np.float32(alpha)
    bias = into.constant(node, 2) if len(node.input) > 2 and node.input[2] else np.zeros(1, np.float32)
    if bias is None or bias.size not in (1, len(rows)):
        raise into.refused(node, "its bias is not one number for each column")
    bias = np.broadcast_to(bias.ravel() * np.float32(beta), (len(rows),))
    _fully_connected(into, into.plain(node.input[0]), rows, bias, node.output[0])


def matmul(into: Conversion, node: Any) -> None:
    weights = into.constant(node, 1)
    shapes = [into.shape(name) for name in node.input]
    if min(map(len, shapes)) < 2:
        raise into.refused(node, "one of its factors has one axis alone")
    if weights is not None and weights.ndim == 2:
        name, bias = _bias_after(into, node.output[0], weights.shape[1])
        _fully_connected(into, into.plain(node.input[0]), np.ascontiguousarray(weights.T), bias, name)
        return
    given = [into.plain(name) for name in node.input]
    shape = into.shape(node.output[0])
    into.give(node.output[0], into.step("BATCH_MATMUL", given, shape, given[0].dtype, "BatchMatMulOptions"))


def _bias_after(into: Conversion, name: str, width: int) -> tuple[str, Array]:
    """What is added next, one number for each column, and the name behind that."""
    following = into.follower(name, "Add")
    if following is not None:
        position = 1 if following.input[0] == name else 0
        bias = into.constant(following, position)
        if bias is not None and bias.size == width == bias.shape[-1] and bias.ndim <= len(into.shape(name)):
            into.take(following)
            return following.output[0], bias.reshape(width)
    return name, np.zeros(width, np.float32)


def _fully_connected(into: Conversion, given: Tensor, weights: Array, bias: Array, name: str) -> None:
    """Weights have a row for each column of the answer."""
    place, rounded = into.writer.weights(weights)
    name, activation = into.activation_after(name)
    made = into.step(
        "FULLY_CONNECTED",
        [given, place, np.ascontiguousarray(bias)],
        (*given.shape[:-1], len(weights)),
        given.dtype,
        "FullyConnectedOptions",
        fusedActivationFunction=activation,
        keepNumDims=len(given.shape) > 2,
        asymmetricQuantizeInputs=rounded,
    )
    into.give(name, made)


def _windows_of(into: Conversion, node: Any, size: Sequence[int]) -> _Windows:
    given, made = into.shape(node.input[0])[2:], into.shape(node.output[0])[2:]
    if len(given) != 2 or len(size) != 2:
        raise into.refused(node, f"it goes over {len(given)} axes, where two are taken")
    stride, dilation = setting(node, "strides", (1, 1)), setting(node, "dilations", (1, 1))
    pads = list(setting(node, "pads", (0, 0, 0, 0)))
    before, told = pads[:2], pads[2:]
    # So much as the last window needs: by rounding up there may be more than was told, by rounding down less.
    whole = [(made[i] - 1) * stride[i] + (size[i] - 1) * dilation[i] + 1 - given[i] for i in (0, 1)]
    automatic = setting(node, "auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        total = [max(0, one) for one in whole]
        before = [one - one // 2 if automatic == "SAME_LOWER" else one // 2 for one in total]
        told = [one - first for one, first in zip(total, before, strict=True)]
    after = [max(0, whole[i] - before[i]) for i in (0, 1)]
    return _Windows(
        size=(size[0], size[1]),
        stride=(stride[0], stride[1]),
        dilation=(dilation[0], dilation[1]),
        before=(before[0], before[1]),
        after=(after[0], after[1]),
        told=(told[0], told[1]),
        given=(given[0], given[1]),
    )


def _padded(
    into: Conversion, given: Tensor, windows: _Windows, filling: float, *, explicit: bool = False
) -> tuple[Tensor, int]:
    """The picture, with something around it where no word of LiteRT's says the same, and the word."""
    if not windows.pads:
        return given, _VALID
    if windows.is_same and not explicit:
        return given, _SAME
    around = [(0, 0), *zip(windows.before, windows.after, strict=True), (0, 0)]
    height, width = (given.shape[2 + i] + windows.before[i] + windows.after[i] for i in (0, 1))
    shape = (*given.shape[:2], height, width)
    return padded(into, given, around, shape, filling, last=True), _VALID


def padded(
    into: Conversion, given: Tensor, around: Sequence[Sequence[int]], shape: Sequence[int], filling: float, *, last: bool
) -> Tensor:
    """`around` is by the axes of the file."""
    lengths = np.array(around, np.int32)
    if filling == 0.0:
        return into.step("PAD", [given, lengths], shape, given.dtype, "PadOptions", last=last)
    return into.step("PADV2", [given, lengths, np.array([filling], given.dtype)], shape, given.dtype, "PadV2Options", last=last)


def _pooled(into: Conversion, node: Any, kind: str, given: Tensor, windows: _Windows, padding: int) -> Tensor:
    fields = {"padding": padding, **_strides(windows), "filterHeight": windows.size[0], "filterWidth": windows.size[1]}
    return into.step(kind, [given], into.shape(node.output[0]), given.dtype, "Pool2DOptions", last=True, **fields)


def _strides(windows: _Windows) -> dict[str, int]:
    return {"strideH": windows.stride[0], "strideW": windows.stride[1]}


def _share_within(windows: _Windows, made: Sequence[int], *, counts_pads: bool) -> Array:
    """By what a mean over whole windows, with zeros around the picture, has to be multiplied: one factor for each place."""
    counts = []
    for axis in (0, 1):
        start = np.arange(made[axis]) * windows.stride[axis] - windows.before[axis]
        # Where padding counts, what rounding up has added behind it still does not.
        low, high = (-windows.before[axis], windows.told[axis]) if counts_pads else (0, 0)
        high += windows.given[axis]
        counts.append(np.minimum(start + windows.size[axis], high) - np.maximum(start, low))
    share = prod(windows.size) / np.outer(*counts)
    return np.asarray(share[None, :, :, None], np.float32)
