"""How the hosts were used and by whom, what is odd about it, and what would help."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from falaj.base.clock import DAY, MINUTE, Moment
from falaj.collaboration.people import persons
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.projects.store import project_by_id
from falaj.jobs.operations import nodes as declared
from falaj.jobs.operations.nodes import Capacity, UsedBy, UtilisationPoint
from falaj.jobs.store import metering as store
from falaj.jobs.store.metering import By
from falaj.jobs.store.tables import Found

_POINTS: Final = 500
_KINDS: Final[tuple[By, ...]] = ("queue", "project", "user", "node")


class CapacityService:
    def bindings(self) -> list[Bound]:
        return [bind(declared.READ_CAPACITY_REPORT, self.report)]

    def report(self, context: Context, request: declared.ReadCapacity) -> Capacity:
        since, until = Moment(context.now - request.days * DAY), context.now
        every = _every(request.days)
        points = tuple(_point(row) for row in store.utilisation_between(context.work, since, until, every=every))
        used = tuple(
            entry
            for kind in _KINDS
            for entry in _used(context, kind, store.sums(context.work, kind, since=since, until=Moment(until + 1)))
        )
        return Capacity(points=points, used=used, advice=tuple(_advice(points, used)), flags=tuple(_flags(points, used)))


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


def _used(context: Context, kind: By, rows: Sequence[Found]) -> Iterable[UsedBy]:
    names: dict[str, str] = {}
    if kind == "user":
        names = {id: one.name or id for id, one in persons(context.work, {row.name for row in rows}).items()}
    if kind == "project":
        found = {row.name: project_by_id(context.work, row.name) for row in rows}
        names = {id: project.name for id, project in found.items() if project is not None}
    for row in rows:
        yield UsedBy(
            kind=kind,
            name=names.get(row.name, row.name),
            cpu_seconds_asked=row.cpu_seconds_asked,
            cpu_seconds=row.cpu_seconds,
            gpu_seconds=row.gpu_seconds,
            gpu_busy_seconds=row.gpu_busy_seconds,
            gpu_idle_seconds=max(0.0, row.gpu_seconds - row.gpu_busy_seconds),
            energy_joules=row.energy_joules,
            cost=int(row.cost),
            jobs=row.jobs,
        )


def _advice(points: Sequence[UtilisationPoint], used: Sequence[UsedBy]) -> Iterable[str]:
    """What the figures say should be done, the weightiest first."""
    if not points:
        return
    for what, there, held, busy in (
        ("GPUs", "gpus", "gpus_held", "gpus_busy"),
        ("CPUs", "cpus", "cpus_held", "cpus_busy"),
    ):
        whole = sum(getattr(one, there) for one in points)
        if not whole:
            continue
        full = [one for one in points if getattr(one, held) > 0.95 * getattr(one, there)]
        waited = sum(one.waiting > 0 for one in full) / len(points)
        kept, worked = (sum(getattr(one, name) for one in points) / whole for name in (held, busy))
        if waited > 0.2:
            yield (
                f"All {what} were held while jobs waited for {waited:.0%} of the time: `falaj queue simulate --nodes 1` says"
                " what one more host would change."
            )
        if kept > 0.3 and worked < 0.5 * kept:
            yield f"{what} are held {kept:.0%} of the time and compute {worked:.0%} of it: jobs ask for more than they use."
        if kept < 0.2:
            yield f"{what} are held only {kept:.0%} of the time: fewer hosts would do."
    idle = sorted((one for one in used if one.kind == "project"), key=lambda one: -one.gpu_idle_seconds)
    if idle and idle[0].gpu_idle_seconds > 3600:
        yield (
            f"The project {idle[0].name} holds GPUs that do nothing ({idle[0].gpu_idle_seconds / 3600:.0f} GPU hours): set"
            " idle_gpu for its queue."
        )


def _flags(points: Sequence[UtilisationPoint], used: Sequence[UsedBy]) -> Iterable[str]:
    """What stands out: a sudden loss of hosts, a queue that only grows."""
    for before, after in pairwise(points):
        if after.cpus < 0.7 * before.cpus or after.gpus < 0.7 * before.gpus:
            lost = f"{before.cpus:g} to {after.cpus:g} CPUs, {before.gpus:g} to {after.gpus:g} GPUs"
            yield f"At {str(after.at)[:16]}Z hosts went away: {lost}."
    tail = [one.waiting for one in points[-20:]]
    if len(tail) == 20 and tail[-1] > 10 and all(later >= earlier for earlier, later in pairwise(tail)):
        yield f"Ever more jobs wait: {tail[0]} to {tail[-1]}."
