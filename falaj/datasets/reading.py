"""Reading versions: by a grant of keys and sealed bytes, or as rows that a data worker found."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.base.operation import Download
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.mentions import mentioned, split
from falaj.datasets.operations import reading as declared
from falaj.datasets.operations.classes import PERSONAL
from falaj.datasets.parts import Openable, Parts, first_of, opened
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import lineage_id, required_dataset, required_version, schema_of
from falaj.datasets.workers import DataWorkers
from falaj.storage.service import BlobService
from falaj.tables.orders import Bins, QueryLimits, Rows, Surveyed
from falaj.tables.schemas import Schema

T = TypeVar("T")
_MOST_TABLES: Final = 50
_AT_ONCE: Final = 500
_ANSWER: Final = 32 << 20  # bytes; larger answers are for those who read by grant


@value
class _Table:
    """A version under the name that a query has for it."""

    name: str
    version: str
    id: str
    schema: Schema
    parts: Sequence[Openable]
    masked: tuple[str, ...]


class ReadService:
    def __init__(self, database: Database, blobs: BlobService, parts: Parts, workers: DataWorkers, sight: Sight) -> None:
        self._database = database
        self._sight = sight
        self._blobs = blobs
        self._parts = parts
        self._workers = workers

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.GRANT_READ, self.grant),
            bind(declared.READ_PART, self.part),
            bind_prepared(declared.QUERY, self.query, _told),
            bind_prepared(declared.PREVIEW, self.preview, _told),
        ]

    def grant(self, context: Context, request: declared.GrantRead) -> declared.ReadGrant:
        dataset = required_dataset(context, request.dataset)
        version = required_version(context, dataset, request.version)
        if hidden := set(self._sight.masked(context, dataset)) & set(schema_of(version).names):
            raise Forbidden(
                f"{request.dataset!r} has columns that you may not see ({', '.join(sorted(hidden))}), and its keys open "
                "all of it: ask for a query or a preview, or for the permission dataset.personal.",
                rule=PERSONAL.name,
            )
        parts = self._parts.openable(context, store.parts_of(context.work, version))
        context.facts.update(dataset=dataset.id, version=version.id, number=version.number, digest=version.digest)
        return declared.ReadGrant(
            dataset=dataset.name,
            version=version.number,
            columns=schema_of(version).columns,
            rows=version.rows,
            digest=version.digest,
            lineage=lineage_id(dataset.name, version.digest),
            parts=tuple(_granted(part) for part in parts),
        )

    def part(self, context: Context, request: declared.ReadPart) -> Download:
        dataset = required_dataset(context, request.dataset)
        row = store.find_part(context.work, dataset.id, request.part)
        if row is None:
            raise NotFound(f"Dataset {request.dataset!r} has no part {request.part}.")
        reader = self._parts.openable(context, [row])[0].reader
        if request.offset > reader.size:
            raise Invalid(f"The offset {request.offset} lies behind the end of the part, which has {reader.size} bytes.")
        size = min(request.length or reader.size, reader.size - request.offset)
        return Download(chunks=reader.read(request.offset, size), size=size, name=row.id)

    def query(self, context: Context, request: declared.Query) -> declared.FoundRows:
        tables = self._reading(context, lambda inside: self._tables(inside, request))
        limits = QueryLimits(rows=request.limit, bytes=_ANSWER)
        with ExitStack() as stack:
            given = {table.name: stack.enter_context(opened(table.schema, table.parts, table.masked)) for table in tables}
            return _found(tables, self._workers.query_rows(given, request.sql, limits=limits))

    def preview(self, context: Context, request: declared.Preview) -> declared.FoundRows:
        table = self._reading(context, lambda inside: self._table(inside, request.dataset, request.dataset, request.version))
        for column in request.columns:
            table.schema.column(column)
        with opened(table.schema, first_of(table.parts, request.limit), table.masked) as given:
            return _found([table], self._workers.preview(given, rows=request.limit, columns=request.columns))

    def sample(
        self, context: Context, dataset: str, version: str, *, columns: Sequence[str], rows: int
    ) -> list[dict[str, Any]]:
        """The first rows as a preview has them, for another room whose operation lets the caller read them; none where one of
        these columns is kept from the caller."""
        table = self._reading(context, lambda inside: self._table(inside, dataset, dataset, version))
        if set(columns) & set(table.masked):
            return []
        with opened(table.schema, first_of(table.parts, rows), table.masked) as given:
            found = self._workers.preview(given, rows=rows, columns=columns)
        return [dict(zip(columns, row, strict=True)) for row in found.rows]

    def columns(self, context: Context, reference: str) -> tuple[str, Schema]:
        """Of a version such as `flights@3`: its name with its number, and the columns that the caller may see."""
        table = self._reading(context, lambda inside: self._table(inside, reference, *split(reference)))
        seen = tuple(column for column in table.schema.columns if column.name not in table.masked)
        return table.version, Schema(columns=seen)

    def survey(
        self,
        context: Context,
        reference: str,
        names: Sequence[str],
        *,
        ranks: Sequence[float] = (),
        kinds: int = 0,
        sampled: int = 0,
    ) -> dict[str, Surveyed]:
        """Where bins of these columns should lie, for another room whose operation lets the caller read them."""
        table = self._reading(context, lambda inside: self._table(inside, reference, *split(reference)))
        with opened(table.schema, table.parts, table.masked) as given:
            return self._workers.survey(given, names, ranks=ranks, kinds=kinds, sampled=sampled)

    def count(
        self, context: Context, reference: str, columns: Sequence[Bins], *, slot: str = ""
    ) -> dict[str, dict[str, tuple[int, ...]]]:
        """How many rows each bin holds, for the same."""
        table = self._reading(context, lambda inside: self._table(inside, reference, *split(reference)))
        with opened(table.schema, table.parts, table.masked) as given:
            return self._workers.count(given, columns, slot=slot)

    def _reading(self, context: Context, function: Callable[[Context], T]) -> T:
        """Before the handler's own transaction, because a worker may take long."""
        return self._database.read(lambda work: function(dataclasses.replace(context, work=work)))

    def _tables(self, context: Context, request: declared.Query) -> list[_Table]:
        references = sorted(set(request.tables)) or _there(context, mentioned(request.sql))
        if len(references) > _MOST_TABLES:
            raise Invalid(f"This query speaks of {len(references)} datasets; say in `tables` which of them it reads.")
        tables = [self._table(context, reference, *split(reference)) for reference in references]
        context.facts["versions"] = [table.id for table in tables]
        return tables

    def _table(self, context: Context, name: str, dataset: str, word: str) -> _Table:
        found = required_dataset(context, dataset)
        version = required_version(context, found, word, quarantined_too=True)
        parts = self._parts.openable(context, store.parts_of(context.work, version))
        context.facts["versions"] = [version.id]
        return _Table(
            name=name,
            version=f"{found.name}@{version.number}",
            id=version.id,
            schema=schema_of(version),
            parts=parts,
            masked=self._sight.masked(context, found),
        )


def _there(context: Context, references: frozenset[str]) -> list[str]:
    """Those whose dataset there is, and has a version: any other word is a column, a function or a word of SQL."""
    names, project = sorted({split(reference)[0] for reference in references}), context.required_project.id
    known: dict[str, Found] = {}
    for start in range(0, len(names), _AT_ONCE):
        known |= {row.name: row for row in dataset_store.named(context.work, project, names[start : start + _AT_ONCE])}
    return sorted(one for one in references if (row := known.get(split(one)[0])) is not None and (row.current or "@" in one))


def _told(_: Context, __: object, found: declared.FoundRows) -> declared.FoundRows:
    return found


def _found(tables: Sequence[_Table], rows: Rows) -> declared.FoundRows:
    return declared.FoundRows(
        versions=tuple(table.version for table in tables), columns=rows.schema.columns, rows=rows.rows, more=rows.more
    )


def _granted(part: Openable) -> declared.GrantedPart:
    return declared.GrantedPart(
        id=part.row.id,
        object=part.reader.object,
        rows=part.row.rows,
        size=part.row.size,
        digest=part.row.digest,
        key=part.reader.key.hex(),
        renamed=part.renamed,
    )
