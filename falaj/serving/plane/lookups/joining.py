"""What callers send to an endpoint that looks features up, and what becomes of it: the inputs of its model.

Every column is a tensor of its own then, with a row for each prediction: the keys of entities, and what the model takes
besides.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from falaj.base.clock import Clock
from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value
from falaj.datasets.features.values import read
from falaj.datasets.online.stores import MOST_ROWS
from falaj.datasets.online.views import Found
from falaj.runtimes.datatypes import BYTES
from falaj.runtimes.engine import TensorSpec
from falaj.serving.plane.asking import Described, Given
from falaj.serving.plane.core.inputs import Inputs
from falaj.serving.plane.lookups.telling import Looked
from falaj.serving.plane.lookups.views import ReadView, found_in
from falaj.serving.plane.rest.records import tensors_of_rows
from falaj.serving.states import Column
from falaj.tables import types

_KEYS: Final = {"bool": "BOOL", "uint64": "UINT64"} | {word: "INT64" for word in types.INTEGERS if word != "uint64"}


@value
class Joined:
    """The model's inputs. `unknown` counts rows of which some view knew nothing; `entities` are the keys as they were given;
    `looked` is what was found, for audits."""

    given: Sequence[Given]
    unknown: int
    entities: dict[str, list[Any]]
    looked: Looked


class Lookup:
    """Of one revision in memory. Thread-safe."""

    def __init__(
        self, views: Sequence[ReadView], inputs: tuple[TensorSpec, ...], columns: Sequence[Column], name: str, clock: Clock
    ) -> None:
        self.views, self._clock, self._columns = tuple(views), clock, tuple(columns)
        self.project = views[0].project
        self.looked = tuple(name for view in views for name in view.told.wanted)
        self.hidden = tuple(name for view in views for name in view.told.hidden)
        self._kinds = {key.name: types.parse(key.type) for view in views for key in view.told.keys}
        names = tuple(column.name for column in columns)
        self.columns = (*self._kinds, *(name for name in names if name not in self.looked and name not in self._kinds))
        self.inputs = tuple(TensorSpec(name=one, datatype=self._datatype(one, inputs), shape=(-1, 1)) for one in self.columns)
        self._checks = Inputs(self.inputs, batches=True, nan="allow")
        self._model = Described(name=name, versions=(), platform="", inputs=inputs, outputs=(), columns=names)

    def _datatype(self, column: str, inputs: Sequence[TensorSpec]) -> str:
        if column in self._kinds:
            return _KEYS.get(self._kinds[column].word, BYTES)
        return next((spec.datatype for spec in inputs if spec.name == column), inputs[0].datatype)

    def joined(self, given: Sequence[Given]) -> Joined:
        """In a thread, for the store may be elsewhere. Raises `Invalid` for what the model cannot take."""
        sent, rows = self._values(given)
        if rows * max(1, len(self.views)) > MOST_ROWS:
            raise TooLarge(f"{rows} rows are too many to be looked up at once: send them in several requests.")
        entities = {name: [read(one, kind, name=name) for one in sent[name]] for name, kind in self._kinds.items()}
        now = self._clock.now()
        found = found_in(self.views, entities, now)
        unknown = sum(any(one is None for one in row) for row in zip(*found, strict=True))
        known = {name: column for view, some in zip(self.views, found, strict=True) for name, column in _taken(view, some)}
        for column in self._columns:
            if column.name in known and not column.takes_null and None in known[column.name]:
                raise self._null(column, known[column.name].index(None), sent)
        columns = [_numbers(one, known[one.name]) if one.name in known else sent[one.name] for one in self._columns]
        inputs = tensors_of_rows([list(row) for row in zip(*columns, strict=True)], self._model)
        looked = Looked(views=self.views, entities=entities, found=found, at=now)
        return Joined(given=inputs, unknown=unknown, entities={name: sent[name] for name in self._kinds}, looked=looked)

    def _values(self, given: Sequence[Given]) -> tuple[dict[str, list[Any]], int]:
        """What was sent, by column, as plain values."""
        if any(one.name in self.looked for one in given):
            name = next(one.name for one in given if one.name in self.looked)
            raise Invalid(f"{name!r} is looked up by this endpoint and cannot be given; it takes {', '.join(self.columns)}.")
        shaped = [Given(one.name, one.datatype, _two(one.shape), one.data) for one in given]
        datas, rows, tails, _ = self._checks.check(shaped)
        arrays = self._checks.stack([datas], rows, tails)
        return {spec.name: _plain(array, spec) for spec, array in zip(self.inputs, arrays, strict=True)}, rows

    def _null(self, column: Column, row: int, sent: dict[str, list[Any]]) -> Invalid:
        view = next(view for view in self.views if column.name in view.told.wanted)
        who = ", ".join(f"{key}={sent[key][row]!r:.60}" for key in view.keys)
        return Invalid(
            f"{column.name!r} of {view.told.reference!r} is null for {who} (row {row}), and the model's column is "
            f"{column.type}, which takes no null."
        )


def _taken(view: ReadView, found: Sequence[Found | None]) -> list[tuple[str, list[Any]]]:
    return [
        (name, [view.nothing[name] if one is None else one.values[place] for one in found])
        for name, place in view.places.items()
    ]


def _numbers(column: Column, some: list[Any]) -> list[Any]:
    """A truth is 1 or 0 where the model takes numbers."""
    return some if column.type == "boolean" else [int(one) if one is True or one is False else one for one in some]


def _two(shape: Sequence[int]) -> list[int]:
    """One value for each row may be sent without saying that it is one."""
    return [shape[0], 1] if len(shape) == 1 else list(shape)


def _plain(array: Any, spec: TensorSpec) -> list[Any]:
    elements: list[Any] = np.asarray(array).reshape(-1).tolist()
    if spec.datatype != BYTES:
        return elements
    try:
        return [one.decode() if isinstance(one, bytes) else one for one in elements]
    except UnicodeDecodeError:
        raise Invalid(f"Input {spec.name!r} is text and is not UTF-8.") from None
