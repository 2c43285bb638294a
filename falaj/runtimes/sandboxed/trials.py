"""What a model and its conversion are both asked: rows of a dataset where they fit the model, made-up ones (`samples`) else."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from falaj.runtimes.sandboxed import samples
from falaj.runtimes.sandboxed.failing import first_cause
from falaj.runtimes.sandboxed.originals import OfTensors, Original

_LEFT_EMPTY = "each of them leaves a column empty that the model cannot do without"


class Unfit(Exception):
    """Why rows are none of this model's."""


class Trial:
    """`said` is what is known of the model, `given` are rows of a dataset. Once asked: `rows` says how many it was, `real`
    whether they are the dataset's, and `unfit` why they are not."""

    def __init__(self, said: dict[str, Any], given: list[dict[str, Any]]) -> None:
        self.said, self._given = said, given
        self.rows, self.real, self.unfit = samples.ROWS, False, ""

    def table(self, original: Original, width: int, columns: list[str]) -> tuple[Any, dict[str, Any]]:
        """Rows, and what the original answers to them. `columns` are the model's own words, where the signature has none."""
        return self._asked(original, lambda: self._tables(columns), lambda: samples.table(self.said, width, original.model))

    def tensors(self, original: OfTensors) -> tuple[list[Any], dict[str, Any]]:
        """The same, of one array for each tensor; of a table, all of its columns are one."""
        if self.said["columns"]:
            return self._asked(
                original,
                lambda: ([table.to_numpy(dtype=np.float32)] for table in self._tables([])),
                lambda: samples.tensors(self.said),
            )
        takes = original.takes
        return self._asked(original, lambda: self._arrays(original), lambda: samples.tensors(self.said | {"tensors": takes}))

    def _asked(
        self, original: Original, real: Callable[[], Iterable[Any]], made_up: Callable[[], Any]
    ) -> tuple[Any, dict[str, Any]]:
        try:
            for sample in real() if self._given else ():
                try:
                    answers = original.answers(sample)
                except Exception as error:  # noqa: BLE001 - whatever a user's model raises is the answer
                    self.unfit = f"the model itself does not take them ({first_cause(error)})"
                else:
                    self.rows, self.real, self.unfit = len(sample[0] if isinstance(sample, list) else sample), True, ""
                    return sample, answers
        except Unfit as error:
            self.unfit = str(error)
        sample = made_up()
        return sample, original.answers(sample)

    # Real rows

    def _tables(self, columns: list[str]) -> Iterator[Any]:
        """All of them; and, for models that cannot take gaps, those without."""
        kinds = {column["name"]: column["type"] for column in self.said["columns"]}
        names = list(kinds) or columns
        self._look_for(names)
        values = {name: _column(name, kinds.get(name, "double"), [row[name] for row in self._given]) for name in names}
        gaps = {name: np.array([one is None or one != one for one in column]) for name, column in values.items()}
        # Neither texts nor truths have a form without a value.
        never = [gap for name, gap in gaps.items() if kinds.get(name) in ("string", "boolean")]
        usable, whole = (~np.any([*some, np.zeros(len(self._given), dtype=bool)], axis=0) for some in (never, gaps.values()))
        if not usable.any():
            raise Unfit(_LEFT_EMPTY)
        for chosen in (usable, whole):
            if chosen.any() and (chosen is usable or (chosen != usable).any()):
                yield self._frame({name: column[chosen] for name, column in values.items()}, kinds)

    def _frame(self, values: dict[str, Any], kinds: dict[str, str]) -> Any:
        """A frame where the signature names columns, an array else."""
        if not kinds:
            return np.stack(list(values.values()), axis=1)
        import pandas

        return pandas.DataFrame({name: samples.typed(kinds[name], column) for name, column in values.items()})

    def _arrays(self, original: OfTensors) -> Iterator[list[Any]]:
        takes = original.takes
        names = [one["name"] for one in takes]
        names = names if names and all(names) else original.inputs[: len(takes)]
        self._look_for(names if len(names) == len(takes) else [])
        whole = [row for row in self._given if all(row[name] is not None for name in names)]
        if not whole:
            raise Unfit(_LEFT_EMPTY)
        yield [_array(name, one, [row[name] for row in whole]) for name, one in zip(names, takes, strict=True)]

    def _look_for(self, names: list[str]) -> None:
        if not names or not all(names):
            raise Unfit("nobody knows which of their columns the model takes: log it with `signature=`")
        if missing := [name for name in names if any(name not in row for row in self._given)]:
            raise Unfit(f"they have no column {missing[0]!r}")


def _column(name: str, kind: str, values: list[Any]) -> Any:
    """Numbers are of double precision, with NaN for gaps."""
    if kind == "string":
        return np.array([one if one is None else str(one) for one in values], dtype=object)
    try:
        return np.array([np.nan if one is None else float(one) for one in values], dtype=np.float64)
    except (TypeError, ValueError):
        raise Unfit(f"what they have in {name!r} are no numbers") from None


def _array(name: str, takes: dict[str, Any], values: list[Any]) -> Any:
    kind, inner = np.dtype(takes["dtype"]), takes["shape"][1:]
    try:
        found = np.array(values, dtype=object if kind.kind in "OUS" else kind)
        found = found if any(length < 0 for length in inner) else found.reshape([len(values), *inner])
    except (TypeError, ValueError):
        raise Unfit(f"what they have in {name!r} is not of the shape that the model takes") from None
    if found.ndim != len(inner) + 1 or not found.size:
        raise Unfit(f"what they have in {name!r} is not of the shape that the model takes")
    return found
