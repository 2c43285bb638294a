"""SQL of what calls did by the hour, of how objectives stand, and of what was ever counted."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.monitoring.store.service_tables import hours, posts, standings, totals
from falaj.monitoring.store.tables import Found, alerts, monitors, references, windows
from falaj.serving.store.tables import endpoints
from falaj.serving.store.tables import windows as minutes
from falaj.serving.store.windows import COARSE

# Hours


def hours_since(work: UnitOfWork, endpoint: str, since: int) -> Sequence[Found]:
    mine = select(hours).where(hours.c.endpoint == endpoint, hours.c.at >= since)
    return work.execute(mine.order_by(hours.c.at, hours.c.revision)).all()


def last_hour(work: UnitOfWork, endpoint: str) -> int | None:
    """The start of the last one that was summed up."""
    found: int | None = work.execute(select(func.max(hours.c.at)).where(hours.c.endpoint == endpoint)).scalar()
    return found


def first_minute(work: UnitOfWork, endpoint: str) -> int | None:
    mine = (minutes.c.endpoint == endpoint, minutes.c.span == COARSE)
    found: int | None = work.execute(select(func.min(minutes.c.at)).where(*mine)).scalar()
    return found


def minutes_between(work: UnitOfWork, endpoint: str, since: int, until: int) -> Sequence[Found]:
    mine = (minutes.c.endpoint == endpoint, minutes.c.span == COARSE, minutes.c.at >= since, minutes.c.at < until)
    return work.execute(select(minutes).where(*mine).order_by(minutes.c.at)).all()


def add_hours(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        work.execute(insert(hours), [dict(row) for row in rows])


def forget_hours(work: UnitOfWork, before: Moment, limit: int) -> int:
    """So many of the oldest hours at most; how many."""
    old = (
        work.execute(select(hours.c.at).where(hours.c.at < before).distinct().order_by(hours.c.at).limit(limit)).scalars().all()
    )
    if old:
        work.execute(delete(hours).where(hours.c.at.in_(old)))
    return len(old)


# How objectives stand


def put_standing(work: UnitOfWork, monitor: str, now: Moment, told: str) -> None:
    row = {"at": now, "told": told}
    if not work.execute(update(standings).where(standings.c.monitor == monitor).values(row)).rowcount:
        work.execute(insert(standings).values(monitor=monitor, **row))


def all_standings(work: UnitOfWork) -> Sequence[Found]:
    return work.execute(select(standings)).all()


# What was ever counted


def uncounted(work: UnitOfWork, monitor: str) -> Sequence[Found]:
    """By revision, what is in the totals, and what of windows and late rows is not yet; null where nothing is."""
    counted = func.coalesce(totals.c.counted, -1)
    mine = select(
        references.c.revision,
        references.c.late,
        totals.c.rows.label("total_rows"),
        totals.c.missed.label("total_missed"),
        totals.c.late.label("total_late"),
        totals.c.counted,
        func.max(windows.c.at).label("last"),
        func.coalesce(func.sum(windows.c.rows), 0).label("rows"),
        func.coalesce(func.sum(windows.c.missed), 0).label("missed"),
    )
    of_totals = (totals.c.monitor == references.c.monitor) & (totals.c.revision == references.c.revision)
    of_windows = (
        (windows.c.monitor == references.c.monitor) & (windows.c.revision == references.c.revision) & (windows.c.at > counted)
    )
    joined = references.outerjoin(totals, of_totals).outerjoin(windows, of_windows)
    grouped = (references.c.revision, references.c.late, totals.c.rows, totals.c.missed, totals.c.late, totals.c.counted)
    return work.execute(mine.select_from(joined).where(references.c.monitor == monitor).group_by(*grouped)).all()


def put_total(work: UnitOfWork, monitor: str, revision: int, **columns: int) -> None:
    mine = (totals.c.monitor == monitor, totals.c.revision == revision)
    if not work.execute(update(totals).where(*mine).values(columns)).rowcount:
        work.execute(insert(totals).values(monitor=monitor, revision=revision, **columns))


def forget_ended(work: UnitOfWork) -> None:
    """What is left of monitors that are no more."""
    there = select(monitors.c.id)
    for table in (standings, totals):
        work.execute(delete(table).where(table.c.monitor.not_in(there)))


# What Prometheus is told


def all_totals(work: UnitOfWork) -> Sequence[Found]:
    return work.execute(select(totals).order_by(totals.c.monitor, totals.c.revision)).all()


def endpoint_names(work: UnitOfWork) -> dict[str, str]:
    """By monitor, of endpoints that are there."""
    both = select(monitors.c.id, endpoints.c.name).join(endpoints, endpoints.c.id == monitors.c.endpoint)
    return {row.id: row.name for row in work.execute(both.where(endpoints.c.deleted.is_(None)))}


def last_windows(work: UnitOfWork) -> Sequence[Found]:
    """The last window of each revision that is watched, and how its reference stands."""
    same = (
        (windows.c.monitor == references.c.monitor)
        & (windows.c.revision == references.c.revision)
        & (windows.c.at == references.c.closed)
    )
    wanted = select(
        windows.c.monitor, windows.c.revision, windows.c.at, windows.c.until, windows.c.found, references.c.standing
    )
    return work.execute(wanted.join(references, same).order_by(windows.c.monitor, windows.c.revision)).all()


def open_by_kind(work: UnitOfWork) -> Sequence[Found]:
    """And by severity."""
    each = (alerts.c.monitor, alerts.c.kind, alerts.c.severity)
    return work.execute(select(*each, func.count().label("number")).where(alerts.c.resolved.is_(None)).group_by(*each)).all()


def all_posts(work: UnitOfWork) -> Sequence[Found]:
    return work.execute(select(posts).order_by(posts.c.project)).all()


def count_post(work: UnitOfWork, project: str, **more: int) -> None:
    """Of one attempt, by what it came to."""
    insert_or_skip(work, posts, {"project": project, "sent": 0, "failed": 0, "given_up": 0})
    added = {name: posts.c[name] + number for name, number in more.items()}
    work.execute(update(posts).where(posts.c.project == project).values(added))
