"""Alerts between what decides (`alerting`) and what is kept of them: a row, with what was told last as JSON in it."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.monitoring.alerting import Alert, Sighting
from falaj.monitoring.operations.words import Told
from falaj.monitoring.store.tables import Found

MOST_NOTES: Final = 10
_LONGEST: Final = 2000  # letters of a sentence


def read_alert(row: Found) -> Alert:
    told = json.loads(row.told)
    last = Sighting(
        key=row.key,
        kind=row.kind,
        severity=told["severity"],
        title=row.title,
        sentences=tuple(told["sentences"]),
        facts=told["facts"],
        columns=tuple(Told(**one) for one in told["columns"]),
        since=_moment(told["since"]),
    )
    return Alert(
        last=last,
        severity=row.severity,
        raised=Moment(row.raised),
        opened=Moment(row.opened),
        seen=Moment(row.seen),
        sightings=row.sightings,
        acknowledged=_moment(row.acknowledged),
        resolved=_moment(row.resolved),
        notified=_moment(row.notified),
        escalated=_moment(row.escalated),
        posted=tuple(Moment(one) for one in json.loads(row.posted)),
    )


def read_notes(row: Found) -> tuple[str, ...]:
    """What the platform says of the alert itself, whatever is seen after that."""
    return tuple(json.loads(row.told).get("notes", ()))


def alert_columns(alert: Alert, notes: Sequence[str]) -> dict[str, Any]:
    last = alert.last
    told = {
        "severity": last.severity,
        "sentences": [one[:_LONGEST] for one in last.sentences],
        "facts": last.facts,
        "columns": [asdict(one) for one in last.columns],
        "since": last.since,
        "notes": list(notes)[-MOST_NOTES:],
    }
    return {
        "key": last.key,
        "kind": last.kind,
        "severity": alert.severity,
        "title": last.title[:_LONGEST],
        "told": json.dumps(told),
        "raised": alert.raised,
        "opened": alert.opened,
        "seen": alert.seen,
        "sightings": alert.sightings,
        "acknowledged": alert.acknowledged,
        "resolved": alert.resolved,
        "notified": alert.notified,
        "escalated": alert.escalated,
        "posted": json.dumps(alert.posted),
    }


def _moment(at: int | None) -> Moment | None:
    return None if at is None else Moment(at)
