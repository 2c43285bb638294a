"""Health of all endpoints at a glance: those that drift first, then what else needs a look, then what is well or unwatched."""

from collections.abc import Collection
from typing import Any, Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.monitoring.operations.alerts import LIST_ALERTS
from falaj.monitoring.operations.monitors import LIST_MONITORS, Monitor, Watching, Wishes
from falaj.monitoring.operations.objectives import ObjectiveStanding, ReadObjectives
from falaj.serving.operations.endpoints import Endpoint, ReadTraffic
from falaj.web.drawing.sparklines import sparkline
from falaj.web.forms import checked
from falaj.web.monitoring.words import HEALTH, PARTS, Health, foremost, health_of, sentence
from falaj.web.serving.endpoint import shadows_of
from falaj.web.serving.figures import Figures, course, figures
from falaj.web.visits import Visit

EVERY: Final = 15  # seconds between looks
MOST_DRAWN: Final = 40  # rows whose traffic is asked for
MOST_ALERTS: Final = 200
SHOWN_ALERTS: Final = 5


@value
class Row:
    """`monitor` is None where nobody watches; `budget` is of the objective that has least left."""

    endpoint: Endpoint
    monitor: Monitor | None
    health: Health
    last: Watching | None
    sentence: str
    figures: Figures | None
    spark: Markup
    budget: ObjectiveStanding | None


# What is asked for


def monitors(visit: Visit) -> Any:
    return checked(LIST_MONITORS, {"project": visit.project, "limit": 1000})


def open_alerts(visit: Visit) -> Any:
    return checked(LIST_ALERTS, {"project": visit.project, "which": "open", "limit": MOST_ALERTS})


def traffic(visit: Visit) -> list[ReadTraffic]:
    return [_traffic(visit, one) for one in _in_order(visit)[:MOST_DRAWN]]


def objectives(visit: Visit) -> list[ReadObjectives]:
    watched = _watched(visit)
    held = [one.name for one in _in_order(visit) if one.name in watched and watched[one.name].wishes.objectives]
    return [ReadObjectives(project=visit.project, endpoint=name) for name in held[:MOST_DRAWN]]


def _traffic(visit: Visit, endpoint: Endpoint) -> ReadTraffic:
    return ReadTraffic(project=visit.project, endpoint=endpoint.name)


def _in_order(visit: Visit) -> list[Endpoint]:
    """Those that need somebody first; so that one stays where it is while nothing changes, then by name."""
    found, watched = visit.loaded["endpoints"], _watched(visit)

    def place(endpoint: Endpoint) -> tuple[int, int, str]:
        monitor = watched.get(endpoint.name)
        alerts = monitor.open_alerts if monitor is not None else 0
        rank = health_of(monitor).rank
        return (min(rank, 1) if alerts else rank, -alerts, endpoint.name)

    return sorted(found.items, key=place) if found is not None else []


def _watched(visit: Visit) -> dict[str, Monitor]:
    found = visit.loaded["monitors"]
    return {one.endpoint: one for one in found.items} if found is not None else {}


# What is made of it


def story(visit: Visit) -> dict[str, Any]:
    watched, found = _watched(visit), visit.loaded["alerts"]
    alerts = found.items if found is not None else ()
    drifted = {alert.endpoint for alert in alerts if alert.kind == "drift"}
    rows = [_row(visit, one, watched.get(one.name), drifted) for one in _in_order(visit)]
    return {
        "rows": rows,
        "counts": {word: sum(row.health.word == word for row in rows) for word in ("drifting", "quiet", "learning", "well")},
        "unwatched": [row.endpoint.name for row in rows if row.monitor is None],
        "newest_alerts": alerts[:SHOWN_ALERTS],
        "open_count": len(alerts),
        "unseen": sum(one.acknowledged is None for one in alerts),
        "usual": Wishes(),
        "every": EVERY,
        **PARTS,
    }


def _budget(visit: Visit, endpoint: Endpoint) -> ObjectiveStanding | None:
    told = (visit.loaded["objectives"] or {}).get(ReadObjectives(project=visit.project, endpoint=endpoint.name))
    return min(told.items, key=lambda one: one.left, default=None) if told is not None else None


def _row(visit: Visit, endpoint: Endpoint, monitor: Monitor | None, drifted: Collection[str]) -> Row:
    """One whose alert of drift is open drifts for people, also while nobody calls it."""
    asked = _traffic(visit, endpoint)
    told = (visit.loaded["traffic"] or {}).get(asked)
    past = course(told.points, asked.seconds, visit.now, shadows=shadows_of(endpoint)) if told is not None else None
    last = foremost(monitor) if monitor is not None else None
    return Row(
        endpoint=endpoint,
        monitor=monitor,
        health=HEALTH["drifting"] if monitor is not None and endpoint.name in drifted else health_of(monitor),
        last=last,
        sentence=sentence(monitor, last) if monitor is not None else "",
        figures=figures(past) if past is not None else None,
        spark=sparkline(past.rate) if past is not None else Markup(""),
        budget=_budget(visit, endpoint),
    )
