"""Materialising a view: what is known of every entity at a moment is written to the online store, which then is that fresh.

Rows are written before the transaction, and again by whoever repeats what broke off: a row gives way to newer ones only.
"""

import dataclasses
from collections.abc import Iterator

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.features import store
from falaj.datasets.features.definitions import chosen, columns_of, columns_text
from falaj.datasets.features.serving import Online, shape_of
from falaj.datasets.features.sources import ViewSource, opened_view, refuse_hidden, versioned
from falaj.datasets.features.working import FeatureWorkers, Lines, rows_of
from falaj.datasets.online.views import Given
from falaj.datasets.operations import features as declared
from falaj.datasets.parts import Parts
from falaj.datasets.sight import Sight
from falaj.datasets.store.tables import Found
from falaj.tables.schemas import Schema


@value
class Written:
    """What is in the online store now. `outdated` are those with other columns, whose rows are gone."""

    source: ViewSource
    of: Moment
    schema: Schema
    entities: int
    written: int
    outdated: tuple[str, ...]


class MaterialiseService:
    def __init__(self, database: Database, parts: Parts, workers: FeatureWorkers, online: Online, sight: Sight) -> None:
        self._sight = sight
        self._database = database
        self._parts = parts
        self._workers = workers
        self._online = online

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.MATERIALISE, self.write, self.record)]

    def write(self, context: Context, request: declared.Materialise) -> Written:
        of = context.now if request.moment is None else request.moment
        if of > context.now:
            raise Invalid(f"{of} lies ahead: what will be known then is not known yet.")
        source, before = self._database.read(lambda work: self._read(dataclasses.replace(context, work=work), request))
        if before and before[0].of > of:
            raise Conflict(
                f"View {source.chosen.reference!r} is materialised as of {Moment(before[0].of)} already: it only goes forward."
            )
        self._online.prepare_key(context, source.of.dataset.zone)
        with opened_view(source) as table:
            lines = self._workers.materialised(table, of)
        with lines.file:
            written = self._put(context, source, lines, of)
        outdated = self._drop_outdated(context, source, before[1:])
        return Written(source=source, of=of, schema=lines.schema, entities=lines.rows, written=written, outdated=outdated)

    def record(self, context: Context, request: declared.Materialise, done: Written) -> declared.Materialised:
        row = done.source.chosen.row
        kept = {
            "view": row.id,
            "shape": shape_of(done.schema.columns),
            "project": row.project,
            "zone": done.source.of.dataset.zone,
            "dataset": done.source.of.dataset.id,
            "columns": columns_text(done.schema),
            "source": done.source.of.reference,
            "of": done.of,
            "rows": done.entities,
        }
        store.drop_materialised(context.work, row.id, set(done.outdated) - {kept["shape"]})
        store.keep_materialised(context.work, kept)
        context.facts.update(view=row.id, version=done.source.of.version.id, moment=str(done.of), entities=done.entities)
        return declared.Materialised(
            view=done.source.chosen.reference,
            moment=done.of,
            source=done.source.of.reference,
            entities=done.entities,
            written=done.written,
        )

    def _read(self, context: Context, request: declared.Materialise) -> tuple[ViewSource, list[Found]]:
        one = chosen(context, [request.view])[0]
        source = ViewSource(chosen=one, of=versioned(context, self._parts, one.dataset))
        refuse_hidden(context, self._sight, source.of.dataset, one.view.columns())
        return source, list(store.materialised_as(context.work, one.row.id))

    def _put(self, context: Context, source: ViewSource, lines: Lines, of: Moment) -> int:
        view = source.chosen.view
        kept = self._database.read(
            lambda work: self._online.view(
                dataclasses.replace(context, work=work),
                source.chosen.row.id,
                view,
                source.of.dataset.zone,
                lines.schema.columns,
            )
        )
        written = kept.write(_given(lines, len(view.keys)), of=of)
        kept.complete(of)
        kept.drop(before=of)
        return written

    def _drop_outdated(self, context: Context, source: ViewSource, outdated: list[Found]) -> tuple[str, ...]:
        """Of rows with other columns those that nobody reads any more, since others are newer."""
        for row in outdated:
            kept = self._database.read(
                lambda work, row=row: self._online.view(  # type: ignore[misc]
                    dataclasses.replace(context, work=work), row.view, source.chosen.view, row.zone, columns_of(row.columns)
                )
            )
            kept.drop()
        return tuple(row.shape for row in outdated)


def _given(lines: Lines, keys: int) -> Iterator[Given]:
    for row in rows_of(lines):
        event = row[-1]
        yield Given(row[:keys], None if event is None else row[keys:-1], event)
