"""Rows as messages, whole pages at a time."""

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import NotFound
from falaj.database.work import Context
from falaj.monitoring.operations.alerts import Action, Alert, Sent
from falaj.monitoring.operations.monitors import Monitor, RowsTogether, Watching, Window, Wishes
from falaj.monitoring.operations.words import Told
from falaj.monitoring.references import is_of
from falaj.monitoring.store import alerts as alert_store
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import Found
from falaj.registry.views import people
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import planes as plane_store
from falaj.serving.store import states
from falaj.serving.views import HEARD_WITHIN, required_endpoint

QUIET_AFTER: Final = 5  # windows without traffic
MOST_SENT: Final = 50  # messages of one alert that are shown, the last ones


def read_wishes(text: str) -> Wishes:
    return msgspec.json.decode(text, type=Wishes)


def wishes_written(wishes: Wishes) -> str:
    return msgspec.json.encode(wishes).decode()


def required_monitor(context: Context, endpoint: str, *, hold: bool = False) -> tuple[Found, Found]:
    """The endpoint and its monitor."""
    row = required_endpoint(context, endpoint)
    found = store.find(context.work, row.id, hold=hold)
    if found is None:
        raise NotFound(f"The endpoint {endpoint!r} is not watched; `falaj monitor apply {endpoint}` begins it.")
    return row, found


def required_alert(context: Context, id: str, *, hold: bool = False) -> Found:
    found = alert_store.find(context.work, context.required_project.id, id, hold=hold)
    if found is None:
        raise NotFound(f"There is no alert {id} here.")
    return found


def told_of(found: str) -> tuple[Told, ...]:
    """What a window's row says, the furthest first."""
    columns = [Told(**one) for one in json.loads(found)["columns"]]
    return tuple(sorted(columns, key=lambda one: (not one.drifting, -one.effect)))


def measured_over(found: str, column: str) -> int:
    """So many windows a column's effect was measured over; 1 where nothing was measured."""
    return int(json.loads(found).get("over", {}).get(column, 1))


def missing_rises(found: str) -> dict[str, float]:
    """Of the columns that a window's row says are missing more often, as much as matters and beyond chance: by how much."""
    return dict(json.loads(found).get("missing", {}))


def rows_drift(standing: str) -> bool:
    """Whether rows as a whole did when they were last told apart from a reference's."""
    last = json.loads(standing or "{}").get("together", {}).get("last")
    return last is not None and bool(last["drifting"])


def window_shown(row: Found) -> Window:
    return Window(at=Moment(row.at), until=Moment(row.until), rows=row.rows, missed=row.missed, columns=told_of(row.found))


def monitors_shown(context: Context, rows: Sequence[Found]) -> tuple[Monitor, ...]:
    ids = [row.id for row in rows]
    work = context.work
    references = store.references_of(work, ids)
    numbers, open_alerts = window_store.counts(work, ids), alert_store.open_counts(work, ids)
    names = {row.id: endpoint_store.find_by_id(work, row.endpoint) for row in rows}
    behind = _planes_behind(context, {row.zone for row in names.values() if row is not None})
    persons = people(work, {row.changed_by for row in rows})
    shown = []
    for row in rows:
        endpoint = names[row.id]
        if endpoint is None:
            continue
        wishes = read_wishes(row.wishes)
        watching = tuple(_watching(context, one, numbers) for one in references.get(row.id, ()))
        shown.append(
            Monitor(
                id=row.id,
                endpoint=endpoint.name,
                wishes=wishes,
                health=_health(watching, wishes, context.now),
                open_alerts=open_alerts.get(row.id, 0),
                behind=behind[endpoint.zone],
                watching=watching,
                created=Moment(row.created),
                changed=Moment(row.changed),
                changed_by=persons[row.changed_by],
            )
        )
    return tuple(shown)


def _planes_behind(context: Context, zones: set[str]) -> dict[str, int]:
    planes = plane_store.in_zones(context.work, zones, heard_since=Moment(context.now - HEARD_WITHIN))
    serials = {row.zone: row.serial for row in states.all_zones(context.work)}
    return {zone: sum(one.serial < serials.get(zone, 0) for one in planes.get(zone, ())) for zone in zones}


def _watching(context: Context, row: Found, numbers: dict[tuple[str, int], int]) -> Watching:
    newest = next(iter(window_store.last(context.work, row.monitor, row.revision, 0, 1)), None)
    # What was held against another reference says nothing of this one.
    last = newest if newest is not None and is_of(newest.key, row.key) else None
    state: dict[str, Any] = json.loads(row.standing or "{}")
    return Watching(
        revision=row.revision,
        source=state.get("source", ""),
        columns=() if last is None else told_of(last.found),
        learning=tuple(state.get("learning", ())),
        learnt=state.get("learnt", 0),
        windows=numbers.get((row.monitor, row.revision), 0),
        last=None if last is None else Moment(last.at),
        rows=0 if last is None else last.rows,
        missed=0 if last is None else last.missed,
        late=row.late,
        together=_together(state.get("together", {}).get("last")),
    )


def _together(last: dict[str, Any] | None) -> RowsTogether | None:
    if last is None:
        return None
    named = tuple(name for name, _ in last["named"])
    return RowsTogether(rows=last["rows"], area=last["area"], chance=last["chance"], columns=named, drifting=last["drifting"])


def _health(watching: Sequence[Watching], wishes: Wishes, now: Moment) -> str:
    """Of what was seen lately, of whichever revision."""
    patience = (QUIET_AFTER + 1) * wishes.window * SECOND + MINUTE
    lately = [one for one in watching if one.last is not None and now - one.last <= patience]
    if not lately:
        return "quiet" if any(one.last is not None for one in watching) else "learning"
    if any(one.together is not None and one.together.drifting for one in lately):
        return "drifting"
    if any(told.drifting for one in lately for told in one.columns):
        return "drifting"
    return "learning" if any(one.learning for one in lately) else "well"


def alerts_shown(context: Context, rows: Sequence[Found]) -> tuple[Alert, ...]:
    ids = [row.id for row in rows]
    actions, sent = alert_store.actions_of(context.work, ids), alert_store.sent_of(context.work, ids)
    named = {row.acknowledged_by for row in rows} | {one.decided_by for some in actions.values() for one in some}
    persons = people(context.work, named - {""})
    shown = []
    for row in rows:
        told = json.loads(row.told)
        shown.append(
            Alert(
                id=row.id,
                endpoint=row.endpoint_name,
                kind=row.kind,
                severity=row.severity,
                title=row.title,
                sentences=(*told["sentences"], *told.get("notes", ())),
                columns=tuple(Told(**one) for one in told["columns"]),
                since=Moment(told["since"]) if told.get("since") else None,
                raised=Moment(row.raised),
                seen=Moment(row.seen),
                sightings=row.sightings,
                acknowledged=_moment(row.acknowledged),
                acknowledged_by=persons.get(row.acknowledged_by),
                resolved=_moment(row.resolved),
                actions=tuple(
                    Action(
                        id=one.id,
                        kind=one.kind,
                        state=one.state,
                        words=one.words,
                        at=Moment(one.at),
                        decided=_moment(one.decided),
                        decided_by=persons.get(one.decided_by),
                    )
                    for one in actions.get(row.id, ())
                ),
                sent=tuple(
                    Sent(
                        channel=one.channel,
                        what=one.what,
                        at=_moment(one.sent),
                        tries=one.tries,
                        problem=one.problem,
                    )
                    for one in sent.get(row.id, ())[-MOST_SENT:]
                ),
            )
        )
    return tuple(shown)


def _moment(at: int | None) -> Moment | None:
    return None if at is None else Moment(at)
