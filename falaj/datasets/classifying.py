"""Saying which columns are personal or sensitive, and finding some that look so."""

import dataclasses
from collections.abc import Collection
from typing import Final

from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.carrying import carry, names_of, spelled
from falaj.datasets.detecting import hints, looked_at, question
from falaj.datasets.operations import classes as declared
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import OneVersion
from falaj.datasets.parts import Openable, Parts, first_of, opened
from falaj.datasets.store import classes as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.datasets.workers import DataWorkers
from falaj.tables.orders import QueryLimits
from falaj.tables.schemas import Schema

_FAR_ROWS: Final = 100_000  # of what would have to be fetched to be looked at
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
        _refuse_unknown(context, dataset, {*(one.column for one in request.columns), *request.clear} - known.keys())
        asked: dict[str, str] = {one.column: one.kind for one in request.columns}
        kinds = {name: kind for column, kind in asked.items() for name in names_of(context, dataset.id, column)} | asked
        store.change(
            context.work, dataset.id, kinds, spelled(context, dataset.id, request.clear) | _classed(known, request.clear)
        )
        carried = carry(context, dataset.id, kinds)
        context.facts.update(dataset=dataset.id, carried=sorted(carried))
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
            far = any(part.row.elsewhere for part in parts)
            with opened(schema, first_of(parts, _FAR_ROWS) if far else parts) as table:
                sql = question(request.dataset, asked)
                answer = self._workers.query_rows({request.dataset: table}, sql, limits=_LIMITS).rows[0]
        return declared.Hints(dataset=request.dataset, version=number, hints=hints(columns, asked, answer))

    def _read(self, context: Context, request: OneVersion) -> tuple[int, Schema, tuple[Openable, ...], Collection[str]]:
        dataset = required_dataset(context, request.dataset)
        version = required_version(context, dataset, request.version, quarantined_too=True)
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number)
        parts = self._parts.openable(context, version_store.parts_of(context.work, version))
        return version.number, schema_of(version), parts, store.classes_of(context.work, dataset.id)


def _refuse_unknown(context: Context, dataset: Found, names: Collection[str]) -> None:
    """Where there are versions, a column is one of any that can be read."""
    schemas = [schema_of(row) for row in version_store.schemas_of(context.work, dataset.id)] if names else []
    there = {name.casefold() for schema in schemas for name in schema.names}
    for name in sorted(names):
        if schemas and name.casefold() not in there:
            schemas[0].column(name)


def _classed(known: Collection[str], names: Collection[str]) -> set[str]:
    """Those of the classified columns that are among these, however they are spelled."""
    folded = {name.casefold() for name in names}
    return {name for name in known if name.casefold() in folded}


def _shown(context: Context, dataset: Found) -> declared.Classes:
    found = store.classes_of(context.work, dataset.id)
    names = sorted(spelled(context, dataset.id, found))
    columns = tuple(declared.Classified(column=name, kind=_kind(found[name])) for name in names)
    return declared.Classes(dataset=dataset.name, columns=columns)


def _kind(word: str) -> declared.ColumnClass:
    return "sensitive" if word == "sensitive" else "personal"


def _told(_: Context, __: object, found: declared.Hints) -> declared.Hints:
    return found
