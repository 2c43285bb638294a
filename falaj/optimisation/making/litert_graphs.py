"""A graph on its way from ONNX to LiteRT: which value is where in the file, and in which order its axes lie there.

ONNX has the channels of pictures before their rows, LiteRT behind: values stay as LiteRT has them for as long as nothing needs
the other order. What becomes of each operator is in `litert_operators`.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from onnx import helper

from falaj.base.values import value
from falaj.optimisation.making.litert_writing import NO_TENSOR, Writer
from falaj.optimisation.making.onnx_graphs import array_of, constants, told
from falaj.optimisation.making.values import Array, CannotBeMade

TO_LAST: Final = (0, 2, 3, 1)  # from ONNX's order to LiteRT's: its axes, by which of the other's they are
FROM_LAST: Final = (0, 3, 1, 2)
_PICTURE: Final = 4


@value
class Tensor:
    """A value in the file. `shape` is in ONNX's order, also where the file has the channels `last`."""

    place: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    last: bool = False


@value
class Fact:
    """What is known of a value before it is made."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Conversion:
    """`rows` is the length that stands for any number of rows: no other length has it as a factor. `origins` are the nodes as
    they were before folding, by what they make: those know the line that made them."""

    def __init__(self, model: Any, facts: Mapping[str, Fact], origins: Mapping[str, Any], writer: Writer, *, rows: int) -> None:
        self.writer, self.rows = writer, rows
        self.opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 1)
        self.made_by: list[Any] = []  # the node of each step in the file
        self._facts, self._origins = facts, origins
        self._constants = {name: array_of(tensor) for name, tensor in constants(model.graph).items()}
        self._values: dict[str, Tensor] = {}
        self._outputs = {one.name for one in model.graph.output}
        self._users: dict[str, list[Any]] = {}
        self._taken: set[str] = set()  # nodes that have become a part of the one before
        for node in model.graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)

    # What is known.

    def knows(self, name: str) -> bool:
        return name in self._facts

    def shape(self, name: str) -> tuple[int, ...]:
        return self._facts[name].shape

    def dtype(self, name: str) -> np.dtype[Any]:
        return self._facts[name].dtype

    def is_free(self, length: int) -> bool:
        """Whether it is of rows, of which there may be any number."""
        return length > 0 and length % self.rows == 0

    def constant(self, node: Any, position: int) -> Array | None:
        """What the node is given there, where that is the same for all rows."""
        return self._constants.get(node.input[position]) if position < len(node.input) else None

    def numbers(self, node: Any, attribute: str, position: int) -> list[int] | None:
        """What older operators have as an attribute, newer ones are given."""
        given = setting(node, attribute, None)
        if given is None and position < len(node.input) and node.input[position]:
            found = self.constant(node, position)
            if found is None:
                raise self.refused(node, f"its {attribute} are found only while it runs")
            given = found.ravel()
        return None if given is None else [int(one) for one in given]

    def refused(self, node: Any, why: str) -> CannotBeMade:
        return CannotBeMade(f"LiteRT cannot take {self.told([node])}: {why}")

    def told(self, nodes: Iterable[Any]) -> str:
        return told([self._origins.get(node.output[0], node) for node in nodes])

    # Values.

    def give(self, name: str, tensor: Tensor) -> None:
        self._values[name] = tensor

    def tensor(self, name: str) -> Tensor:
        """As it lies in the file."""
        if name not in self._values and name in self._constants:
            array = self._constants[name]
            self._values[name] = Tensor(place=self.writer.constant(array), shape=array.shape, dtype=array.dtype)
        if name not in self._values:
            raise CannotBeMade(f"LiteRT has no form of the value {name!r}, which something needs")
        return self._values[name]

    def plain(self, name: str) -> Tensor:
        """In ONNX's order. The name keeps the order it had: whoever needs this one too gets the same."""
        found = self.tensor(name)
        return self._turned(name, found, FROM_LAST, last=False) if found.last else found

    def last(self, name: str) -> Tensor:
        """In LiteRT's order: for pictures alone."""
        found = self.tensor(name)
        if len(found.shape) != _PICTURE:
            raise CannotBeMade(
                f"LiteRT takes pictures of two axes, with rows and channels, and {name!r} has {len(found.shape)} axes"
            )
        return found if found.last else self._turned(name, found, TO_LAST, last=True)

    def _turned(self, name: str, found: Tensor, order: Sequence[int], *, last: bool) -> Tensor:
        key = f"{name} {'last' if last else 'plain'}"
        if key not in self._values:
            self._values[key] = self.moved(found, order, found.shape, last=last)
        return self._values[key]

    # Steps.

    def step(
        self,
        kind: str,
        given: Sequence[Tensor | Array | int | None],
        shape: Sequence[int],
        dtype: np.dtype[Any],
        options: str = "",
        *,
        last: bool = False,
        **fields: Any,
    ) -> Tensor:
        """`shape` is in ONNX's order. What is given is a value, a constant, or the number of something in the file."""
        lengths = [shape[axis] for axis in TO_LAST] if last else list(shape)
        places = [self._place(one) for one in given]
        made = self.writer.tensor(f"{kind.lower()}_{len(self.writer.steps)}", lengths, dtype)
        self.writer.step(kind, places, made, options, fields)
        return Tensor(place=made, shape=tuple(shape), dtype=dtype, last=last)

    def reshaped(self, found: Tensor, shape: Sequence[int], *, last: bool = False) -> Tensor:
        """The same numbers one after the other as they lie in the file."""
        lengths = [shape[axis] for axis in TO_LAST] if last else list(shape)
        free = [self.is_free(length) for length in lengths]
        if sum(free) > 1:
            raise CannotBeMade(
                f"LiteRT has one free axis, and a value would have several: {[-1 if one else 0 for one in free]}"
            )
        target = np.array([-1 if is_free else length for length, is_free in zip(lengths, free, strict=True)], np.int32)
        return self.step("RESHAPE", [found, target], shape, found.dtype, "ReshapeOptions", last=last, newShape=target)

    def moved(self, found: Tensor, order: Sequence[int], shape: Sequence[int], *, last: bool = False) -> Tensor:
        """The axes of the file in another order. Where all that moves has one entry, nothing has to be copied about."""
        lengths = [found.shape[axis] for axis in TO_LAST] if found.last else found.shape
        long = [axis for axis in order if lengths[axis] != 1]
        if long == sorted(long):
            return self.reshaped(found, shape, last=last)
        return self.step("TRANSPOSE", [found, np.array(order, np.int32)], shape, found.dtype, "TransposeOptions", last=last)

    def _place(self, given: Tensor | Array | int | None) -> int:
        if given is None:
            return NO_TENSOR
        if isinstance(given, Tensor):
            return given.place
        return given if isinstance(given, int) else self.writer.constant(given)

    # Neighbours.

    def side_by_side(self, node: Any) -> tuple[list[Tensor | Array], bool]:
        """All that an operator with broadcasting is given, in one order, and whether that is with channels last."""
        names = [name for name in node.input if name not in self._constants]
        values = [self.tensor(name) for name in names]
        last = any(one.last for one in values) and all(len(one.shape) == _PICTURE or prod(one.shape) == 1 for one in values)
        found: list[Tensor | Array] = []
        for name in node.input:
            if name in self._constants:
                found.append(_with_channels_last(self._constants[name]) if last else self._constants[name])
            elif last and len(self.tensor(name).shape) == _PICTURE:
                found.append(self.last(name))
            else:
                found.append(self.plain(name))
        return found, last

    def follower(self, name: str, *kinds: str) -> Any:
        """The one node that uses this, where it is of these kinds and nobody else looks: what is made can take it in."""
        users = self._users.get(name, [])
        alone = len(users) == 1 and name not in self._outputs and users[0].op_type in kinds
        return users[0] if alone else None

    def take(self, node: Any) -> None:
        self._taken.add(node.name)

    def is_taken(self, node: Any) -> bool:
        return node.name in self._taken

    def activation_after(self, name: str) -> tuple[str, int]:
        """The name behind it, and LiteRT's number for what bends the values on the way there."""
        following = self.follower(name, "Relu", "Clip")
        if following is None:
            return name, NO_ACTIVATION
        number = RELU if following.op_type == "Relu" else BETWEEN.get(self.bounds(following), NO_ACTIVATION)
        if number == NO_ACTIVATION:
            return name, NO_ACTIVATION
        self.take(following)
        return following.output[0], number

    def bounds(self, node: Any) -> tuple[float, float]:
        """Between which numbers it clips."""
        found = []
        for word, position, least in (("min", 1, -np.inf), ("max", 2, np.inf)):
            given = setting(node, word, None)
            if given is None and position < len(node.input) and node.input[position]:
                array = self.constant(node, position)
                if array is None:
                    raise self.refused(node, f"its {word} is found only while it runs")
                given = array.item()
            found.append(least if given is None else float(given))
        return found[0], found[1]


# LiteRT's numbers for activations that are a part of another step.
NO_ACTIVATION, RELU, RELU6 = 0, 1, 3
BETWEEN: Final = {(0.0, np.inf): RELU, (0.0, 6.0): RELU6}


def setting(node: Any, name: str, default: Any) -> Any:
    found = next((one for one in node.attribute if one.name == name), None)
    if found is None:
        return default
    given = helper.get_attribute_value(found)
    return given.decode() if isinstance(given, bytes) else given


def _with_channels_last(array: Array) -> Array:
    if array.size == 1:
        return array.reshape(())
    return array.reshape((1,) * (_PICTURE - array.ndim) + array.shape).transpose(TO_LAST)
