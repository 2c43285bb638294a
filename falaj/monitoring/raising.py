"""What was seen becomes alerts: kept, told and acted on, in the transaction of whatever saw it.

`alerting` and `reacting` decide; `posting` sends what is told here, and `acting` does what is to be done.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final

import msgspec

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.ids import new_id
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.ledger import recording
from falaj.governance.projects.store import project_by_id
from falaj.monitoring import alerting, announcing, reacting
from falaj.monitoring.alert_rows import alert_columns, read_alert, read_notes
from falaj.monitoring.alerting import Alert, Change, Post, Rules, Sighting, What
from falaj.monitoring.operations.alerts import RAISE_ALERT, RESOLVE_ALERT, OneAlert
from falaj.monitoring.operations.words import Act
from falaj.monitoring.reacting import Earlier, Reaction, Reactions
from falaj.monitoring.sealing import inside
from falaj.monitoring.sending.events import Event
from falaj.monitoring.store import alerts as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.changing import way_back
from falaj.serving.splits import in_words, is_live, read_arms
from falaj.serving.store import endpoints as endpoint_store

log = logging.getLogger(__name__)
AT_ONCE: Final = 200
_AGAIN: Final = 30 * SECOND  # after what failed
KEPT_FOR: Final = 366 * DAY
MOST_NAMED: Final = 50  # columns in a leaf, and in a message
_ACTED_ON: Final = ("raised", "reopened")
_TOLD_BY_WINDOWS: Final = ("drift", "missing", "schema")  # how keys begin
_RECORDED: Final = (*_ACTED_ON, "worse", "escalated")
_UNWATCHED: Final = "Its endpoint is not watched any more."
_TITLES: Final[dict[What, str]] = {
    "raised": "",
    "worse": "Worse: ",
    "escalated": "Nobody has seen to it: ",
    "reminded": "Still so: ",
    "resolved": "Over: ",
    "reopened": "Back again: ",
}


class Raising:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = Lock()
        self._after = ""  # the last open alert that was looked at
        self._later: dict[str, int] = {}  # alerts that something failed for, and until when

    def sight(self, context: Context, monitor: Found, sightings: Sequence[Sighting]) -> None:
        """Inside the transaction of what was found. `context` is the platform's own, of the monitor's project; `monitor` is its
        row, which is held from here on: two who see the same at once make one alert of it, and act once."""
        held = monitor_store.by_id(context.work, monitor.id, hold=True) if sightings else None
        if held is None:
            return
        for one in sightings:
            known = store.last_of(context.work, held.id, one.key)
            _update(context, held, known, one)

    def pass_time(self, now: Moment) -> bool:
        """Remind, escalate and end what was not seen for a while: of some alerts each time, one after the other; whether there
        may be more to do at once."""
        with self._turn:
            self._later = {alert: at for alert, at in self._later.items() if at > now}
            rows, due = self._database.read(lambda work: _due(work, self._after, self._later, now))
            self._after = rows[-1].id if len(rows) == AT_ONCE else ""
        for row in due:
            self._pass_isolated(row, now)
        return len(rows) == AT_ONCE

    def _pass_isolated(self, row: Found, now: Moment) -> None:
        """What is odd about one alert must not keep others from being told of."""
        try:
            self._database.write(lambda work: _pass(work, row, now))
            return
        except FalajError as error:
            log.warning("alert %s waits: %s", row.id, error)
        except Exception:
            log.exception("alert %s waits", row.id)
        self._later[row.id] = now + _AGAIN

    def clean(self, now: Moment) -> bool:
        """Forget what was over long ago; the ledger keeps its record. Whether there is more."""
        return self._database.write(lambda work: store.forget_over(work, Moment(now - KEPT_FOR), AT_ONCE)) == AT_ONCE


def _due(work: UnitOfWork, after: str, but: Collection[str], now: Moment) -> tuple[Sequence[Found], list[Found]]:
    """Open alerts, and those of them that something is to be done about, or that something is odd about: it shows where it is
    to be done, and concerns no other there."""
    rows = store.open_after(work, after, AT_ONCE)
    monitors = {id: monitor_store.by_id(work, id) for id in {row.monitor for row in rows}}

    def is_due(row: Found) -> bool:
        monitor = monitors[row.monitor]
        if monitor is None:
            return True
        try:
            alert, rules = read_alert(row), alerting.rules_of(read_wishes(monitor.wishes))
            return alerting.updated(alert, None, rules, now, _looked(work, row, rules, now)).alert != alert
        except Exception:
            log.exception("alert %s cannot be judged", row.id)
            return True

    return rows, [row for row in rows if row.id not in but and is_due(row)]


def _looked(work: UnitOfWork, row: Found, rules: Rules, now: Moment) -> int | None:
    """How many windows were looked at since the alert was seen last, as far as that matters; None where windows do not tell of
    its kind, or its revision is not watched any more."""
    kind, _, revision = row.key.partition("/")
    if kind not in _TOLD_BY_WINDOWS or not revision.isdigit() or now - row.seen < rules.over_after:
        return None
    if monitor_store.reference(work, row.monitor, int(revision)) is None:
        return None
    return window_store.looked_at(work, row.monitor, int(revision), row.seen - rules.window * SECOND, rules.quiet)


def _pass(work: UnitOfWork, row: Found, now: Moment) -> None:
    """Decided anew while the monitor is held: something may have been seen since."""
    monitor, project = monitor_store.by_id(work, row.monitor, hold=True), project_by_id(work, row.project)
    known = store.find(work, row.project, row.id, hold=True)
    if known is None or known.resolved is not None or project is None:
        return
    context = inside(work, project, "", now)
    if monitor is not None:
        _update(context, monitor, known, None)
        return
    store.change(work, known.id, told=alert_columns(read_alert(known), (*read_notes(known), _UNWATCHED))["told"], resolved=now)
    _end(context, known.id, _UNWATCHED)


def end_with(context: Context, monitor: Found) -> None:
    """Alerts of a monitor that is about to end, as long as it says who is to hear that they are over; it is held. What is odd
    about it keeps nobody from ending it: such alerts are over all the same a moment later."""
    rows = store.open_of(context.work, monitor.id)
    try:
        rules = alerting.rules_of(read_wishes(monitor.wishes))
        ended = [(row, alerting.ended(read_alert(row), rules, context.now, _UNWATCHED)) for row in rows]
    except Exception:
        log.exception("alerts of monitor %s end untold", monitor.id)
        return
    for row, change in ended:
        if change.alert is not None:
            store.change(context.work, row.id, **alert_columns(change.alert, (*read_notes(row), _UNWATCHED)))
        _end(context, row.id, _UNWATCHED)
        for post in change.posts:
            _tell(context, row.id, row.endpoint_name, change, post, ())


def _update(context: Context, monitor: Found, known: Found | None, sighting: Sighting | None) -> None:
    """1. decide; 2. what is to be done about it; 3. keep; 4. put on record; 5. tell."""
    wishes, work = read_wishes(monitor.wishes), context.work
    before = None if known is None else read_alert(known)
    rules = alerting.rules_of(wishes)
    looked = None if known is None or sighting is not None else _looked(work, known, rules, context.now)
    change = alerting.updated(before, sighting, rules, context.now, looked)
    if change.alert is None or change.alert == before:
        return
    whats = [post.what for post in change.posts]
    is_acted_on = any(what in _ACTED_ON for what in whats)
    answer = _reactions(context, monitor, change.alert, wishes.actions) if is_acted_on else Reactions()
    is_new = known is None or change.is_new
    notes = (*(() if known is None or is_new else read_notes(known)), *answer.left_out)
    columns = alert_columns(change.alert, notes)
    if known is None or is_new:
        endpoint = endpoint_store.find_by_id(work, monitor.endpoint)
        id, name = new_id(context.now), "" if endpoint is None else endpoint.name
        place = {"project": monitor.project, "monitor": monitor.id, "endpoint": monitor.endpoint, "endpoint_name": name}
        store.add(work, {"id": id, **place, "acknowledged_by": "", **columns})
    else:
        id, name = known.id, known.endpoint_name
        store.change(work, id, **columns)
    for one in answer.wanted:
        store.add_action(work, _action(context, monitor, id, one))
    if "resolved" in whats:
        _end(context, id, "The alert was over before anybody decided.")
    for what in whats:
        if what in _RECORDED:
            _record(context, id, name, change.alert, what)
    for post in change.posts:
        _tell(
            context, id, name, change, post, (*notes, *(f"{reacting.NAMES[one.act.do]}: {one.words}" for one in answer.wanted))
        )


def _reactions(context: Context, monitor: Found, alert: Alert, acts: Sequence[Act]) -> Reactions:
    rows = store.actions_since(context.work, monitor.id, reacting.looked_back(acts, context.now))
    earlier = [Earlier(act=msgspec.json.decode(row.wanted, type=Act), at=Moment(row.at)) for row in rows]
    found = reacting.reactions(acts, alert.last.kind, earlier, context.now, _silent(context.work, monitor, alert))
    return replace(found, wanted=tuple(_foretold(context.work, monitor, alert, one) for one in found.wanted))


def _silent(work: UnitOfWork, monitor: Found, alert: Alert) -> int:
    """The revision that the alert is of, where it answers nobody: a shadow, or one that was replaced; else 0."""
    revision, endpoint = alerting.revision_of(alert.last.key), endpoint_store.find_by_id(work, monitor.endpoint)
    return 0 if endpoint is None or is_live(read_arms(endpoint.arms), revision) else revision


def _foretold(work: UnitOfWork, monitor: Found, alert: Alert, reaction: Reaction) -> Reaction:
    """Whoever is asked to agree to a way back reads where it leads."""
    if reaction.act.do != "roll-back" or reaction.state != "waiting":
        return reaction
    arms = way_back(work, monitor.endpoint, alerting.revision_of(alert.last.key))
    what = f"It would give {in_words(arms)}." if arms else "As it stands there is no earlier split to go back to."
    return replace(reaction, words=f"{reaction.words} {what}")


def _action(context: Context, monitor: Found, alert: str, reaction: Reaction) -> dict[str, Any]:
    return {
        "id": new_id(context.now),
        "project": monitor.project,
        "alert": alert,
        "monitor": monitor.id,
        "kind": reaction.act.do,
        "state": reaction.state,
        "words": reaction.words,
        "wanted": msgspec.json.encode(reaction.act).decode(),
        "wisher": monitor.wisher,
        "at": context.now,
        "decided": None,
        "decided_by": "",
    }


def _end(context: Context, alert: str, why: str) -> None:
    """What waits for somebody's word would come too late."""
    store.withdraw_waiting(context.work, alert, why, context.now)
    recording.append(
        context.work,
        operation=RESOLVE_ALERT,
        request=OneAlert(project=context.required_project.name, alert=alert),
        identity=None,
        project=context.required_project.id,
        now=context.now,
        request_id="",
        facts={"alert": alert},
    )


def _record(context: Context, id: str, endpoint: str, alert: Alert, what: What) -> None:
    recording.append(
        context.work,
        operation=RAISE_ALERT,
        request=OneAlert(project=context.required_project.name, alert=id),
        identity=None,
        project=context.required_project.id,
        now=context.now,
        request_id="",
        facts={
            "alert": id,
            "what": what,
            "endpoint": endpoint,
            "kind": alert.last.kind,
            "severity": alert.severity,
            "columns": [one.column for one in alert.last.columns[:MOST_NAMED]],
        },
    )


def _tell(context: Context, id: str, endpoint: str, change: Change, post: Post, notes: Sequence[str]) -> None:
    alert = change.alert
    if alert is None:
        return
    last = alert.last
    since = {} if last.since is None else {"since": str(last.since)}
    event = Event(
        id="",
        kind=f"alert.{post.what}",
        project=context.required_project.name,
        endpoint=endpoint,
        title=_TITLES[post.what] + last.title,
        sentence=change.over if post.what == "resolved" else " ".join((*last.sentences, *notes)),
        facts={
            **last.facts,
            "alert": id,
            "kind": last.kind,
            "sightings": alert.sightings,
            **since,
            "columns": {one.column: one.effect for one in last.columns[:MOST_NAMED]},
        },
        severity=alert.severity,
        at=context.now,
    )
    announcing.send(context.work, context.required_project.id, id, post.what, post.channels, event)
