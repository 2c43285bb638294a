"""Batches as columns that have names: what a model was asked and answered, row by row, whatever its tensors look like."""

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from falaj.runtimes.engine import Array, TensorSpec
from falaj.serving.plane.core.models import Shape

MOST_COLUMNS: Final = 500  # of inputs, and as many of outputs
CONFIDENCE: Final = "confidence"
CLASS: Final = "class"
MEASURES: Final = ("mean", "deviation", "least", "most")  # of an image, or of anything else that is as wide
_LONGEST_NAME: Final = 300
_NAMED_SO: Final = ("probabilit", "softmax")
_ABOUT: Final = 1e-3  # probabilities add up to one, within this

Key: TypeAlias = tuple[str, bool]  # the name of a column, and whether it is an output
Numbers: TypeAlias = npt.NDArray[np.float64]


class Coded(Sequence[str]):
    """Texts of which there are few: each row has the place of its own among `names`."""

    def __init__(self, names: Sequence[str], places: npt.NDArray[np.int64]) -> None:
        self._names, self._places = names, places

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> "Coded": ...

    def __getitem__(self, place: int | slice) -> "str | Coded":
        return Coded(self._names, self._places[place]) if isinstance(place, slice) else self._names[self._places[place]]

    def __len__(self) -> int:
        return len(self._places)

    def counts(self) -> dict[str, int]:
        """Of those that there are."""
        found = np.bincount(self._places, minlength=len(self._names)).tolist()
        return {name: count for name, count in zip(self._names, found, strict=True) if count}


class Frame:
    """Rows of one model. Numbers lie column by column in `matrix`, at the places that `numbers` tells; NaN is missing. `texts`
    that are missing are empty. What is `hidden` may be counted, but not be written down.

    `scores` is the place of the output whose largest value is a row's confidence, where there is one.
    """

    def __init__(
        self,
        shape: Shape,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        rows: int,
        masked: Collection[str] = (),
        scores: int | None = None,
    ) -> None:
        self.rows = rows
        self.numbers: dict[Key, int] = {}
        self.texts: dict[Key, Sequence[str]] = {}
        self.hidden: set[Key] = set()
        self._blocks: list[Numbers] = []
        self._width = 0
        self._masked = {*masked, *(shape.lookup.hidden if shape.lookup is not None else ())}
        told = {*shape.columns, *(spec.name for spec in (*shape.inputs, *shape.outputs))}
        self._is_lost = not self._masked <= told  # something is masked that is in a tensor without names, perhaps
        self._add_all(shape.inputs, inputs, shape.columns if len(shape.inputs) == 1 else (), is_output=False)
        self._add_all(shape.outputs, outputs, (), is_output=True)
        if scores is not None:
            self._add_scores(_table(outputs[scores], rows), is_hidden=shape.outputs[scores].name in self._masked)
        self.matrix: Numbers = np.concatenate(self._blocks) if self._blocks else np.empty((0, rows))

    @property
    def keys(self) -> list[Key]:
        """Of its columns: inputs first, then outputs."""
        return sorted([*self.numbers, *self.texts], key=lambda key: key[1])

    def row(self, place: int) -> dict[Key, float | str]:
        """Without what is hidden."""
        numbers = self.matrix[:, place].tolist()
        told: dict[Key, float | str] = {key: numbers[at] for key, at in self.numbers.items() if key not in self.hidden}
        return told | {key: some[place] for key, some in self.texts.items() if key not in self.hidden}

    def _add_all(
        self, specs: Sequence[TensorSpec], arrays: Sequence[Array], columns: Sequence[str], *, is_output: bool
    ) -> None:
        room = MOST_COLUMNS
        for spec, array in zip(specs, arrays, strict=True):
            table = _table(array, self.rows)
            is_wide = array.ndim > 2 or table.shape[1] > MOST_COLUMNS
            if is_wide and table.dtype == np.object_:
                continue
            names = _names(spec.name, table.shape[1], columns, is_wide=is_wide)[:room]
            is_hidden = spec.name in self._masked or (self._is_lost and len(names) > 1 and len(columns) != len(names))
            self._add(names, _measured(table) if is_wide else table.T, is_output=is_output, is_hidden=is_hidden)
            room -= len(names)

    def _add_scores(self, table: Array, *, is_hidden: bool) -> None:
        """Under a name that is an output's own, there is that."""
        scores = np.asarray(table, np.float64)
        best = scores.max(axis=1)  # NaN where one of them is
        self._add((CONFIDENCE,), best[None], is_output=True, is_hidden=is_hidden)
        if (CLASS, True) in self.numbers or (CLASS, True) in self.texts:
            return
        classes = scores.shape[1]
        self.texts[CLASS, True] = Coded(
            [*map(str, range(classes)), ""], np.where(np.isnan(best), classes, scores.argmax(axis=1))
        )
        if is_hidden or CLASS in self._masked:
            self.hidden.add((CLASS, True))

    def _add(self, names: Sequence[str], columns: npt.NDArray[Any], *, is_output: bool, is_hidden: bool) -> None:
        keys = [(name[:_LONGEST_NAME], is_output) for name in names]
        self.hidden.update(key for name, key in zip(names, keys, strict=True) if is_hidden or name in self._masked)
        for place, key in enumerate(keys):
            if key in self.numbers or key in self.texts:
                continue
            if columns.dtype == np.object_:
                self.texts[key] = [_text(one) for one in columns[place].tolist()]
            else:
                self.numbers[key] = self._width + place
        if columns.dtype != np.object_:
            self._blocks.append(np.asarray(columns[: len(keys)], np.float64))
            self._width += len(keys)


def scores_among(shape: Shape, outputs: Sequence[Array], rows: int) -> int | None:
    """The place of the output that has a score for each class: it is called so, or looks so."""
    for place, (spec, array) in enumerate(zip(shape.outputs, outputs, strict=True)):
        table = _table(array, rows)
        if array.ndim > 2 or table.shape[1] < 2 or not np.issubdtype(table.dtype, np.floating):
            continue
        if any(word in spec.name.lower() for word in _NAMED_SO) or _looks_likely(np.asarray(table, np.float64)):
            return place
    return None


def _looks_likely(scores: Numbers) -> bool:
    there = scores[np.isfinite(scores).all(axis=1)]
    return bool(len(there) and there.min() >= 0 and (np.abs(there.sum(axis=1) - 1) < _ABOUT).all())


def _table(array: Array, rows: int) -> npt.NDArray[Any]:
    """Row by row; a model that does not batch is given one row at a time, without saying so."""
    return array.reshape(rows, array.size // rows)


def _names(name: str, width: int, columns: Sequence[str], *, is_wide: bool) -> Sequence[str]:
    if is_wide:
        return tuple(f"{name} {measure}" for measure in MEASURES)
    if len(columns) == width:
        return columns
    return (name,) if width == 1 else tuple(f"{name}[{place}]" for place in range(width))


def _measured(table: npt.NDArray[Any]) -> Numbers:
    """Row by row, so that large ones are not all held twice."""
    found = np.empty((len(MEASURES), len(table)))
    with np.errstate(over="ignore", invalid="ignore"):
        for place, row in enumerate(table):
            one = row.astype(np.float64)
            found[:, place] = one.mean(), one.std(), one.min(), one.max()
    return found


def _text(one: Any) -> str:
    return one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one or "")
