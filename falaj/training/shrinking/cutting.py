"""Taking whole channels out of an ONNX graph: which can go without changing anything but the size, and cutting them out.

A group is what one layer makes and what must go with it: its weights' rows, what scales or shifts each channel on the way, and
the columns of the layers that take them in. Hidden units of a network, expanded channels of an inverted residual, and the wide
middle of a transformer's layer are such groups; channels that meet others (around a block, in attention) are not.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from falaj.base.values import value
from falaj.training.shrinking.graphs import library

Array = npt.NDArray[Any]
_EACH: Final = frozenset(
    [
        *("Relu", "Clip", "Sigmoid", "HardSwish", "HardSigmoid", "Tanh", "Gelu", "Erf", "LeakyRelu", "Elu", "Selu", "Swish"),
        *("Mish", "Softplus", "Identity", "Dropout", "Neg", "Abs", "Exp", "Sqrt", "Pow"),
        *("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
    ]
)
_AXES_AT_MOST: Final = 8
_PAIRED: Final = frozenset(["Add", "Sub", "Mul", "Div"])


@value
class Cut:
    """An initialiser, and the axis along which its channels lie."""

    name: str
    axis: int


@value
class End:
    """A layer that takes the channels in: the tensor that brings them, and its weights."""

    tensor: str
    weights: Cut


@value
class Group:
    """`first` are the weights that make the channels, by which they are ranked; `cuts` all that is cut with them. `deep` are
    convolutions of one channel each, whose number of groups shrinks too. `ends` are the layers at the end."""

    channels: int
    first: tuple[Cut, ...]
    cuts: tuple[Cut, ...]
    deep: tuple[str, ...] = ()
    ends: tuple[End, ...] = ()


def groups_of(content: bytes) -> tuple[Group, ...]:
    onnx = library()
    model = onnx.load_from_string(content)
    reading = _Reading(onnx, model)
    found = (reading.group(node) for node in model.graph.node)
    return tuple(group for group in found if group is not None)


def cut(content: bytes, kept: Sequence[tuple[Group, Array]], fitted: Mapping[str, Array] | None = None) -> bytes:
    """The graph with no more than these channels of each group. `fitted` are weights of layers at the end of one, by name, that
    are for the channels that are left already."""
    onnx = library()
    model = onnx.load_from_string(content)
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    new = dict(fitted or {})
    arrays |= new
    changed = set(new)
    deep: dict[str, int] = {}
    for group, channels in kept:
        done = [end.weights for end in group.ends if end.weights.name in new]
        for one in group.cuts:
            if one not in done:
                arrays[one.name] = np.take(arrays[one.name], channels, axis=one.axis)
                changed.add(one.name)
        deep |= dict.fromkeys(group.deep, len(channels))
    for one in model.graph.initializer:
        if one.name in changed:
            one.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(arrays[one.name]), one.name))
    for node in model.graph.node:
        if node.output[0] in deep:
            for attribute in node.attribute:
                if attribute.name == "group":
                    attribute.i = deep[node.output[0]]
    del model.graph.value_info[:]  # shapes that were inferred before
    return bytes(model.SerializeToString())


@value
class _Walk:
    """The tensors that carry the channels, by their axis, and what was met on the way."""

    axes: dict[str, int]
    cuts: list[Cut] = field(default_factory=list)
    deep: list[str] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)


class _Reading:
    def __init__(self, onnx: Any, model: Any) -> None:
        self._onnx, self._nodes = onnx, list(model.graph.node)
        self._shapes = {one.name: tuple(one.dims) for one in model.graph.initializer}
        self._small = {
            one.name: [int(number) for number in np.ravel(onnx.numpy_helper.to_array(one))]
            for one in model.graph.initializer
            if int(np.prod(one.dims)) <= _AXES_AT_MOST and one.data_type != onnx.TensorProto.STRING
        }
        self._single = {name for name, shape in self._shapes.items() if int(np.prod(shape)) == 1} | {
            node.output[0] for node in self._nodes if node.op_type == "Constant" and _is_single(onnx, node)
        }
        self._outputs = {one.name for one in model.graph.output}
        self._used = Counter(name for node in self._nodes for name in node.input)

    def group(self, producer: Any) -> Group | None:
        made = self._made(producer)
        if made is None:
            return None
        channels, first = made
        walk = _Walk(axes={producer.output[0]: 1 if producer.op_type in ("Conv", "Gemm") else -1})
        after = self._nodes[self._nodes.index(producer) + 1 :]
        fits = all(self._follow(node, walk, channels) for node in after if any(name in walk.axes for name in node.input))
        cuts = [*first, *walk.cuts]
        shared = any(self._used[one.name] > 1 for one in cuts)
        if not fits or not walk.ends or shared or self._outputs & walk.axes.keys() or len({*cuts}) != len(cuts):
            return None
        return Group(channels=channels, first=tuple(first), cuts=tuple(cuts), deep=tuple(walk.deep), ends=tuple(walk.ends))

    def _made(self, node: Any) -> tuple[int, list[Cut]] | None:
        """How many channels a layer makes, and which weights make them."""
        shape = self._shapes.get(node.input[1]) if len(node.input) > 1 else None
        if shape is None:
            return None
        if node.op_type == "Conv" and self._attribute(node, "group", 1) == 1:
            bias = [Cut(name=node.input[2], axis=0)] if len(node.input) > 2 and node.input[2] else []
            return shape[0], [Cut(name=node.input[1], axis=0), *bias]
        if node.op_type == "Gemm" and not self._attribute(node, "transA", 0):
            axis = 0 if self._attribute(node, "transB", 0) else 1
            cuts = [Cut(name=node.input[1], axis=axis)]
            if len(node.input) > 2 and node.input[2]:
                bias_shape = self._shapes.get(node.input[2])
                if bias_shape is None:
                    return None
                cuts += [Cut(name=node.input[2], axis=len(bias_shape) - 1)] if bias_shape and bias_shape[-1] > 1 else []
            return shape[axis], cuts
        if node.op_type == "MatMul" and len(shape) == 2:
            return shape[1], [Cut(name=node.input[1], axis=1)]
        return None

    def _follow(self, node: Any, walk: _Walk, channels: int) -> bool:
        """Whether channels that come into this node can be taken away; what goes with them is noted in the walk."""
        axis = next(walk.axes[name] for name in node.input if name in walk.axes)
        if node.op_type in _EACH:
            walk.axes[node.output[0]] = axis
            return all(name in walk.axes or self._is_small(name) for name in node.input if name)
        if node.op_type in _PAIRED:
            return self._pair(node, walk, axis, channels)
        if node.op_type == "BatchNormalization":
            walk.cuts.extend(Cut(name=name, axis=0) for name in node.input[1:5])
            walk.axes[node.output[0]] = axis
            return axis == 1 and all(self._shapes.get(name) == (channels,) for name in node.input[1:5])
        if node.op_type == "ReduceMean":
            return self._mean(node, walk, axis)
        if node.op_type == "Flatten":  # of what was pooled to a point; else a channel would become several columns
            walk.axes[node.output[0]] = 1
            return axis == 1 and self._is_pooled(node.input[0])
        return self._end(node, walk, axis, channels)

    def _pair(self, node: Any, walk: _Walk, axis: int, channels: int) -> bool:
        walk.axes[node.output[0]] = axis
        for name in node.input:
            shape = self._shapes.get(name)
            if name in walk.axes:
                if walk.axes[name] != axis:
                    return False
            elif name in self._single:
                continue
            elif shape is None:
                return False  # channels of others
            elif axis == -1 and shape[-1] == channels and int(np.prod(shape)) == channels:
                walk.cuts.append(Cut(name=name, axis=len(shape) - 1))
            elif axis == 1 and shape in ((channels, 1, 1), (1, channels, 1, 1), (1, channels)):
                walk.cuts.append(Cut(name=name, axis=shape.index(channels)))
            elif axis == 1 and shape == (channels,) and self._is_flat(node, walk):
                walk.cuts.append(Cut(name=name, axis=0))
            else:
                return False
        return True

    def _is_flat(self, node: Any, walk: _Walk) -> bool:
        """Whether the tensor has two axes, so that a row of numbers meets its channels: it comes from a Gemm."""
        makers = {output: one for one in self._nodes for output in one.output}
        name = next(name for name in node.input if name in walk.axes)
        while (maker := makers.get(name)) is not None and maker.op_type in _EACH | _PAIRED:
            name = next((one for one in maker.input if one in walk.axes), "")
        return maker is not None and maker.op_type == "Gemm"

    def _mean(self, node: Any, walk: _Walk, axis: int) -> bool:
        axes = self._attribute(node, "axes", None)
        if axes is None and len(node.input) > 1:
            axes = self._constant(node.input[1])
        walk.axes[node.output[0]] = 1
        return axis == 1 and axes is not None and all(one in (2, 3, 4, -1, -2) for one in axes)

    def _end(self, node: Any, walk: _Walk, axis: int, channels: int) -> bool:
        """A layer that takes the channels in: a plain one ends the walk, one of a channel each goes on."""
        shape = self._shapes.get(node.input[1]) if len(node.input) > 1 else None
        if shape is None or node.input[0] not in walk.axes or sum(name in walk.axes for name in node.input) > 1:
            return False
        if node.op_type == "Conv" and axis == 1:
            groups = self._attribute(node, "group", 1)
            if groups == 1:
                walk.cuts.append(Cut(name=node.input[1], axis=1))
            elif groups == channels == shape[0]:
                walk.cuts.extend(Cut(name=name, axis=0) for name in node.input[1:] if name)
                walk.deep.append(node.output[0])
                walk.axes[node.output[0]] = 1
                return True
            else:
                return False
        elif node.op_type == "Gemm" and not self._attribute(node, "transA", 0):
            walk.cuts.append(Cut(name=node.input[1], axis=1 if self._attribute(node, "transB", 0) else 0))
        elif node.op_type == "MatMul" and len(shape) == 2 and shape[0] == channels:
            walk.cuts.append(Cut(name=node.input[1], axis=0))
        else:
            return False
        walk.ends.append(End(tensor=node.input[0], weights=walk.cuts[-1]))
        return True

    def _is_small(self, name: str) -> bool:
        """A bound, an exponent: nothing that has channels."""
        return name in self._single or self._constant(name) is not None

    def _is_pooled(self, name: str) -> bool:
        maker = next((node for node in self._nodes if name in node.output), None)
        return maker is not None and maker.op_type in ("GlobalAveragePool", "GlobalMaxPool", "ReduceMean")

    def _constant(self, name: str) -> list[int] | None:
        for node in self._nodes:
            if node.op_type == "Constant" and name in node.output:
                return [int(one) for one in np.ravel(self._onnx.numpy_helper.to_array(node.attribute[0].t))]
        return self._small.get(name)

    def _attribute(self, node: Any, name: str, otherwise: Any) -> Any:
        found = next((one for one in node.attribute if one.name == name), None)
        return otherwise if found is None else self._onnx.helper.get_attribute_value(found)


def _is_single(onnx: Any, constant: Any) -> bool:
    """Whether a node that gives a constant gives one number."""
    given = onnx.helper.get_attribute_value(constant.attribute[0])
    shape = tuple(given.dims) if isinstance(given, onnx.TensorProto) else np.shape(given)
    return int(np.prod(shape)) == 1


def kept_channels(scores: Array, share: float, multiple: int = 8) -> Array:
    """The most useful of them, without `share`; a multiple that vector units like, and never fewer than that."""
    wanted = max(multiple, round((1 - share) * len(scores) / multiple) * multiple)
    count = min(len(scores), wanted)
    return np.sort(np.argsort(-scores, kind="stable")[:count])
