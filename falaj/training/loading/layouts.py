"""What a batch looks like: columns by their names, or features stacked into one matrix with the target beside it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.loading.sources import Array

FEATURES = np.dtype(np.float32)


@value
class Layout:
    """`columns` come by name, each as it is. Or else there are `features`, a matrix of float32 with a NaN for each null, and
    maybe a `target`. `lists` are columns of any kind that come as plain lists beside the other columns."""

    columns: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    target: str | None = None
    lists: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """What is needed of every group."""
        single = () if self.target is None else (self.target,)
        return tuple(dict.fromkeys((*self.columns, *self.features, *single, *self.lists)))

    def stacked(self, pieces: Sequence[Mapping[str, Array]], dtypes: Mapping[str, "np.dtype[Any]"]) -> tuple[Array, ...]:
        """Pieces of groups, one under the other: an array for each of `columns` and `lists`, or the matrix and the target."""
        if self.features:
            matrix = _matrix(pieces, self.features, dtypes)
            return (matrix,) if self.target is None else (matrix, _target(pieces, self.target, dtypes[self.target]))
        plain = tuple(_whole(pieces, name, dtypes[name]) for name in self.columns)
        return (*plain, *(np.concatenate([piece[name] for piece in pieces], dtype=np.object_) for name in self.lists))

    def batch(self, parts: Sequence[Any]) -> Any:
        """What the training is given, from what became of those arrays."""
        if self.features:
            return parts[0] if self.target is None else tuple(parts)
        return dict(zip((*self.columns, *self.lists), parts, strict=True))


def layout_of(
    dtypes: Mapping[str, "np.dtype[Any]"],
    *,
    columns: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    target: str | None = None,
    lists: Sequence[str] = (),
) -> Layout:
    """Raises `Invalid` for columns that there are not, and for those that no tensor can hold."""
    if features is not None:
        if columns is not None or lists:
            raise Invalid("Name either columns, which come by their names, or features, which are stacked: not both.")
        found = Layout(features=tuple(features), target=target)
    elif target is not None:
        raise Invalid(f"There is a target {target!r} without features: name those too.")
    else:
        named = columns if columns is not None else [name for name in dtypes if name not in lists]
        found = Layout(columns=tuple(named), lists=tuple(lists))
    if not found.read or (features is not None and not features):
        raise Invalid("Name at least one column.")
    _refuse_unknown(found, dtypes)
    return found


def _refuse_unknown(layout: Layout, dtypes: Mapping[str, "np.dtype[Any]"]) -> None:
    for name in layout.read:
        if name not in dtypes:
            raise Invalid(f"There is no column {name!r}. There are {', '.join(map(repr, dtypes))}.")
        if dtypes[name] == np.object_ and name not in layout.lists:
            fitting = [other for other, dtype in dtypes.items() if dtype != np.object_]
            raise Invalid(
                f"Column {name!r} holds neither numbers nor truth values, and no tensor holds anything else. Leave it out, "
                f"turn it into numbers before, or ask for it as a list (lists=[{name!r}]). Numbers are in {', '.join(fitting)}."
            )
    if len({*layout.columns, *layout.lists}) < len(layout.columns) + len(layout.lists):
        raise Invalid("A column was named twice.")


def _matrix(pieces: Sequence[Mapping[str, Array]], names: Sequence[str], dtypes: Mapping[str, "np.dtype[Any]"]) -> Array:
    widths = [dtypes[name].shape[0] if dtypes[name].shape else 1 for name in names]
    ends = np.cumsum([len(piece[names[0]]) for piece in pieces])
    matrix = np.empty((int(ends[-1]), sum(widths)), FEATURES)
    for piece, end in zip(pieces, ends, strict=True):
        at = 0
        for name, width in zip(names, widths, strict=True):
            one = piece[name]
            matrix[end - len(one) : end, at : at + width] = one.reshape(len(one), width)
            at += width
    return matrix


def _target(pieces: Sequence[Mapping[str, Array]], name: str, dtype: "np.dtype[Any]") -> Array:
    """Losses take float32, or the integers of classes."""
    floats = dtype.base.kind == "f"
    return _whole(pieces, name, dtype, lambda one: one.astype(FEATURES, copy=False) if floats else one)


def _whole(
    pieces: Sequence[Mapping[str, Array]],
    name: str,
    dtype: "np.dtype[Any]",
    become: Callable[[Array], Array] = lambda one: one,
) -> Array:
    for piece in pieces:
        if piece[name].dtype != dtype.base:
            raise Invalid(
                f"Column {name!r} has nulls, and {dtype.base} cannot say so. Name it among the features, where they are NaN, "
                "or fill them before."
            )
    return np.concatenate([become(piece[name]) for piece in pieces])
