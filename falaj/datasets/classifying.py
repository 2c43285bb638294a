"""Saying which columns are personal or sensitive, and finding some that look so."""

import dataclasses
import json
from collections.abc import Collection
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
        _refuse_unknown(context, dataset, {*(one.column for one in request.columns), *request.clear} - known.keys())
        asked: dict[str, str] = {one.column: one.kind for one in request.columns}
        kinds = {name: kind for column, kind in asked.items() for name in _names_of(context, dataset, column)} | asked
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


def _refuse_unknown(context: Context, dataset: Found, names: Collection[str]) -> None:
    """Where there are versions, a column is one of any that can be read."""
    schemas = [schema_of(row) for row in version_store.schemas_of(context.work, dataset.id)] if names else []
    there = {name for schema in schemas for name in schema.names}
    for name in sorted(names):
        if schemas and name not in there:
            schemas[0].column(name)


def _names_of(context: Context, dataset: Found, column: str) -> set[str]:
    """All that the same stored values are called, in whichever version: whoever asks for an earlier one finds them there."""
    called: dict[str, list[dict[str, str]]] = {}
    for row in version_store.renames_of(context.work, dataset.id):
        called.setdefault(row.part, []).append(json.loads(row.renamed) if row.renamed else {})
    alike = {
        frozenset(one.get(own, own) for one in maps) for maps in called.values() for own in {own for one in maps for own in one}
    }
    found, more = {column}, True
    while more:
        reached = found.union(*(names for names in alike if not names.isdisjoint(found)))
        found, more = reached, len(reached) > len(found)
    return found


def _shown(context: Context, dataset: Found) -> declared.Classes:
    found = store.classes_of(context.work, dataset.id)
    columns = tuple(declared.Classified(column=name, kind=_kind(kind)) for name, kind in found.items())
    return declared.Classes(dataset=dataset.name, columns=columns)


def _kind(word: str) -> declared.ColumnClass:
    return "sensitive" if word == "sensitive" else "personal"


def _told(_: Context, __: object, found: declared.Hints) -> declared.Hints:
    return found
