"""SQL of labels: where predictions lie, what was said of them, and the batches that hold it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, delete, func, insert, literal, select, union_all, update

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.inserts import insert_all_or_skip, insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.monitoring.store.abtest_tables import abtests
from falaj.monitoring.store.label_tables import indexed, label_batches, labellings, labels, losses, predictions
from falaj.monitoring.store.tables import Found, windows
from falaj.serving.store.tables import endpoints
from falaj.serving.store.tables import logs as logged

_AT_ONCE: Final = 500
_MOST_WINDOWS: Final = 50_000
_TOGETHER: Final = 50  # predictions that one statement looks for


@value
class Meant:
    """The last prediction of this key within a span of time."""

    key: str
    since: int
    until: int


def _last(number: int) -> Select[Any]:
    """Of the place `number` in what is asked. `several` says that calls of several callers have its key: the least and the
    largest caller are not the same one, which an index tells at once, however many calls there are."""
    mine = (predictions.c.endpoint == bindparam("endpoint"), predictions.c.key == bindparam(f"key{number}"))
    least, largest = (
        select(predictions.c.caller).where(*mine).order_by(order).limit(1).scalar_subquery()
        for order in (predictions.c.caller, predictions.c.caller.desc())
    )
    one = (
        select(literal(number).label("number"), predictions, logged.c.blob, logged.c.first, (least != largest).label("several"))
        .join(logged, logged.c.id == predictions.c.batch)
        .where(
            *mine,
            predictions.c.at >= bindparam(f"since{number}"),
            predictions.c.at <= bindparam(f"until{number}"),
        )
        .order_by(predictions.c.at.desc(), predictions.c.batch.desc(), predictions.c.place.desc(), predictions.c.row.desc())
        .limit(1)
    )
    return select(one.subquery())


_LAST: Final = union_all(*map(_last, range(_TOGETHER)))
_NOBODY: Final = Meant(key="", since=0, until=0)


def labelling(work: UnitOfWork, endpoint: str, *, hold: bool = False) -> Found | None:
    mine = select(labellings).where(labellings.c.endpoint == endpoint)
    return work.execute(mine.with_for_update() if hold else mine).first()


def add_labelling(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where there is one."""
    return insert_or_skip(work, labellings, row)


def change_labelling(work: UnitOfWork, endpoint: str, **columns: Any) -> None:
    work.execute(update(labellings).where(labellings.c.endpoint == endpoint).values(columns))


# Where predictions lie


def not_indexed(work: UnitOfWork, endpoint: str, since: str, limit: int) -> Sequence[Found]:
    """Batches of logged calls with ids since then, the newest first."""
    known = select(indexed.c.batch).where(indexed.c.batch == logged.c.id).exists()
    mine = select(logged).where(logged.c.endpoint == endpoint, logged.c.id >= since, ~known)
    return work.execute(mine.order_by(logged.c.id.desc()).limit(limit)).all()


def lie_elsewhere(work: UnitOfWork, batches: Collection[str], blob: str) -> bool:
    """Whether one of these is in another blob than this by now."""
    moved = select(logged.c.id).where(logged.c.id.in_(sorted(batches)), logged.c.blob != blob)
    return work.execute(moved.limit(1)).first() is not None


def oldest_logged(work: UnitOfWork, endpoint: str) -> Moment | None:
    """Since when there are logged calls."""
    mine = select(logged.c.at).where(logged.c.endpoint == endpoint)
    return work.execute(mine.order_by(logged.c.id).limit(1)).scalar()


def index(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """Those that somebody else entered meanwhile are there."""
    insert_all_or_skip(work, predictions, rows)


def index_done(work: UnitOfWork, batches: Sequence[Found]) -> None:
    insert_all_or_skip(work, indexed, [{"batch": one.id, "endpoint": one.endpoint, "at": one.at} for one in batches])


def last_made(work: UnitOfWork, endpoint: str, meant: Sequence[Meant]) -> list[Found | None]:
    """Each with the blob it lies in, many by one statement; None where there is none."""
    found: dict[int, Found] = {}
    for start in range(0, len(meant), _TOGETHER):
        some = [*meant[start : start + _TOGETHER]]
        some += [_NOBODY] * (_TOGETHER - len(some))
        given = {f"{name}{number}": what for number, one in enumerate(some) for name, what in _named(one)}
        found |= {start + row.number: row for row in work.execute(_LAST, {"endpoint": endpoint, **given})}
    return [found.get(place) for place in range(len(meant))]


def _named(one: Meant) -> tuple[tuple[str, str | int], ...]:
    return ("key", one.key), ("since", one.since), ("until", one.until)


def index_of_gone(work: UnitOfWork, limit: int) -> Sequence[str]:
    """Batches whose calls are logged no more."""
    there = select(logged.c.id).where(logged.c.id == indexed.c.batch).exists()
    return work.execute(select(indexed.c.batch).where(~there).limit(limit)).scalars().all()


def forget_index(work: UnitOfWork, batches: Collection[str]) -> None:
    work.execute(delete(predictions).where(predictions.c.batch.in_(batches)))
    work.execute(delete(indexed).where(indexed.c.batch.in_(batches)))


# What was said


def said(work: UnitOfWork, endpoint: str, keys: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    wanted = sorted(set(keys))
    for start in range(0, len(wanted), _AT_ONCE):
        mine = (labels.c.endpoint == endpoint, labels.c.key.in_(wanted[start : start + _AT_ONCE]))
        found |= {row.key: row.said for row in work.execute(select(labels.c.key, labels.c.said).where(*mine))}
    return found


def add_batch(work: UnitOfWork, batch: Mapping[str, Any], facts: Sequence[Mapping[str, Any]]) -> None:
    work.execute(insert(label_batches).values(batch))
    work.execute(insert(labels), list(facts))


def batches_after(work: UnitOfWork, endpoint: str, place: int, limit: int) -> Sequence[Found]:
    """In order."""
    mine = select(label_batches).where(label_batches.c.endpoint == endpoint, label_batches.c.place > place)
    return work.execute(mine.order_by(label_batches.c.place).limit(limit)).all()


def batches_since(work: UnitOfWork, endpoint: str, since: int, limit: int) -> Sequence[Found]:
    """Those with predictions made since then, the newest first."""
    mine = select(label_batches).where(label_batches.c.endpoint == endpoint, label_batches.c.last >= since)
    return work.execute(mine.order_by(label_batches.c.place.desc()).limit(limit)).all()


def rows_since(work: UnitOfWork, endpoint: str, since: int) -> int:
    mine = (label_batches.c.endpoint == endpoint, label_batches.c.last >= since)
    return int(work.execute(select(func.coalesce(func.sum(label_batches.c.rows), 0)).where(*mine)).scalar_one())


def came_since(work: UnitOfWork, endpoint: str, at: int) -> tuple[int, int]:
    """How many labels came since then, and when the first of them did."""
    mine = (label_batches.c.endpoint == endpoint, label_batches.c.at >= at)
    number, first = func.sum(label_batches.c.rows).label("number"), func.min(label_batches.c.at).label("first")
    found = work.execute(select(number, first).where(*mine)).one()
    return int(found.number or 0), int(found.first or 0)


def crowded(work: UnitOfWork, small: int, many: int, limit: int) -> Sequence[str]:
    """Endpoints with many small batches that were judged."""
    mine = (label_batches.c.endpoint == labellings.c.endpoint, label_batches.c.place <= labellings.c.judged)
    number = select(func.count()).where(*mine, label_batches.c.rows < small).correlate(labellings).scalar_subquery()
    wanted = select(labellings.c.endpoint).where(number >= many)
    return work.execute(wanted.order_by(labellings.c.endpoint).limit(limit)).scalars().all()


def small_and_judged(work: UnitOfWork, endpoint: str, rows: int, limit: int) -> Sequence[Found]:
    """In order."""
    both = select(label_batches).join(labellings, labellings.c.endpoint == label_batches.c.endpoint)
    mine = both.where(label_batches.c.endpoint == endpoint, label_batches.c.place <= labellings.c.judged)
    return work.execute(mine.where(label_batches.c.rows < rows).order_by(label_batches.c.place).limit(limit)).all()


def is_read_within(work: UnitOfWork, endpoint: str, first: int, last: int) -> bool:
    """Whether an A/B test has come to a place among these, and not beyond them."""
    goes_on = (abtests.c.endpoint_busy == endpoint, abtests.c.place >= first, abtests.c.place < last)
    return work.execute(select(abtests.c.id).where(*goes_on).with_for_update()).first() is not None


def there(work: UnitOfWork, ids: Collection[str]) -> int:
    return int(work.execute(select(func.count()).where(label_batches.c.id.in_(ids))).scalar_one())


def replace_batches(work: UnitOfWork, ids: Collection[str], merged: Mapping[str, Any]) -> None:
    """What was said goes on to be known."""
    work.execute(delete(label_batches).where(label_batches.c.id.in_(ids)))
    work.execute(insert(label_batches).values(merged))
    work.execute(update(labels).where(labels.c.batch.in_(ids)).values(batch=merged["id"]))


def forgettable(work: UnitOfWork, before: Moment, limit: int) -> Sequence[Found]:
    """Batches that are too old, or whose endpoint is gone."""
    lives = and_(endpoints.c.id == label_batches.c.endpoint, endpoints.c.deleted.is_(None))
    mine = select(label_batches).outerjoin(endpoints, lives).where((label_batches.c.at < before) | endpoints.c.id.is_(None))
    return work.execute(mine.order_by(label_batches.c.at).limit(limit)).all()


def forget_batches(work: UnitOfWork, ids: Collection[str]) -> None:
    work.execute(delete(labels).where(labels.c.batch.in_(ids)))
    work.execute(delete(label_batches).where(label_batches.c.id.in_(ids)))


def ended(work: UnitOfWork, limit: int) -> Sequence[Found]:
    """Of endpoints that are gone, once all their batches are."""
    lives = and_(endpoints.c.id == labellings.c.endpoint, endpoints.c.deleted.is_(None))
    left = select(label_batches.c.id).where(label_batches.c.endpoint == labellings.c.endpoint).exists()
    mine = select(labellings).outerjoin(endpoints, lives).where(endpoints.c.id.is_(None), ~left)
    return work.execute(mine.limit(limit)).all()


def forget_labelling(work: UnitOfWork, endpoint: str) -> None:
    for table in (losses, labellings):
        work.execute(delete(table).where(table.c.endpoint == endpoint))


# Losses


def to_judge(work: UnitOfWork, limit: int, but: Collection[str] = ()) -> Sequence[Found]:
    """Endpoints with labels whose losses nobody looked at yet; none of those in `but`."""
    wanted = select(labellings).where(labellings.c.places > labellings.c.judged, labellings.c.endpoint.not_in(sorted(but)))
    return work.execute(wanted.order_by(labellings.c.endpoint).limit(limit)).all()


def losses_of(work: UnitOfWork, endpoint: str) -> dict[int, str]:
    found = work.execute(select(losses.c.revision, losses.c.standing).where(losses.c.endpoint == endpoint))
    return {row.revision: row.standing for row in found}


def put_losses(work: UnitOfWork, endpoint: str, revision: int, standing: str, due: int | None) -> None:
    mine = (losses.c.endpoint == endpoint, losses.c.revision == revision)
    if not work.execute(update(losses).where(*mine).values(standing=standing, due=due)).rowcount:
        work.execute(insert(losses).values(endpoint=endpoint, revision=revision, standing=standing, due=due))


def losses_due(work: UnitOfWork, now: Moment, limit: int, but: Collection[str] = ()) -> Sequence[Found]:
    """Those that rose, and of which people are told again; none of the endpoints in `but`."""
    wanted = select(losses).where(losses.c.due <= now, losses.c.endpoint.not_in(sorted(but)))
    return work.execute(wanted.order_by(losses.c.due).limit(limit)).all()


# Windows without labels


def windows_since(work: UnitOfWork, monitor: str, revision: int, key: str, since: Moment) -> Sequence[Found]:
    """Where they lie, the newest first, of those that were counted by the plan of this key; without what came out of them."""
    mine = (windows.c.monitor == monitor, windows.c.revision == revision, windows.c.at >= since, windows.c.key == key)
    wanted = select(windows.c.at, windows.c.blob).where(*mine)
    return work.execute(wanted.order_by(windows.c.at.desc()).limit(_MOST_WINDOWS)).all()
