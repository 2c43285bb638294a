"""What an ONNX graph computes of shapes: lengths, axes and places, as arrays of plain numbers that no device is asked for.

Numbers of rows may be symbols while a program is traced; an array of objects holds those as well. `operators` has the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST: Final = 64  # entries of a constant that may be a shape


def of_lengths(lengths: Sequence[Any]) -> Array:
    made = np.empty(len(lengths), dtype=object)
    made[:] = list(lengths)
    return made


def _axes(attributes: Mapping[str, Any], given: Sequence[Any]) -> list[int]:
    found = attributes.get("axes", given[1] if len(given) > 1 else None)
    return [] if found is None else [int(one) for one in np.ravel(found)]


def _gather(attributes: Mapping[str, Any], given: Sequence[Any]) -> Any:
    found = np.take(given[0], np.asarray(given[1], dtype=np.int64), axis=attributes.get("axis", 0))
    return np.asarray(found, dtype=given[0].dtype)  # a single length comes out of an array of objects as a number


def _slice(attributes: Mapping[str, Any], given: Sequence[Any]) -> Any:
    def numbers(name: str, place: int) -> list[int] | None:
        found = attributes.get(name, given[place] if len(given) > place else None)
        return None if found is None else [int(one) for one in np.ravel(found)]

    starts, ends = numbers("starts", 1) or [], numbers("ends", 2) or []
    axes, steps = numbers("axes", 3) or list(range(len(starts))), numbers("steps", 4) or [1] * len(starts)
    made = given[0]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        chosen = range(made.shape[axis])[slice(start, end, step)]
        made = np.take(made, np.asarray(chosen, dtype=np.int64), axis=axis)
    return made


def _unsqueeze(attributes: Mapping[str, Any], given: Sequence[Any]) -> Any:
    return np.expand_dims(given[0], tuple(_axes(attributes, given)))


def _squeeze(attributes: Mapping[str, Any], given: Sequence[Any]) -> Any:
    return np.squeeze(given[0], tuple(_axes(attributes, given)) or None)


def _reduce(run: Callable[..., Any]) -> Callable[[Mapping[str, Any], Sequence[Any]], Any]:
    def reduced(attributes: Mapping[str, Any], given: Sequence[Any]) -> Any:
        return np.asarray(
            run(given[0], axis=tuple(_axes(attributes, given)) or None, keepdims=bool(attributes.get("keepdims", 1)))
        )

    return reduced


def _plain(run: Callable[..., Any]) -> Callable[[Mapping[str, Any], Sequence[Any]], Any]:
    return lambda _, given: np.asarray(run(*given))


def _constant_of_shape(attributes: Mapping[str, Any], given: Sequence[Any]) -> Any:
    fill = attributes.get("value")
    return np.full([int(one) for one in given[0]], 0 if fill is None else fill.item())


# For nodes that are given nothing but shapes.
SHAPES: Final[dict[str, Callable[[Mapping[str, Any], Sequence[Any]], Any]]] = {
    "Add": _plain(np.add),
    "Cast": lambda _, given: given[0],
    "ConstantOfShape": _constant_of_shape,
    "Concat": lambda attributes, given: np.concatenate(given, axis=attributes.get("axis", 0)),
    "Div": _plain(np.floor_divide),
    "Equal": _plain(np.equal),
    "Gather": _gather,
    "Identity": lambda _, given: given[0],
    "Max": _plain(np.maximum),
    "Min": _plain(np.minimum),
    "Mul": _plain(np.multiply),
    "ReduceMax": _reduce(np.max),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": lambda _, given: np.reshape(given[0], [int(one) for one in given[1]]),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _plain(np.subtract),
    "Unsqueeze": _unsqueeze,
    "Where": _plain(np.where),
}
