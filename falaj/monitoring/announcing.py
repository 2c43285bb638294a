"""What the platform decided by itself is told: verdicts of A/B tests, canaries that went back, revisions that were put away.

It is an alert that is over as it begins, for nobody has to see to it: who was told stays to be seen, and it does nothing. It is
kept in the transaction of what was decided, whose leaf is the record of it. `raising` has what monitors find.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.projects.store import Project
from falaj.monitoring.alert_rows import alert_columns
from falaj.monitoring.alerting import Alert, Sighting
from falaj.monitoring.operations.words import Severity
from falaj.monitoring.sending.events import Event, cloud_event
from falaj.monitoring.store import alerts as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.splits import Arms, in_words


@value
class News:
    """`event` is such as `abtest.verdict`. `endpoint` is an id, and `name` its name."""

    event: str
    endpoint: str
    name: str
    severity: Severity
    title: str
    sentences: tuple[str, ...]
    facts: Mapping[str, Any]


def announce(work: UnitOfWork, project: Project, news: News, now: Moment) -> None:
    """To where alerts of the endpoint go; where it is not watched, to all channels of the project."""
    monitor, id = monitor_store.find(work, news.endpoint), new_id(now)
    said = Sighting(
        key=f"verdict/{id}",
        kind="verdict",
        severity=news.severity,
        title=news.title,
        sentences=news.sentences,
        facts=news.facts,
    )
    columns = alert_columns(
        Alert(last=said, severity=news.severity, raised=now, opened=now, seen=now, resolved=now, notified=now), ()
    )
    place = {"project": project.id, "monitor": "" if monitor is None else monitor.id, "endpoint": news.endpoint}
    store.add(work, {"id": id, **place, "endpoint_name": news.name, "acknowledged_by": "", **columns})
    event = Event(
        id="",
        kind=news.event,
        project=project.name,
        endpoint=news.name,
        title=news.title,
        sentence=" ".join(news.sentences),
        facts={**news.facts, "alert": id, "kind": "verdict"},
        severity=news.severity,
        at=now,
    )
    channels = tuple(row.name for row in store.channels_of(work, project.id))
    send(work, project.id, id, "told", channels if monitor is None else read_wishes(monitor.wishes).channels, event)


def send(work: UnitOfWork, project: str, alert: str, what: str, channels: Sequence[str], event: Event) -> None:
    """A message of its own for each channel, with an id of its own: what one receiver does is nothing to the others."""
    for channel in channels:
        one = replace(event, id=new_id(event.at))
        row = {"id": one.id, "project": project, "alert": alert, "channel": channel, "what": what, "due": one.at}
        store.post(work, {**row, "event": cloud_event(one).decode(), "tries": 0, "sent": None, "problem": ""})


class Herald:
    """Implements `serving.verdicts.Herald`."""

    def canary_went_back(
        self, work: UnitOfWork, project: Project, endpoint: Found, revision: int, arms: Arms, why: str, now: Moment
    ) -> None:
        title = f"Revision {revision}: the canary went back by itself"
        announce(work, project, _of_a_split(endpoint, revision, arms, why, "canary.back", "warning", title), now)

    def revision_was_put_away(
        self, work: UnitOfWork, project: Project, endpoint: Found, revision: int, arms: Arms, why: str, now: Moment
    ) -> None:
        title = f"Revision {revision} was put away"
        announce(work, project, _of_a_split(endpoint, revision, arms, why, "revision.quarantined", "critical", title), now)


def _of_a_split(endpoint: Found, revision: int, arms: Arms, why: str, event: str, severity: Severity, title: str) -> News:
    return News(
        event=event,
        endpoint=endpoint.id,
        name=endpoint.name,
        severity=severity,
        title=title,
        sentences=(why, f"Now {in_words(arms)}."),
        facts={"revision": revision},
    )
