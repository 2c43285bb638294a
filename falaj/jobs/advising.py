"""What the figures say: what stands out about hosts and jobs, and what would help."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from falaj.base.clock import SECOND, Moment
from falaj.jobs.nodes import SILENT
from falaj.jobs.operations.nodes import UsedBy, UtilisationPoint
from falaj.jobs.outcomes import span_text
from falaj.jobs.store.tables import Found

_MOST: Final = 20  # of each kind


def advice(points: Sequence[UtilisationPoint], used: Sequence[UsedBy]) -> Iterable[str]:
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


def flags(
    points: Sequence[UtilisationPoint],
    nodes: Iterable[Found],
    going: Iterable[Found],
    projects: Mapping[str, str],
    now: Moment,
) -> Iterable[str]:
    """What stands out: hosts that are silent or went away, jobs that do not do what they asked for, a line that only grows."""
    yield from list(_quiet_hosts(nodes, now))[:_MOST]
    yield from list(_odd_jobs(going, projects))[:_MOST]
    for before, after in pairwise(points):
        if after.cpus < 0.7 * before.cpus or after.gpus < 0.7 * before.gpus:
            lost = f"{before.cpus:g} to {after.cpus:g} CPUs, {before.gpus:g} to {after.gpus:g} GPUs"
            yield f"At {str(after.at)[:16]}Z hosts went away: {lost}."
    tail = [one.waiting for one in points[-20:]]
    if len(tail) == 20 and tail[-1] > 10 and all(later >= earlier for earlier, later in pairwise(tail)):
        yield f"Ever more jobs wait: {tail[0]} to {tail[-1]}."


def _quiet_hosts(nodes: Iterable[Found], now: Moment) -> Iterable[str]:
    for row in nodes:
        if row.lost is not None or now - row.seen > SILENT:
            what = "is lost" if row.lost is not None else "is silent"
            yield f"The host {row.name} {what}: last heard of {span_text((now - row.seen) / SECOND)} ago."


def _odd_jobs(going: Iterable[Found], projects: Mapping[str, str]) -> Iterable[str]:
    for row in going:
        for words in msgspec.json.decode(row.odd, type=dict[str, str]).values():
            yield f"Job {row.job[-8:]} of project {projects.get(row.project, row.project)}: {words}"
