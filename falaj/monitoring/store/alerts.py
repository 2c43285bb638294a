"""SQL of alerts, of what they made happen, and of what is sent about them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.monitoring.store.tables import Found, actions, alerts, channels, monitors, outbox


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(alerts).values(row))


def change(work: UnitOfWork, id: str, **columns: Any) -> None:
    work.execute(update(alerts).where(alerts.c.id == id).values(columns))


def find(work: UnitOfWork, project: str, id: str, *, hold: bool = False) -> Found | None:
    mine = select(alerts).where(alerts.c.project == project, alerts.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def last_of(work: UnitOfWork, monitor: str, key: str) -> Found | None:
    """Be it over."""
    mine = select(alerts).where(alerts.c.monitor == monitor, alerts.c.key == key)
    return work.execute(mine.order_by(alerts.c.raised.desc(), alerts.c.id.desc()).limit(1).with_for_update()).first()


def open_after(work: UnitOfWork, id: str, limit: int) -> Sequence[Found]:
    """Of all projects, in the order of ids."""
    wanted = select(alerts).where(alerts.c.resolved.is_(None), alerts.c.id > id)
    return work.execute(wanted.order_by(alerts.c.id).limit(limit)).all()


def open_of(work: UnitOfWork, monitor: str) -> Sequence[Found]:
    """Held."""
    wanted = select(alerts).where(alerts.c.monitor == monitor, alerts.c.resolved.is_(None))
    return work.execute(wanted.order_by(alerts.c.id).with_for_update()).all()


def forget_over(work: UnitOfWork, before: Moment, limit: int) -> int:
    """Those that were over by then, with all that hangs on them; how many."""
    old = select(alerts.c.id).where(alerts.c.resolved < before).order_by(alerts.c.resolved).limit(limit)
    ids = list(work.execute(old).scalars())
    for column in (outbox.c.alert, actions.c.alert, alerts.c.id):
        work.execute(delete(column.table).where(column.in_(ids)))
    return len(ids)


def open_counts(work: UnitOfWork, monitors: Collection[str]) -> dict[str, int]:
    wanted = select(alerts.c.monitor, func.count().label("number"))
    found = work.execute(wanted.where(alerts.c.monitor.in_(monitors), alerts.c.resolved.is_(None)).group_by(alerts.c.monitor))
    return {row.monitor: int(row.number) for row in found}


def page(work: UnitOfWork, project: str, endpoint: str, which: str, before: str, limit: int) -> Sequence[Found]:
    wanted = select(alerts).where(alerts.c.project == project)
    if endpoint:
        wanted = wanted.where(alerts.c.endpoint_name == endpoint)
    if which != "all":
        wanted = wanted.where(alerts.c.resolved.is_(None) if which == "open" else alerts.c.resolved.is_not(None))
    if before:
        wanted = wanted.where(alerts.c.id < before)
    return work.execute(wanted.order_by(alerts.c.id.desc()).limit(limit)).all()


def opened_last(work: UnitOfWork, endpoint: str, kinds: Collection[str]) -> Found | None:
    """Of these kinds the alert of the endpoint that was raised, or came back, last."""
    mine = select(alerts).where(alerts.c.endpoint == endpoint, alerts.c.kind.in_(sorted(kinds)))
    return work.execute(mine.order_by(alerts.c.opened.desc(), alerts.c.id.desc()).limit(1)).first()


def add_action(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(actions).values(row))


def find_action(work: UnitOfWork, project: str, id: str, *, hold: bool = False) -> Found | None:
    mine = select(actions).where(actions.c.project == project, actions.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def change_action(work: UnitOfWork, id: str, **columns: Any) -> None:
    work.execute(update(actions).where(actions.c.id == id).values(columns))


def actions_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for row in work.execute(select(actions).where(actions.c.alert.in_(ids)).order_by(actions.c.id)):
        found.setdefault(row.alert, []).append(row)
    return found


def actions_since(work: UnitOfWork, monitor: str, since: Moment) -> Sequence[Found]:
    """Without those that nobody decided about before their alert was over."""
    mine = (actions.c.monitor == monitor, actions.c.at >= since)
    counts = or_(actions.c.state != "refused", actions.c.decided_by != "")
    return work.execute(select(actions).where(*mine, counts).order_by(actions.c.at)).all()


def withdraw_waiting(work: UnitOfWork, alert: str, words: str, now: Moment) -> None:
    mine = (actions.c.alert == alert, actions.c.state == "waiting")
    work.execute(update(actions).where(*mine).values(state="refused", words=words, decided=now))


def undone_actions(work: UnitOfWork, monitor: str) -> Sequence[Found]:
    """Those that wait, or are about to be done; held."""
    mine = (actions.c.monitor == monitor, actions.c.state.in_(("waiting", "ready")))
    return work.execute(select(actions).where(*mine).order_by(actions.c.id).with_for_update()).all()


def ready_actions(work: UnitOfWork, limit: int, but: Collection[str] = ()) -> Sequence[Found]:
    """Decided upon, and not done yet; none of those in `but`."""
    mine = select(actions).where(actions.c.state == "ready", actions.c.id.not_in(sorted(but)))
    return work.execute(mine.order_by(actions.c.id).limit(limit)).all()


def set_channel(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    drop_channel(work, row["project"], row["name"])
    work.execute(insert(channels).values(dict(row)))


def channel(work: UnitOfWork, project: str, name: str, *, hold: bool = False) -> Found | None:
    mine = select(channels).where(channels.c.project == project, channels.c.name == name)
    return work.execute(mine.with_for_update() if hold else mine).first()


def channels_of(work: UnitOfWork, project: str) -> Sequence[Found]:
    return work.execute(select(channels).where(channels.c.project == project).order_by(channels.c.name)).all()


def watching_with(work: UnitOfWork, project: str) -> list[tuple[str, str]]:
    """The endpoint's id and the wishes of each monitor of the project."""
    found = work.execute(select(monitors.c.endpoint, monitors.c.wishes).where(monitors.c.project == project))
    return [(row.endpoint, row.wishes) for row in found]


def drop_channel(work: UnitOfWork, project: str, name: str) -> bool:
    mine = (channels.c.project == project, channels.c.name == name)
    return bool(work.execute(delete(channels).where(*mine)).rowcount)


def post(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    """What the channel has not taken of the alert yet is tried at once: the new message waits for it."""
    mine = (outbox.c.alert == row["alert"], outbox.c.channel == row["channel"], outbox.c.due > row["due"])
    work.execute(update(outbox).where(*mine).values(due=row["due"]))
    work.execute(insert(outbox).values(row))


def _is_first() -> ColumnElement[bool]:
    """No earlier message of the same alert waits for the same channel: else that would be the last word there."""
    earlier = outbox.alias()
    same = (earlier.c.alert == outbox.c.alert, earlier.c.channel == outbox.c.channel)
    return ~select(earlier.c.id).where(*same, earlier.c.due.is_not(None), earlier.c.id < outbox.c.id).exists()


def waiting_lines(
    work: UnitOfWork, now: Moment, full: Collection[str], busy: Collection[tuple[str, str]], limit: int
) -> Sequence[Found]:
    """Project and channel of what is due, who waited longest first, without projects that are `full` and `busy` channels."""
    mine = (outbox.c.due <= now, _is_first())
    wanted = select(outbox.c.project, outbox.c.channel, func.min(outbox.c.due).label("due")).where(*mine)
    if full:
        wanted = wanted.where(outbox.c.project.not_in(sorted(full)))
    for project, channel in sorted(busy):
        wanted = wanted.where(or_(outbox.c.project != project, outbox.c.channel != channel))
    return work.execute(wanted.group_by(outbox.c.project, outbox.c.channel).order_by("due").limit(limit)).all()


def first_due(work: UnitOfWork, now: Moment, project: str, channel: str) -> Found | None:
    mine = (outbox.c.project == project, outbox.c.channel == channel, outbox.c.due <= now, _is_first())
    return work.execute(select(outbox).where(*mine).order_by(outbox.c.due, outbox.c.id).limit(1)).first()


def posted(work: UnitOfWork, id: str, tries: int, **columns: Any) -> bool:
    """What came of a try; False where another one was counted since."""
    mine = (outbox.c.id == id, outbox.c.tries == tries)
    return bool(work.execute(update(outbox).where(*mine).values(tries=tries + 1, **columns)).rowcount)


def sent_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    """Without what was said: there may be much of it."""
    columns = (outbox.c.alert, outbox.c.channel, outbox.c.what, outbox.c.tries, outbox.c.due, outbox.c.sent, outbox.c.problem)
    found: dict[str, list[Found]] = {}
    for row in work.execute(select(*columns).where(outbox.c.alert.in_(ids)).order_by(outbox.c.id)):
        found.setdefault(row.alert, []).append(row)
    return found
