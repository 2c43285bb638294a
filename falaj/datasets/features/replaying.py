"""Asking a view again what it says of entities, each at a moment of its own, by some version of its dataset."""

import json
import os
from collections.abc import Sequence
from typing import IO, Any, Final

from falaj.base.values import value
from falaj.datasets.features.sources import ViewSource, opened_view
from falaj.datasets.features.working import FeatureWorkers, rows_of
from falaj.tables import types
from falaj.tables.joining.told import telling
from falaj.tables.schemas import Column, Schema

_COUNTS: Final = ("count", "distinct")


@value
class Question:
    """Plain values of an entity's key, and a moment."""

    keys: tuple[Any, ...]
    at: int


@value
class Answer:
    """By feature its type and value, and the event of the newest row behind them. `counts` are 0 where nothing is known."""

    values: dict[str, tuple[str, Any]]
    event: int | None
    counts: frozenset[str]


def nothing(one: Answer | None) -> Answer | None:
    """What is served of an entity whose rows are too old."""
    if one is None:
        return None
    empty = {name: (kind, 0 if name in one.counts else None) for name, (kind, _) in one.values.items()}
    return Answer(values=empty, event=None, counts=one.counts)


class Replayer:
    """Thread-safe. Raises `Invalid` where a version cannot be asked this."""

    def __init__(self, workers: FeatureWorkers) -> None:
        self._workers = workers

    def answers(self, source: ViewSource, keys: Sequence[Column], asked: Sequence[Question]) -> list[Answer]:
        """In the order of the questions."""
        view = source.chosen.view
        counts = frozenset(feature.name for feature in view.features if feature.function in _COUNTS)
        with _written(keys, asked) as given, opened_view(source) as table:
            lines = self._workers.replayed(table, Schema(columns=tuple(keys)), given)
        with lines.file:
            columns = lines.schema.columns[len(keys) :]
            return [
                Answer(
                    values={column.name: (column.type, one) for column, one in zip(columns, row[len(keys) : -2], strict=True)},
                    event=row[-2],
                    counts=counts,
                )
                for row in rows_of(lines)
            ]


def _written(keys: Sequence[Column], asked: Sequence[Question]) -> IO[bytes]:
    """A line for each, in a file that is nowhere but in memory."""
    changes = [telling(types.parse(column.type)) for column in keys]
    file = os.fdopen(os.memfd_create("asked", os.MFD_CLOEXEC), "w+b")
    for one in asked:
        told = [key if change is None else change(key) for key, change in zip(one.keys, changes, strict=True)]
        file.write(json.dumps([*told, one.at]).encode() + b"\n")
    file.flush()
    file.seek(0)
    return file
