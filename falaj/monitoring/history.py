"""What is known of an endpoint's calls: minutes as `serving` keeps them, and before those, hours that are summed up here.

So a look at 30 days reads some hundred rows and not tens of thousands; and hours, which change no more, are read once and
remembered as the few numbers that are made of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from falaj.base.clock import DAY, HOUR, MINUTE, Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.cache import Bounded
from falaj.monitoring.objectives import Stretch, counted
from falaj.monitoring.operations.words import Objective
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store import service as store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.unusual import Hour
from falaj.serving.counts import Counts, counts_of, total
from falaj.serving.splits import read_arms
from falaj.statistics.burning import Count

KEPT_FOR: Final = 31 * DAY
_SUMMED_AFTER: Final = HOUR  # so that whole minutes are there for what is asked of the last hour
_SUMMED_AT_ONCE: Final = DAY
_REMEMBERED: Final = 200  # endpoints


@value
class Past:
    """Of hours that are summed up, the last of which began at `last`: by objective how many calls were good and bad, and what
    each hour was, by its number since 1970."""

    last: int
    first: int
    counts: Mapping[Objective, tuple[Count, ...]]
    hours: Mapping[int, Hour]


@value
class Known:
    """`past`, by objective, ends where `recent` begins. `hours` are whole ones; `since` is when the first began."""

    past: Mapping[Objective, tuple[Count, ...]]
    recent: tuple[Stretch, ...]
    hours: Mapping[int, Hour]
    since: Moment | None


class History:
    """Thread-safe."""

    def __init__(self) -> None:
        self._past: Bounded[str, Past] = Bounded(_REMEMBERED)

    def known(self, work: UnitOfWork, endpoint: Found, objectives: Sequence[Objective], now: Moment) -> Known:
        past = self._of_hours(work, endpoint.id, objectives, now)
        start = past.last + HOUR if past is not None else (now - 2 * HOUR) // HOUR * HOUR
        minutes = _live(endpoint, store.minutes_between(work, endpoint.id, start, now + MINUTE))
        # The minute that is under way has begun, and counts; it ends now.
        recent = tuple(
            Stretch(at=row.at, until=min(row.at + MINUTE, now), revision=row.revision, counts=counts_of(row)) for row in minutes
        )
        since = past.first if past is not None else min((one.at for one in recent), default=None)
        # From where hours are summed up, one of which nothing is known had no calls.
        empty = {} if past is None else dict.fromkeys(range(start // HOUR, now // HOUR), _hour([]))
        return Known(
            past=past.counts if past is not None else {},
            recent=recent,
            hours={**(past.hours if past is not None else {}), **empty, **_hours(recent)},
            since=None if since is None else Moment(since),
        )

    def _of_hours(self, work: UnitOfWork, endpoint: str, objectives: Sequence[Objective], now: Moment) -> Past | None:
        last = store.last_hour(work, endpoint)
        if last is None:
            return None
        remembered = self._past.get(endpoint)
        if remembered is not None and remembered.last == last and set(objectives) <= remembered.counts.keys():
            return remembered
        rows = store.hours_since(work, endpoint, now - KEPT_FOR)
        stretches = [Stretch(at=row.at, until=row.at + HOUR, revision=row.revision, counts=counts_of(row)) for row in rows]
        if not stretches:
            return None
        past = Past(
            last=last,
            first=stretches[0].at,
            counts={one: counted(one, stretches) for one in objectives},
            hours=_hours(stretches),
        )
        return self._past.put(endpoint, past)


def missing(work: UnitOfWork, endpoint: str, now: Moment) -> tuple[int, int] | None:
    """From when to when hours are to be summed up next, a day at most."""
    last = store.last_hour(work, endpoint)
    if last is None:
        first = store.first_minute(work, endpoint)
        start = now // HOUR * HOUR if first is None else max(first, now - KEPT_FOR) // HOUR * HOUR
    else:
        start = last + HOUR
    end = min((now - _SUMMED_AFTER) // HOUR * HOUR, start + _SUMMED_AT_ONCE)
    return (start, end) if end > start else None


def sum_up(work: UnitOfWork, endpoint: Found, now: Moment) -> None:
    monitor_store.find(work, endpoint.id, hold=True)  # nobody else sums the same hours up
    between = missing(work, endpoint.id, now)
    if between is None:
        return
    start, end = between
    found: dict[tuple[int, int], list[Counts]] = {(at, 0): [Counts()] for at in range(start, end, HOUR)}
    for row in _live(endpoint, store.minutes_between(work, endpoint.id, start, end)):
        at = row.at // HOUR * HOUR
        found.pop((at, 0), None)
        found.setdefault((at, row.revision), []).append(counts_of(row))
    place = {"endpoint": endpoint.id}
    rows = [place | {"at": at, "revision": revision} | total(parts).columns() for (at, revision), parts in found.items()]
    store.add_hours(work, rows)


def _live(endpoint: Found, minutes: Iterable[Found]) -> list[Found]:
    """A shadow answers nobody: its calls are compared with others, but for those that it had no room for."""
    shadows = {arm.revision for arm in read_arms(endpoint.arms) if arm.role == "shadow"}
    return [row for row in minutes if not row.compared and (row.requests or row.revision not in shadows)]


def _hours(stretches: Sequence[Stretch]) -> dict[int, Hour]:
    found: dict[int, list[Counts]] = {}
    for one in stretches:
        found.setdefault(one.at // HOUR, []).append(one.counts)
    return {number: _hour(parts) for number, parts in found.items()}


def _hour(parts: Sequence[Counts]) -> Hour:
    refused = sum(one.shed for one in parts)
    calls, failed = sum(one.requests for one in parts) + refused, sum(one.errors for one in parts)
    return Hour(calls=calls, failed=failed, refused=refused)
