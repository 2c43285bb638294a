"""Operators that move, cut, join and add up along axes, as LiteRT has them."""

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from falaj.optimisation.making.litert_graphs import FROM_LAST, TO_LAST, Conversion, Tensor, setting
from falaj.optimisation.making.litert_layers import padded
from falaj.optimisation.making.litert_writing import type_of
from falaj.optimisation.making.values import Array

_REDUCTIONS: Final = {
    "ReduceMean": "MEAN",
    "ReduceSum": "SUM",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
}
_SOFTMAX: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "Softmax": ("SOFTMAX", "SoftmaxOptions", {"beta": 1.0}),
    "LogSoftmax": ("LOG_SOFTMAX", "LogSoftmaxOptions", {}),
}
_SINCE_WHICH_SOFTMAX_HAS_ONE_AXIS: Final = 13


def reshape(into: Conversion, node: Any) -> None:
    """Also what takes away and adds axes of length one."""
    found, shape = into.tensor(node.input[0]), into.shape(node.output[0])
    # A picture of one place or one channel has its numbers in the same order either way.
    if found.last and found.shape[1] != 1 and found.shape[2:] != (1, 1):
        found = into.plain(node.input[0])
    into.give(node.output[0], into.reshaped(found, shape))


def transpose(into: Conversion, node: Any) -> None:
    found, shape = into.tensor(node.input[0]), into.shape(node.output[0])
    order = tuple(setting(node, "perm", tuple(reversed(range(len(shape))))))
    if (order == TO_LAST and found.last) or (order == FROM_LAST and not found.last):  # it lies there in that order already
        into.give(node.output[0], Tensor(place=found.place, shape=shape, dtype=found.dtype, last=not found.last))
        return
    into.give(node.output[0], into.moved(into.plain(node.input[0]), order, shape))


def concat(into: Conversion, node: Any) -> None:
    axis = setting(node, "axis", 0) % len(into.shape(node.output[0]))
    given, last = into.side_by_side(node)
    shape, dtype = into.shape(node.output[0]), into.dtype(node.output[0])
    if into.is_free(shape[axis]):
        raise into.refused(node, "it joins rows with each other")
    made = into.step("CONCATENATION", given, shape, dtype, "ConcatenationOptions", last=last, axis=_axis_in_file(axis, last))
    into.give(node.output[0], made)


def slice_(into: Conversion, node: Any) -> None:
    found, shape = into.tensor(node.input[0]), into.shape(node.output[0])
    starts, ends = into.numbers(node, "starts", 1), into.numbers(node, "ends", 2)
    if starts is None or ends is None:
        raise into.refused(node, "it does not say where it cuts")
    axes = into.numbers(node, "axes", 3) or list(range(len(starts)))
    steps = into.numbers(node, "steps", 4) or [1] * len(starts)
    cuts = {axis % len(shape): slice(*one) for axis, *one in zip(axes, starts, ends, steps, strict=True)}
    into.give(node.output[0], _cut(into, node, found, cuts, shape))


def split(into: Conversion, node: Any) -> None:
    found = into.tensor(node.input[0])
    axis, start = setting(node, "axis", 0) % len(found.shape), 0
    for name in node.output:
        shape = into.shape(name)
        into.give(name, _cut(into, node, found, {axis: slice(start, start + shape[axis], 1)}, shape))
        start += shape[axis]


def gather(into: Conversion, node: Any) -> None:
    shape, places = into.shape(node.output[0]), into.constant(node, 1)
    given = into.shape(node.input[0])
    axis = setting(node, "axis", 0) % len(given)
    if places is not None and places.ndim == 0:
        start = int(places) % given[axis]
        kept = (*given[:axis], 1, *given[axis + 1 :])
        cut = _cut(into, node, into.plain(node.input[0]), {axis: slice(start, start + 1, 1)}, kept)
        into.give(node.output[0], into.reshaped(cut, shape))
        return
    if into.is_free(given[axis]):
        raise into.refused(node, "it picks among rows")
    table = into.constant(node, 0)
    if table is not None and table.ndim == 2 and axis == 0 and places is None and _looked_up(into, node, table):
        return
    found = into.plain(node.input[0])
    wanted = (
        into.plain(node.input[1]) if places is None else np.where(places < 0, places + given[axis], places).astype(np.int32)
    )
    into.give(node.output[0], into.step("GATHER", [found, wanted], shape, found.dtype, "GatherOptions", axis=axis))


def _looked_up(into: Conversion, node: Any, table: Array) -> bool:
    """Rows of a table in eight bits, each with a scale of its own; gives whether the table is one that is rounded."""
    place, rounded = into.writer.weights(table)
    if rounded:
        wanted, whole = into.plain(node.input[1]), np.dtype(np.int32)
        if wanted.dtype != whole:
            kinds: dict[str, Any] = {"inDataType": type_of(wanted.dtype), "outDataType": type_of(whole)}
            wanted = into.step("CAST", [wanted], wanted.shape, whole, "CastOptions", **kinds)
        flat = into.reshaped(wanted, (prod(wanted.shape),))
        found = into.step("EMBEDDING_LOOKUP", [flat, place], (*flat.shape, table.shape[1]), table.dtype)
        into.give(node.output[0], into.reshaped(found, into.shape(node.output[0])))
    return rounded


def pad(into: Conversion, node: Any) -> None:
    lengths, axes = into.numbers(node, "pads", 1), into.numbers(node, "axes", 3)
    if setting(node, "mode", "constant") != "constant" or lengths is None or min(lengths) < 0 or axes:
        raise into.refused(node, "only padding of all axes by one number is taken")
    filling = into.constant(node, 2) if len(node.input) > 2 and node.input[2] else np.float32(setting(node, "value", 0.0))
    if filling is None:
        raise into.refused(node, "what it pads with is found only while it runs")
    found, shape = into.tensor(node.input[0]), into.shape(node.output[0])
    around = [(lengths[axis], lengths[axis + len(shape)]) for axis in range(len(shape))]
    ordered = [around[axis] for axis in TO_LAST] if found.last else around
    into.give(node.output[0], padded(into, found, ordered, shape, float(filling.item()), last=found.last))


def reduce(into: Conversion, node: Any) -> None:
    found, shape = into.tensor(node.input[0]), into.shape(node.output[0])
    axes = into.numbers(node, "axes", 1)
    if not axes and setting(node, "noop_with_empty_axes", 0):
        into.give(node.output[0], found)
        return
    ranks = len(found.shape)
    over, keeps = {axis % ranks for axis in axes or range(ranks)}, bool(setting(node, "keepdims", 1))
    if any(into.is_free(found.shape[axis]) for axis in over):
        raise into.refused(node, "it adds up rows")
    # Without its axes, a picture is in ONNX's order again where the channels or both sides of it are gone.
    if found.last and not keeps and not (1 in over or {2, 3} <= over):
        found = into.plain(node.input[0])
    places = np.array(sorted(_axis_in_file(axis, found.last) for axis in over), np.int32)
    last = found.last and keeps
    kind = _REDUCTIONS[node.op_type]
    into.give(node.output[0], into.step(kind, [found, places], shape, found.dtype, "ReducerOptions", last=last, keepDims=keeps))


def argmax(into: Conversion, node: Any) -> None:
    found, shape = into.plain(node.input[0]), into.shape(node.output[0])
    axis = setting(node, "axis", 0) % len(found.shape)
    if setting(node, "select_last_index", 0) or into.is_free(found.shape[axis]):
        raise into.refused(node, "it looks for the last of equals, or among rows")
    short = (*found.shape[:axis], *found.shape[axis + 1 :])
    dtype, kind = np.dtype(np.int64), "ARG_MAX" if node.op_type == "ArgMax" else "ARG_MIN"
    options = "ArgMaxOptions" if node.op_type == "ArgMax" else "ArgMinOptions"
    made = into.step(kind, [found, np.array(axis, np.int32)], short, dtype, options, outputType=type_of(dtype))
    into.give(node.output[0], into.reshaped(made, shape) if shape != short else made)


def softmax(into: Conversion, node: Any) -> None:
    found = into.tensor(node.input[0])
    one_axis = into.opset >= _SINCE_WHICH_SOFTMAX_HAS_ONE_AXIS
    axis, end = setting(node, "axis", -1 if one_axis else 1) % len(found.shape), len(found.shape) - 1
    if not one_axis and axis != end:
        raise into.refused(node, "it goes over several axes together")
    kind, options, fields = _SOFTMAX[node.op_type]
    if found.last and axis == 1:
        into.give(node.output[0], into.step(kind, [found], found.shape, found.dtype, options, last=True, **fields))
        return
    found = into.plain(node.input[0])
    order = [*(one for one in range(end + 1) if one != axis), axis]
    turned = into.moved(found, order, [found.shape[one] for one in order]) if axis != end else found
    made = into.step(kind, [turned], turned.shape, turned.dtype, options, **fields)
    back = [int(one) for one in np.argsort(order)]
    into.give(node.output[0], into.moved(made, back, found.shape) if axis != end else made)


def _cut(into: Conversion, node: Any, found: Tensor, cuts: dict[int, slice], shape: Sequence[int]) -> Tensor:
    """By axes of ONNX's order. Axes of rows are never cut: -1 stands for all there is."""
    begins, sizes, steps = [], [], []
    for axis, length in enumerate(found.shape):
        begin, end, step = cuts.get(axis, slice(None)).indices(length)
        whole = (begin, end, step) == (0, length, 1)
        if step < 1 or (into.is_free(length) and not whole):
            raise into.refused(node, "it cuts among rows, or counts backwards")
        begins.append(begin)
        sizes.append(-1 if whole else shape[axis])
        steps.append(step)
    order = TO_LAST if found.last else range(len(found.shape))
    first, count, stride = (np.array([one[axis] for axis in order], np.int32) for one in (begins, sizes, steps))
    if (count == -1).all():
        return found
    if (stride == 1).all():
        return into.step("SLICE", [found, first, count], shape, found.dtype, "SliceOptions", last=found.last)
    # The end of an axis that is taken as a whole is left to LiteRT, by the bit of its number.
    mask = sum(1 << number for number, one in enumerate(count) if one == -1)
    behind = np.where(count == -1, 0, first + (count - 1) * stride + 1).astype(np.int32)
    given: list[Tensor | Array] = [found, first, behind, stride]
    return into.step("STRIDED_SLICE", given, shape, found.dtype, "StridedSliceOptions", last=found.last, endMask=mask)


def _axis_in_file(axis: int, last: bool) -> int:
    return TO_LAST.index(axis) if last else axis
