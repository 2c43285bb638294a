"""The model of a batch, and what the columns of its predictions are called."""

from collections.abc import Mapping
from typing import Any, Final

from falaj.client.loaded_models import LoadedModel
from falaj.runtimes.engine import Array, ModelFiles
from falaj.serving.operations.batches import PREDICTION, Batch

AT_ONCE: Final = 1024  # rows of one run


class Predictor:
    """`columns` are what it takes of each row, in their order; `outputs` are called as the columns will be."""

    def __init__(self, batch: Batch, contents: Mapping[str, bytes], threads: int = 0) -> None:
        named = tuple(column.name for column in batch.columns)
        files = ModelFiles(runtime=batch.runtime, main=batch.file, contents=contents, columns=named)
        self._model = LoadedModel(batch.model, files, threads)
        self.columns = self._model.columns
        self.at_once = AT_ONCE if self._model.engine.batches else 1
        names = [spec.name for spec in self._model.engine.outputs]
        self.outputs = (PREDICTION,) if len(names) == 1 else tuple(names)

    def predict(self, rows: list[list[Any]], first: int) -> list[Array]:
        """One array for each output, with a row for each. `first` is where these rows stand in the dataset, for messages."""
        return self._model.answers(self._model.arrays(rows, first), first)

    def close(self) -> None:
        self._model.close()
