"""Windows that are over: their pieces put together, learnt from or decided on, and kept; alerts raised in the same transaction.

Reading and sealing happen outside any transaction; what was worked out counts only if nobody changed the reference meanwhile.
"""

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import Misconfigured, TemporaryError
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import deciding, keeping, pieces, references, together, upstream
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.deciding import Outcome, Standing
from falaj.monitoring.estimating import Estimating
from falaj.monitoring.explaining import Where
from falaj.monitoring.finding import GONE
from falaj.monitoring.learning import learnt
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.pieces import Merged
from falaj.monitoring.plane.frames import CONFIDENCE
from falaj.monitoring.raising import Raising
from falaj.monitoring.references import Reference, is_of, slot_of
from falaj.monitoring.sealing import REFERENCE, WINDOW, Documents, inside
from falaj.monitoring.sightings import Around, began, found, is_skewed, is_unlike, missing_rise, plain, sightings
from falaj.monitoring.sightings import Found as Seen
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.together import Together
from falaj.monitoring.views import read_wishes
from falaj.serving.counts import capped
from falaj.serving.operations.words import WHOLE
from falaj.serving.splits import read_arms, share_of
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import states

log = logging.getLogger(__name__)
GRACE: Final = 12 * SECOND  # planes tell what they saw within this time
KEPT_FOR: Final = 90 * DAY
AT_ONCE: Final = 50
_LATE: Final = 60 * SECOND  # what comes so long after its window was kept back: planes could not tell it
_AGAIN: Final = 30 * SECOND  # after what could not be read or written just now
_TRIES: Final = 5  # of one window that something unexpected fails in
_MOST_ROWS: Final = 2**44  # of one window, whatever planes say: many such still add up to what a database takes


@value
class _Loaded:
    """A window that is over, with all it takes to decide on it."""

    project: Project
    monitor: Found
    endpoint: Found
    row: Found
    wishes: Wishes
    reference: Reference
    standing: Standing
    together: Together
    window: Merged
    pieces: tuple[Found, ...]
    earlier: tuple[Found, ...]  # windows before it in the same slot, the newest first

    @property
    def slot(self) -> str:
        return slot_of(self.window.at, self.wishes.season, self.wishes.timezone)


@value
class _Worked:
    """What came out of a window. `reference` is what it is after that."""

    reference: Reference
    standing: Standing
    together: Together
    outcomes: tuple[Outcome, ...]
    seen: Seen


class Closing:
    """Under a lease: one control plane at a time closes windows."""

    def __init__(self, database: Database, documents: Documents, raising: Raising, estimating: Estimating) -> None:
        self._database, self._documents, self._raising = database, documents, raising
        self._estimating = estimating
        self._later: dict[str, int] = {}  # monitors that something failed for, and until when
        self._failed: dict[str, tuple[int, int, int]] = {}  # and in which window of theirs, how often

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        self._later = {monitor: at for monitor, at in self._later.items() if at > now}
        due = self._database.read(
            lambda work: window_store.due(work, Moment(now - GRACE), AT_ONCE, self._later, old=now - _LATE)
        )
        for one in due:
            if one.monitor not in self._later:
                self._close(one.monitor, one.revision, one.at, now)
        return len(due) == AT_ONCE

    def clean(self, now: Moment) -> bool:
        """Forget what is too old; whether there is more."""

        def forget(work: UnitOfWork) -> bool:
            old = window_store.older_than(work, Moment(now - KEPT_FOR), AT_ONCE)
            for project in {row.project for row in old}:
                mine = [row for row in old if row.project == project]
                if (known := project_by_id(work, project)) is not None:
                    keeping.drop_windows(self._documents, inside(work, known, "", now), mine)
                else:
                    window_store.drop(work, mine)
            return len(old) == AT_ONCE

        return self._database.write(forget)

    def _close(self, monitor: str, revision: int, at: int, now: Moment) -> None:
        """What cannot be read just now waits, and with it all later windows of the monitor; what never can is given up, and so
        is what fails again and again: one window that is odd must not blind a monitor."""
        *window, failures = self._failed.get(monitor, (0, 0, 0))
        failures = failures if window == [revision, at] else 0
        try:
            if failures >= _TRIES or not self._is_closed(monitor, revision, at, now):
                self._database.write(lambda work: self._give_up(work, monitor, revision, at, now))
            self._failed.pop(monitor, None)
        except (TemporaryError, Misconfigured) as error:
            log.warning("windows of monitor %s wait: %s", monitor, error)
            self._later[monitor] = now + _AGAIN
        except Exception:  # what is odd about one monitor must not end the watching of all others
            log.exception("windows of monitor %s wait", monitor)
            self._later[monitor], self._failed[monitor] = now + _AGAIN, (revision, at, failures + 1)

    def _is_closed(self, monitor: str, revision: int, at: int, now: Moment) -> bool:
        try:
            return self._try(monitor, revision, at, now)
        except GONE as error:
            log.warning("a window of monitor %s is given up: %s", monitor, error)
            return False

    def _try(self, monitor: str, revision: int, at: int, now: Moment) -> bool:
        """False where there is nothing to close: it came too late, or is of nothing that is watched."""
        loaded = self._database.read(lambda work: self._load(work, monitor, revision, at, now))
        if loaded is None:
            return False
        worked = self._worked_out(loaded, now)
        told, private = self._database.read(lambda work: (self._sightings(work, loaded, worked, now), _private(work, loaded)))
        zone = loaded.row.zone
        sealed = self._documents.receive(loaded.project, zone, pieces.encode(loaded.window))
        moved = worked.reference != loaded.reference
        written = self._documents.receive(loaded.project, zone, references.encode(worked.reference)) if moved else None

        def enter(work: UnitOfWork) -> None:
            held = (
                None if store.by_id(work, monitor, hold=True) is None else store.reference(work, monitor, revision, hold=True)
            )
            if held is None or (held.key, held.closed) != (loaded.row.key, loaded.row.closed):
                return  # somebody changed it meanwhile: the next round decides anew
            context = inside(work, loaded.project, zone, now)
            blob = self._documents.keep(context, sealed, WINDOW, keeping.window_id(monitor, revision, at))
            window_store.add(work, _row(loaded, worked, private, blob))
            store.put_standing(work, monitor, revision, loaded.slot, deciding.encode(worked.standing))
            changes: dict[str, Any] = {"standing": keeping.standing_written(worked.reference, worked.together), "closed": at}
            if written is not None:
                owner = keeping.reference_id(monitor, revision)
                self._documents.drop(context, REFERENCE, owner)
                changes |= {"blob": self._documents.keep(context, written, REFERENCE, owner), "key": worked.reference.key}
            store.change_reference(work, monitor, revision, **changes)
            if worked.reference.key != loaded.reference.key:
                states.bump(work, zone, PURPOSE, now)
            keeping.drop_pieces(self._documents, context, loaded.pieces)
            self._raising.sight(context, loaded.monitor, told)

        self._database.write(enter)
        return True

    def _load(self, work: UnitOfWork, monitor: str, revision: int, at: int, now: Moment) -> _Loaded | None:
        row, row_of = store.by_id(work, monitor), store.reference(work, monitor, revision)
        project = None if row is None else project_by_id(work, row.project)
        endpoint = None if row is None else endpoint_store.find_by_id(work, row.endpoint)
        if row is None or row_of is None or project is None or endpoint is None or at <= row_of.closed:
            return None
        wishes = read_wishes(row.wishes)
        if at % (wishes.window * SECOND):  # of windows as they were before
            return None
        context, its_pieces = inside(work, project, row_of.zone, now), window_store.pieces_of(work, monitor, revision, at)
        told = [one for piece in its_pieces for one in pieces.decode_pieces(self._documents.read(context, piece.blob))]
        mine = [one for one in told if one.revision == revision and one.at == at]
        slot = slot_of(at, wishes.season, wishes.timezone)
        standing = deciding.decode(store.standing(work, monitor, revision, slot))
        return _Loaded(
            project=project,
            monitor=row,
            endpoint=endpoint,
            row=row_of,
            wishes=wishes,
            reference=self._documents.reference(context, row_of.blob),
            standing=standing,
            together=keeping.together_read(row_of),
            window=pieces.merged(at, wishes.window, row_of.key, mine),
            pieces=tuple(its_pieces),
            earlier=tuple(window_store.that_began(work, monitor, revision, standing.starts)),
        )

    def _worked_out(self, loaded: _Loaded, now: Moment) -> _Worked:
        window, reference, slot = loaded.window, loaded.reference, loaded.slot
        columns = {one.label: one for one in reference.columns}

        def counts_of(label: str, some: Merged) -> tuple[int, ...]:
            one = columns[label]
            return some.column(one.name, is_output=one.is_output).counts

        before = [row for row in loaded.earlier if is_of(row.key, loaded.row.key)]  # held against the same reference
        read: list[Merged | None] = []

        def last(many: int) -> list[Merged]:
            """This window, and so many less one before it."""
            if wanted := before[len(read) : many - 1]:
                read.extend(self._database.read(lambda work: self._windows(work, loaded, wanted, now)))
            return [window, *(one for one in read[: many - 1] if one is not None)]

        def pooled(label: str, back: int) -> Sequence[int]:
            parts = [counts_of(label, one) for one in last(back)]
            same = [one for one in parts if len(one) == len(parts[0])]
            return tuple(map(sum, zip(*same, strict=True)))

        of_columns, of_rows = together.rules(loaded.wishes)
        counts = {label: counts_of(label, window) for label in columns}
        standing, outcomes = deciding.decided(reference, loaded.standing, slot, counts, of_columns, pooled)
        seen = found(reference, outcomes, pooled, slot, loaded.wishes.floor, window)
        back = together.due(loaded.together, window, reference) if of_rows is not None else 0
        apart = together.waited(loaded.together, window)
        if seen.moved:
            apart = together.NOTHING_YET  # rows differ by what a column shows by itself: they tell nothing more
        elif back and of_rows is not None:
            apart = together.told(reference, last(back), of_rows)
        return _Worked(
            reference=learnt(reference, window, slot, loaded.wishes),
            standing=deciding.begun(standing, window.at),
            together=apart,
            outcomes=tuple(outcomes),
            seen=seen,
        )

    def _windows(self, work: UnitOfWork, loaded: _Loaded, rows: Sequence[Found], now: Moment) -> list[Merged | None]:
        context = inside(work, loaded.project, loaded.row.zone, now)
        return [self._window(context, row.blob) for row in rows]

    def _window(self, context: Context, blob: str) -> Merged | None:
        """None of one that nobody will read again."""
        try:
            return pieces.decode(self._documents.read(context, blob))
        except GONE:
            return None

    def _sightings(self, work: UnitOfWork, loaded: _Loaded, worked: _Worked, now: Moment) -> list[Sighting]:
        """Nothing is looked up where there is nothing to tell."""
        changed, newest = upstream.changed_columns(work, loaded.project.id, loaded.reference)
        last = worked.together.last
        apart = last if last is not None and last.drifting else None
        seen = replace(worked.seen, changed=changed, newest=newest, apart=apart)
        if not seen.is_any:
            return []
        since = began(seen.moved, loaded.standing.starts, loaded.window.at)
        where = Where(
            revision=loaded.row.revision,
            source=loaded.reference.source,
            share=share_of(read_arms(loaded.endpoint.arms), loaded.row.revision) / WHOLE,
            rows=loaded.window.rows,
            missed=loaded.window.missed,
            since=since,
            skewed=is_skewed(loaded.reference, seen.inputs),
        )
        happened = upstream.happened(work, loaded.project.id, loaded.endpoint, loaded.reference, loaded.row.revision, since)
        around = Around(
            where=where,
            happened=happened,
            private=_private_columns(work, loaded),
            estimate=self._estimate(work, loaded, seen, now),
            facts={"source": loaded.reference.source, "late": loaded.row.late},
        )
        return sightings(seen, around)

    def _estimate(self, work: UnitOfWork, loaded: _Loaded, seen: Seen, now: Moment) -> str:
        """What this probably does to the accuracy, where enough labels have come to know."""
        sure = next((one for one in loaded.reference.columns if one.is_output and one.name == CONFIDENCE), None)
        if sure is None:
            return ""
        counts = loaded.window.column(CONFIDENCE, is_output=True).counts
        context = inside(work, loaded.project, loaded.row.zone, now)
        estimate = self._estimating.of(context, loaded.endpoint, loaded.row.revision, sure, counts)
        if estimate is not None and is_unlike(loaded.reference, seen.inputs):
            return "Its likely effect cannot be estimated: these rows are unlike those that labels are known of."
        return "" if estimate is None else f"Its likely effect: {estimate}."

    def _give_up(self, work: UnitOfWork, monitor: str, revision: int, at: int, now: Moment) -> None:
        """What came too late, or cannot be read any more."""
        its_pieces = window_store.pieces_of(work, monitor, revision, at)
        row = store.reference(work, monitor, revision, hold=True)
        project = project_by_id(work, its_pieces[0].project) if its_pieces else None
        if project is None:
            window_store.drop_pieces(work, [one.id for one in its_pieces])
            return
        if row is not None:
            store.change_reference(work, monitor, revision, late=capped(row.late, *(one.rows for one in its_pieces)))
        keeping.drop_pieces(self._documents, inside(work, project, "" if row is None else row.zone, now), its_pieces)


def _private(work: UnitOfWork, loaded: _Loaded) -> frozenset[str]:
    """What people call the columns of which no share is told."""
    names = _private_columns(work, loaded)
    return frozenset(one.label for one in loaded.reference.columns if one.name in names)


def _private_columns(work: UnitOfWork, loaded: _Loaded) -> frozenset[str]:
    return upstream.private_columns(
        work, loaded.project.id, loaded.endpoint, loaded.row.revision, loaded.reference, loaded.wishes
    )


def _row(loaded: _Loaded, worked: _Worked, private: Collection[str], blob: str) -> dict[str, Any]:
    window, missing = loaded.window, [one for one in worked.seen.missing if one.column.label not in private]
    told = {
        "columns": [plain(one, hidden=one.column in private) for one in worked.outcomes],
        "over": {one.column: one.over for one in worked.outcomes},
        "missing": {one.column.label: round(missing_rise(one), 4) for one in missing},
    }
    return {
        "monitor": loaded.monitor.id,
        "revision": loaded.row.revision,
        "at": window.at,
        "project": loaded.project.id,
        "until": window.at + window.seconds * SECOND,
        "key": loaded.row.key,
        "rows": min(window.rows, _MOST_ROWS),
        "missed": min(window.missed, _MOST_ROWS),
        "found": json.dumps(told),
        "blob": blob,
    }
