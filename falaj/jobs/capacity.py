"""How the hosts were used and by whom, up to now. What follows from it is in `advising`."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import DAY, MINUTE, SECOND, Moment
from falaj.base.errors import NotFound
from falaj.collaboration.people import persons
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, UnitOfWork
from falaj.governance.projects.store import project_by_id, project_named
from falaj.jobs.advising import advice, flags
from falaj.jobs.operations import nodes as declared
from falaj.jobs.operations.nodes import Capacity, LevelMet, UsedBy, UtilisationPoint
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.values import CARD, Running
from falaj.jobs.standing import Standing, node_of, present_document
from falaj.jobs.store import attempts as attempt_store
from falaj.jobs.store import jobs as job_store
from falaj.jobs.store import metering as store
from falaj.jobs.store import nodes as node_store
from falaj.jobs.store.metering import By
from falaj.jobs.store.tables import Found
from falaj.jobs.views import usage_of

_POINTS: Final = 500
_KINDS: Final[tuple[By, ...]] = ("queue", "project", "user", "node")
_MOST_NAMED: Final = 20
_MINUTES_KEPT: Final = 14  # days; of what lies further back, every fifteenth
_ENDED: Final = ("cpu_seconds_asked", "cpu_seconds", "gpu_seconds", "gpu_busy_seconds", "energy_joules", "cost", "jobs")

Amounts = dict[str, float]


class CapacityService:
    """What runs counts as far as it was last measured; its cost is known when it is over."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.READ_CAPACITY_REPORT, self._stands, self.report)]

    def report(self, context: Context, request: declared.ReadCapacity, facts: Facts) -> Capacity:
        work, since, until = context.work, Moment(context.now - request.days * DAY), context.now
        every = _every(request.days)
        points = tuple(_point(row) for row in store.utilisation_between(work, since, until, every=every))
        going = attempt_store.going(work)
        used = (
            *_used_by(work, _amounts(work, facts.running, going, since, until)),
            *_used_cards(work, since, until, request.days),
        )
        course = _course(work, request, facts, used, since, until) if request.of else points
        odd = flags(points, node_store.every(work), going, _projects(work, {row.project for row in going}), until)
        return Capacity(
            points=tuple(course),
            used=used,
            advice=tuple(advice(points, used)),
            flags=tuple(odd),
            levels=tuple(_levels(work, since, until)),
        )

    def _stands(self, context: Context, request: object) -> Facts:
        return self._standing.facts()


def _levels(work: UnitOfWork, since: Moment, now: Moment) -> Iterable[LevelMet]:
    for one in present_document(work).priorities:
        if within := one.start_within_seconds:
            due, met = job_store.started_in_time(work, one.name, within * SECOND, since, now)
            yield LevelMet(priority=one.name, start_within_seconds=within, jobs=due, met=met)


def _course(
    work: UnitOfWork, request: declared.ReadCapacity, facts: Facts, used: Iterable[UsedBy], since: Moment, until: Moment
) -> Iterable[UtilisationPoint]:
    """The use over time of the one that was asked for. Raises `NotFound` where nobody of that name is, or did anything."""
    active = {one.name for one in used if one.kind == request.of}
    every, name = _every(request.days), request.name
    if request.of == "project":
        project = project_named(work, name)
        if project is None:
            raise NotFound(f"There is no project {name!r}{_named(active, 'those with jobs are')}")
        return map(_point, store.utilisation_of(work, "project", project.id, since, until, every))
    if request.of == "queue":
        _require("queue", name, active | {one.name for one in facts.queues})
        return map(_point, store.utilisation_of(work, "queue", name, since, until, every))
    _require("host", name, active | {row.name for row in node_store.every(work)})
    found = [_point(row) for row in store.utilisation_of(work, "node", name, since, until, every)]
    return _against_what_it_has(found, node_store.find(work, name))


def _require(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise NotFound(f"There is no {what} {name!r}{_named(known, 'there are')}")


def _named(known: Iterable[str], words: str) -> str:
    names = sorted(known)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"; {words} {', '.join(names[:_MOST_NAMED])}{more}." if names else "."


def _against_what_it_has(points: Sequence[UtilisationPoint], host: Found | None) -> Iterable[UtilisationPoint]:
    """Of a host, minutes at rest are not written, and with them what it has; it had that all the same."""
    node = None if host is None else node_of(host)
    cpus = node.cpu_milli / 1000 if node is not None else max((one.cpus for one in points), default=0.0)
    gpus = len(node.cards) if node is not None else max((one.gpus for one in points), default=0.0)
    return (one if one.cpus else replace(one, cpus=cpus, gpus=float(gpus)) for one in points)


def _every(days: int) -> int:
    """The finest grain of whole minutes that makes few enough points."""
    minutes = -(-days * 24 * 60 // _POINTS)
    return next(grain for grain in (1, 5, 15, 60, 180, 720, 1440) if grain >= minutes or grain == 1440) * MINUTE


def _point(row: Found) -> UtilisationPoint:
    return UtilisationPoint(
        at=Moment(row.at),
        cpus=row.cpus,
        cpus_held=row.cpus_held,
        cpus_busy=row.cpus_busy,
        gpus=row.gpus,
        gpus_held=row.gpus_held,
        gpus_busy=row.gpus_busy,
        waiting=row.waiting,
    )


def _amounts(
    work: UnitOfWork, running: Iterable[Running], going: Sequence[Found], since: Moment, until: Moment
) -> Mapping[tuple[By, str], Amounts]:
    """By a kind of owner and its name: what ended in the span, and what runs."""
    found: dict[tuple[By, str], Amounts] = defaultdict(lambda: dict.fromkeys(_ENDED, 0.0))
    for kind in _KINDS:
        for row in store.sums(work, kind, since=since, until=Moment(until + 1)):
            found[kind, row.name] |= {name: float(getattr(row, name)) for name in _ENDED}
    attempts = {row.job: row for row in going if row.started is not None}
    for one in running:
        if (attempt := attempts.get(one.job.id)) is not None:
            for owner, amounts in _of_running(one, attempt, since, until):
                mine = found[owner]
                found[owner] = {name: mine[name] + amounts.get(name, 0.0) for name in _ENDED}
    return found


def _of_running(one: Running, attempt: Found, since: Moment, until: Moment) -> Iterable[tuple[tuple[By, str], Amounts]]:
    job, usage, began = one.job, usage_of(attempt.usage), Moment(attempt.started)
    seconds = max(0, until - max(began, since)) / SECOND
    in_span = seconds * SECOND / max(1, until - began)
    tasks = Counter(seat.node for seat in one.placement)
    whole = len(one.placement)
    owners: list[tuple[tuple[By, str], int]] = [(("queue", job.queue), whole), (("project", job.project), whole)]
    owners += [(("user", job.user), whole), *((("node", node), many) for node, many in tasks.items())]
    for owner, many in owners:
        part = in_span * many / whole
        yield (
            owner,
            {
                "cpu_seconds_asked": job.shape.cpu_milli / 1000 * many * seconds,
                "cpu_seconds": usage.cpu_seconds * part,
                "gpu_seconds": job.shape.gpus * job.shape.gpu_milli / CARD * many * seconds,
                "gpu_busy_seconds": usage.gpu_busy_seconds * part,
                "energy_joules": usage.energy_joules * part,
                "jobs": float(attempt.number == 1),
            },
        )


def _used_by(work: UnitOfWork, amounts: Mapping[tuple[By, str], Amounts]) -> Iterable[UsedBy]:
    people = {id: one.name or id for id, one in persons(work, {name for kind, name in amounts if kind == "user"}).items()}
    projects = _projects(work, {name for kind, name in amounts if kind == "project"})
    named = {"user": people, "project": projects}
    for (kind, name), found in sorted(amounts.items(), key=lambda one: (_KINDS.index(one[0][0]), one[0][1])):
        yield UsedBy(
            kind=kind,
            name=named.get(kind, {}).get(name, name),
            cpu_seconds_asked=found["cpu_seconds_asked"],
            cpu_seconds=found["cpu_seconds"],
            gpu_seconds=found["gpu_seconds"],
            gpu_busy_seconds=found["gpu_busy_seconds"],
            gpu_idle_seconds=max(0.0, found["gpu_seconds"] - found["gpu_busy_seconds"]),
            energy_joules=found["energy_joules"],
            cost=int(found["cost"]),
            jobs=int(found["jobs"]),
        )


def _used_cards(work: UnitOfWork, since: Moment, until: Moment, days: int) -> Iterable[UsedBy]:
    """Each card that says what it does."""
    every = MINUTE if days <= _MINUTES_KEPT else 15 * MINUTE
    for row in store.card_sums(work, since, until, every):
        seconds = every / SECOND
        yield UsedBy(
            kind="gpu",
            name=f"{row.node} GPU {row.card} ({row.model})",
            cpu_seconds_asked=0.0,
            cpu_seconds=0.0,
            gpu_seconds=row.held * seconds,
            gpu_busy_seconds=row.busy * seconds,
            gpu_idle_seconds=row.idle * seconds,
            energy_joules=0.0,
            cost=0,
            jobs=0,
        )


def _projects(work: UnitOfWork, ids: Iterable[str]) -> Mapping[str, str]:
    found = {id: project_by_id(work, id) for id in ids}
    return {id: project.name for id, project in found.items() if project is not None}
