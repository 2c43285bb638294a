"""A model in a job: loaded by the runtimes that serve, asked as an endpoint asks it, with the same checks of what it takes."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from falaj.base.errors import Invalid
from falaj.runtimes.datatypes import DTYPES
from falaj.runtimes.engine import Array, Columned, Engine, ModelFiles, Placement
from falaj.runtimes.loading import load
from falaj.serving.plane.asking import Described
from falaj.serving.plane.core.inputs import Inputs
from falaj.serving.plane.rest.records import expected_columns, tensors_of_rows

_FLOATS: Final = frozenset({"FP32", "FP64"})
_WHOLE: Final = frozenset({"INT64", "INT32"})


class LoadedModel:
    """`columns` are what it takes of each row, in their order."""

    def __init__(self, name: str, files: ModelFiles, threads: int = 0) -> None:
        self.engine: Engine = load(files, Placement(threads=threads))
        own = tuple(self.engine.columns) if isinstance(self.engine, Columned) else ()
        self._described = Described(
            name=name,
            versions=(),
            platform=files.runtime,
            inputs=tuple(self.engine.inputs),
            outputs=tuple(self.engine.outputs),
            columns=files.columns or own,
        )
        self._inputs = Inputs(self.engine.inputs, batches=self.engine.batches, nan="allow")
        self.columns = expected_columns(self._described)

    def arrays(self, rows: list[list[Any]], first: int) -> list[Array]:
        """One for each input. `first` is where these rows stand in the dataset, for messages."""
        try:
            datas, count, tails, _ = self._inputs.check(tensors_of_rows(rows, self._described))
            return list(self._inputs.stack([datas], count, tails))
        except Invalid as error:
            raise _unpredictable(first, len(rows), error) from error

    def quickly(self, numbers: Sequence[Array]) -> list[Array] | None:
        """The same from whole columns of numbers, one for each of `columns`; None where only `arrays` can say what they are."""
        specs, rows = self.engine.inputs, len(numbers[0])
        if len(specs) == 1 and self._described.columns and len(self.columns) == specs[0].shape[-1] == len(numbers):
            if specs[0].datatype not in _FLOATS or any(one.ndim > 1 for one in numbers):
                return None
            return [np.stack(numbers, axis=1).astype(DTYPES[specs[0].datatype])]
        if [spec.name for spec in specs] != list(self.columns):
            return None
        made = []
        for spec, one in zip(specs, numbers, strict=True):
            tail = spec.shape[1:]
            exact = spec.datatype in _FLOATS or (one.dtype.kind in "iub" and spec.datatype in _WHOLE)
            if any(length < 0 for length in tail) or one[0].size != math.prod(tail) or not exact:
                return None
            made.append(np.ascontiguousarray(one.reshape(rows, *tail), dtype=DTYPES[spec.datatype]))
        return made

    def answers(self, arrays: Sequence[Array], first: int = 0) -> list[Array]:
        """One for each output."""
        try:
            said = self.engine.run(arrays)
        except Invalid as error:
            raise _unpredictable(first, len(arrays[0]), error) from error
        return [np.asarray(one) if self.engine.batches else np.asarray(one)[None] for one in said]

    def close(self) -> None:
        self.engine.close()


def joined(parts: Sequence[Sequence[Array]]) -> list[Array]:
    """Those of several runs, one after the other."""
    return [np.concatenate(some) for some in zip(*parts, strict=True)]


def _unpredictable(first: int, count: int, error: Invalid) -> Invalid:
    return Invalid(f"Rows {first:,} to {first + count - 1:,} cannot be predicted: {error}")
