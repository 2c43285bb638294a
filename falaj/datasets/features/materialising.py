"""Materialising a view: what is known of every entity at a moment is written to the online store, which then is that fresh.

Rows are written before the transaction that makes them count. Who begins says so first: whoever comes after one that was
killed, or comes between, knows that rows of two moments may lie there, and writes everything. `catching_up` decides what is
read.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid
from falaj.base.failpoints import failpoint
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.features.catching_up import Reads, Round, planned
from falaj.datasets.features.definitions import chosen, columns_of, columns_text, required_view
from falaj.datasets.features.derived import DerivedViews, rows_now
from falaj.datasets.features.serving import Online, shape_of
from falaj.datasets.features.sources import ViewSource, opened_view, refuse_hidden, versioned
from falaj.datasets.features.working import FeatureWorkers, Lines, rows_of
from falaj.datasets.online.views import Given, OnlineView
from falaj.datasets.operations import features as declared
from falaj.datasets.parts import Parts
from falaj.datasets.sight import Sight
from falaj.datasets.store import kept_features as store
from falaj.datasets.store.tables import Found
from falaj.tables.schemas import Column


@value
class Asked:
    """A round before it begins: `writer` is what it is known by."""

    source: ViewSource
    of: Moment
    places: tuple[Found, ...]
    writer: str


@value
class Written:
    """What is in the online store now, as its place will say. `outdated` are those with other columns, whose rows are gone."""

    asked: Asked
    reads: Reads
    place: dict[str, Any]
    written: int
    outdated: tuple[str, ...]


class MaterialiseService:
    def __init__(
        self, database: Database, parts: Parts, workers: FeatureWorkers, online: Online, sight: Sight, derived: DerivedViews
    ) -> None:
        self._derived = derived
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
        fresh = self._derived.fresh(context, [request.view])
        asked, due = self._database.read(lambda work: self._read(dataclasses.replace(context, work=work), request, of, fresh))
        self._online.prepare_key(context, asked.source.of.dataset.zone)
        if request.whole or not self._is_there(context, asked, due):
            due = Round(reads=Reads.EVERYTHING)
        done = self._done(context, asked, due) or self._done(context, asked, Round(reads=Reads.EVERYTHING))
        if done is None:
            raise RuntimeError("a round that reads everything begins with nothing")
        return done

    def record(self, context: Context, request: declared.Materialise, done: Written) -> declared.Materialised:
        asked, row = done.asked, done.asked.source.chosen.row
        required_view(context, f"{row.name}@{row.version}")
        place = store.find_place(context.work, row.id, done.place["shape"])
        if place is None or place.writer != asked.writer:
            raise Conflict(
                f"View {asked.source.chosen.reference!r} was materialised by somebody else meanwhile; look, and repeat."
            )
        store.drop_places(context.work, row.id, done.outdated)
        finished = {name: told for name, told in done.place.items() if name not in ("view", "shape")}
        store.change_place(context.work, row.id, done.place["shape"], **finished)
        source, entities = asked.source.of, done.place["rows"]
        context.facts.update(view=row.id, version=source.version.id, moment=str(asked.of), entities=entities)
        return declared.Materialised(
            view=asked.source.chosen.reference,
            moment=asked.of,
            source=source.reference,
            entities=entities,
            written=done.written,
            read=done.reads.value,
        )

    # Before anything is written

    def _read(
        self, context: Context, request: declared.Materialise, of: Moment, fresh: Mapping[str, str]
    ) -> tuple[Asked, Round]:
        one = chosen(context, [request.view])[0]
        source = ViewSource(chosen=one, of=versioned(context, self._parts, rows_now(one, fresh)))
        refuse_hidden(context, self._sight, source.of.dataset, one.view.columns())
        places = tuple(store.places_of(context.work, one.row.id))
        for place in places:
            _refuse_backward(source, place, of)
        asked = Asked(source=source, of=of, places=places, writer=new_id(context.now))
        return asked, planned(context, source, places, of)

    def _is_there(self, context: Context, asked: Asked, due: Round) -> bool:
        """Whether the store still has what it is to be brought up to date from, and nothing that came later: a database that
        was put back from a backup knows less than its store."""
        if due.base is None:
            return True
        found = self._view(context, asked, due.base.zone, columns_of(due.base.columns)).freshness()
        later = found.newest is not None and found.newest > due.base.of
        return found.complete == due.base.of and not later and found.rows == due.base.rows

    # Writing

    def _done(self, context: Context, asked: Asked, due: Round) -> Written | None:
        """None where somebody else came between, so that there is nothing left to bring up to date."""
        if due.reads is Reads.NOTHING and due.base is not None:
            return self._put(context, asked, due, columns_of(due.base.columns), None)
        source = asked.source
        if due.reads is Reads.APPENDED:
            source = dataclasses.replace(source, of=dataclasses.replace(source.of, parts=source.of.parts[due.parts :]))
        since = (due.base.of, due.parts) if due.base is not None and due.reads is Reads.CHANGED else None
        with opened_view(source) as table:
            lines = self._workers.materialised(table, asked.of, since)
        with lines.file:
            return self._put(context, asked, due, lines.schema.columns, lines)

    def _put(
        self, context: Context, asked: Asked, due: Round, columns: Sequence[Column], lines: Lines | None
    ) -> Written | None:
        place = _place(asked, columns)
        if not self._database.write(lambda work: _begun(dataclasses.replace(context, work=work), asked, due, place)):
            return None
        failpoint("features.round-begun")
        kept, written = self._view(context, asked, asked.source.of.dataset.zone, columns), 0
        if lines is not None:
            given = _given(lines, len(asked.source.chosen.view.keys))
            written = kept.write(given, of=asked.of, newer_only=due.reads is Reads.APPENDED)
        failpoint("features.rows-written")
        self._refuse_deleted(asked, place["shape"], kept)
        kept.complete(asked.of)
        if due.reads is Reads.EVERYTHING:
            kept.drop(before=asked.of)
        outdated = self._drop_outdated(context, asked, place["shape"])
        failpoint("features.round-completed")
        ended = _ended(due, lines, kept.freshness().rows)
        return Written(asked=asked, reads=due.reads, place=place | ended, written=written, outdated=outdated)

    def _refuse_deleted(self, asked: Asked, shape: str, kept: OnlineView) -> None:
        """A view that was deleted while it was written leaves nothing behind."""
        row = asked.source.chosen.row
        if not self._database.read(lambda work: [one for one in store.places_of(work, row.id) if one.shape == shape]):
            kept.drop()
            raise Conflict(f"View {asked.source.chosen.reference!r} was deleted while it was materialised.")

    def _drop_outdated(self, context: Context, asked: Asked, shape: str) -> tuple[str, ...]:
        """Of rows with other columns those that nobody reads any more, since others are newer."""
        outdated = [one for one in asked.places[1:] if one.shape != shape and (one.begun is None or one.begun <= asked.of)]
        for row in outdated:
            self._view(context, asked, row.zone, columns_of(row.columns)).drop()
        return tuple(row.shape for row in outdated)

    def _view(self, context: Context, asked: Asked, zone: str, columns: Sequence[Column]) -> OnlineView:
        one = asked.source.chosen
        return self._database.read(
            lambda work: self._online.view(dataclasses.replace(context, work=work), one.row.id, one.view, zone, columns)
        )


def _place(asked: Asked, columns: Sequence[Column]) -> dict[str, Any]:
    """Of rows with these columns, as it is while they are written."""
    return {
        "view": asked.source.chosen.row.id,
        "shape": shape_of(columns),
        "project": asked.source.chosen.row.project,
        "zone": asked.source.of.dataset.zone,
        "dataset": asked.source.of.dataset.id,
        "columns": columns_text(columns),
        "source": asked.source.of.reference,
        "of": asked.of,
        "rows": 0,
        "writer": asked.writer,
        "begun": asked.of,
        "begun_from": asked.source.of.reference,
    }


def _begun(context: Context, asked: Asked, due: Round, place: dict[str, Any]) -> bool:
    """Say that rows will be written. False where what they were to bring up to date is something else now."""
    row = asked.source.chosen.row
    required_view(context, f"{row.name}@{row.version}")
    held = store.held_place(context.work, place | {"of": None, "source": ""})
    _refuse_backward(asked.source, held, asked.of)
    base = due.base
    if base is not None and (held.of, held.source, held.writer) != (base.of, base.source, base.writer):
        return False
    begun = {name: place[name] for name in ("writer", "begun", "begun_from")}
    store.change_place(context.work, row.id, place["shape"], **begun)
    return True


def _ended(due: Round, lines: Lines | None, rows: int) -> dict[str, Any]:
    """What its place says once all rows are written. What was not read again is as it was."""
    base = due.base
    newest, changes = (None, None) if lines is None else (lines.newest, lines.changes)
    if base is not None and due.reads in (Reads.APPENDED, Reads.NOTHING):
        newest = max((one for one in (newest, base.newest) if one is not None), default=None)
        changes = min((one for one in (changes, base.changes) if one is not None), default=None)
    return {"rows": rows, "newest": newest, "changes": changes, "writer": "", "begun": None, "begun_from": ""}


def _refuse_backward(source: ViewSource, place: Found, of: Moment) -> None:
    """A row gives way to one of a later moment only, so what was begun of a moment can only be repeated or left behind."""
    done = (place.of, place.source) if place.of is not None else (None, "")
    begun = (place.begun, place.begun_from) if place.writer else (None, "")
    for moment, read in (done, begun):
        if moment is not None and moment > of:
            raise Conflict(
                f"View {source.chosen.reference!r} is materialised as of {Moment(moment)} already: it only goes forward."
            )
        if moment == of and read != source.of.reference:
            raise Conflict(
                f"View {source.chosen.reference!r} was materialised as of {of} from {read!r}, which is not what it would read "
                "now: choose a later moment."
            )


def _given(lines: Lines, keys: int) -> Iterator[Given]:
    for row in rows_of(lines):
        *values, event, known = row
        yield Given(values[:keys], None if event is None else values[keys:], event, known)
