"""A model in a job: loaded by the runtimes that serve, asked as an endpoint asks it, with the same checks of what it takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from falaj.base.errors import Invalid
from falaj.runtimes.engine import Array, Columned, Engine, ModelFiles, Placement
from falaj.runtimes.loading import load
from falaj.serving.operations.batches import PREDICTION, Batch
from falaj.serving.plane.asking import Described
from falaj.serving.plane.core.inputs import Inputs
from falaj.serving.plane.rest.records import expected_columns, tensors_of_rows

AT_ONCE: Final = 1024  # rows of one run


class Predictor:
    """`columns` are what it takes of each row, in their order; `outputs` are called as the columns will be."""

    def __init__(self, batch: Batch, contents: Mapping[str, bytes], threads: int = 0) -> None:
        named = tuple(column.name for column in batch.columns)
        files = ModelFiles(runtime=batch.runtime, main=batch.file, contents=contents, columns=named)
        self._engine: Engine = load(files, Placement(threads=threads))
        own = tuple(self._engine.columns) if isinstance(self._engine, Columned) else ()
        self._described = Described(
            name=batch.model,
            versions=(),
            platform=batch.runtime,
            inputs=tuple(self._engine.inputs),
            outputs=tuple(self._engine.outputs),
            columns=named or own,
        )
        self._inputs = Inputs(self._engine.inputs, batches=self._engine.batches, nan="allow")
        self.columns = expected_columns(self._described)
        self.at_once = AT_ONCE if self._engine.batches else 1
        names = [spec.name for spec in self._engine.outputs]
        self.outputs = (PREDICTION,) if len(names) == 1 else tuple(names)

    def predict(self, rows: list[list[Any]], first: int) -> list[Array]:
        """One array for each output, with a row for each. `first` is where these rows stand in the dataset, for messages."""
        try:
            given = tensors_of_rows(rows, self._described)
            datas, count, tails, _ = self._inputs.check(given)
            said = self._engine.run(self._inputs.stack([datas], count, tails))
        except Invalid as error:
            raise Invalid(f"Rows {first:,} to {first + len(rows) - 1:,} cannot be predicted: {error}") from error
        return [np.asarray(one) if self._engine.batches else np.asarray(one)[None] for one in said]

    def close(self) -> None:
        self._engine.close()


def joined(parts: Sequence[Sequence[Array]]) -> list[Array]:
    """Those of several runs, one after the other."""
    return [np.concatenate(some) for some in zip(*parts, strict=True)]
