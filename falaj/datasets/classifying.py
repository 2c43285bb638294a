"""Saying which columns are personal or sensitive, and finding some that look so."""

import dataclasses
from typing import Final

from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.detecting import hints, looked_at, question
from falaj.datasets.operations import classes as declared
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import OneVersion
from falaj.datasets.parts import Openable, Parts, opened
from falaj.datasets.store import classes as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.datasets.workers import DataWorkers
from falaj.tables.orders import QueryLimits
from falaj.tables.schemas import Schema

_LIMITS: Final = QueryLimits(rows=1)


class ClassService:
    def __init__(self, database: Database, parts: Parts, workers: DataWorkers) -> None:
        self._database = database
        self._parts = parts
        self._workers = workers

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CLASSIFY_COLUMNS, self.classify),
            bind(declared.SHOW_CLASSES, self.show),
            bind_prepared(declared.HINT_CLASSES, self.hints, _told),
        ]

    def classify(self, context: Context, request: declared.ClassifyColumns) -> declared.Classes:
        dataset = required_dataset(context, request.dataset, hold=True)
        known = store.classes_of(context.work, dataset.id)
        if dataset.current:
            schema = schema_of(required_version(context, dataset, "current"))
            for name in (*(one.column for one in request.columns), *request.clear):
                if name not in known:
                    schema.column(name)
        kinds: dict[str, str] = {one.column: one.kind for one in request.columns}
        store.change(context.work, dataset.id, kinds, request.clear)
        context.facts["dataset"] = dataset.id
        return _shown(context, dataset)

    def show(self, context: Context, request: OneDataset) -> declared.Classes:
        return _shown(context, required_dataset(context, request.dataset))

    def hints(self, context: Context, request: OneVersion) -> declared.Hints:
        """How many values are of a kind is all that is told of them."""
        number, schema, parts, known = self._database.read(
            lambda work: self._read(dataclasses.replace(context, work=work), request)
        )
        columns = [column for column in schema.columns if column.name not in known]
        asked, answer = looked_at(columns), ()
        if asked:
            with opened(schema, parts) as table:
                sql = question(request.dataset, asked)
                answer = self._workers.query_rows({request.dataset: table}, sql, limits=_LIMITS).rows[0]
        return declared.Hints(dataset=request.dataset, version=number, hints=hints(columns, asked, answer))

    def _read(self, context: Context, request: OneVersion) -> tuple[int, Schema, tuple[Openable, ...], set[str]]:
        dataset = required_dataset(context, request.dataset)
        version = required_version(context, dataset, request.version, quarantined_too=True)
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number)
        parts = self._parts.openable(context, version_store.parts_of(context.work, version))
        return version.number, schema_of(version), parts, set(store.classes_of(context.work, dataset.id))


def _shown(context: Context, dataset: Found) -> declared.Classes:
    found = store.classes_of(context.work, dataset.id)
    columns = tuple(declared.Classified(column=name, kind=_kind(kind)) for name, kind in found.items())
    return declared.Classes(dataset=dataset.name, columns=columns)


def _kind(word: str) -> declared.ColumnClass:
    return "sensitive" if word == "sensitive" else "personal"


def _told(_: Context, __: object, found: declared.Hints) -> declared.Hints:
    return found
