"""Hosts with GPUs whose jobs are timers, and jobs on them, for the pages to show."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from falaj.app import platform
from falaj.base.clock import MINUTE, SECOND, Moment, SystemClock
from falaj.jobs.operations import jobs, nodes, queues
from falaj.jobs.operations.words import Resources
from falaj.jobs.scheduler.values import Node
from falaj.jobs.store import metering, tables
from falaj.testing.timers import TimerEngine
from tests.web.conftest import Site

WAIT = 20.0


def timers(patch: pytest.MonkeyPatch) -> TimerEngine:
    """What platforms run jobs on from now on: a host of four CPUs with two cards, and one of two CPUs."""
    nodes = (
        Node(name="gpu-1", zone="home", cpu_milli=4_000, memory_mib=65_536, cards=("H200", "H200")),
        Node(name="plain-1", zone="home", cpu_milli=2_000, memory_mib=16_384),
    )
    engine = TimerEngine("timers", nodes, SystemClock())
    patch.setattr(platform, "engines_of", lambda *_given, **_more: {"timers": engine})
    return engine


def share(site: Site, *projects: str) -> None:
    """A queue of one CPU for each project, which lend to each other."""
    quotas = (queues.QuotaOf(resource="cpu", nominal=1_000),)
    specs = [queues.QueueSpec(name=f"of-{name}", cohort="lab", quotas=quotas, projects=(name,)) for name in projects]
    request = queues.ApplyQueues(queues=tuple(specs), cohorts=(queues.CohortSpec(name="lab"),))
    site.call(queues.APPLY_QUEUES, request)


def submit(site: Site, seconds: float = 600, how: str = "", *, project: str = "fraud", **more: Any) -> Any:
    command = ("timer", str(seconds), *([how] if how else []))
    resources = Resources(**{"cpus": 1.0, "memory_mib": 64} | more.pop("resources", {}))
    token = more.pop("token", None)
    given: dict[str, Any] = {"command": command, "resources": resources, "retries": 0, "name": "train"}
    spec = jobs.Spec(**given | more)
    return site.call(jobs.SUBMIT_JOB, jobs.Submit(project=project, spec=spec), token=token).job


def show(site: Site, job: Any, project: str = "fraud") -> Any:
    return site.call(jobs.SHOW_JOB, jobs.OneJob(project=project, job=job.id))


def every(site: Site, project: str = "fraud") -> Any:
    return site.call(jobs.LIST_JOBS, jobs.ListJobs(project=project)).items


def hosts(site: Site) -> Any:
    return site.call(nodes.LIST_NODES, nodes.LIST_NODES.request()).items


def until(site: Site, job: Any, *states: str, project: str = "fraud") -> Any:
    return wait(lambda: found if (found := show(site, job, project)).state in states else None)


def wait(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def writes(engine: TimerEngine, job: Any, text: str) -> None:
    """The job's present try has written this."""
    attempt = next(attempt for attempt, launch in engine.launches.items() if launch.job == job.id)
    engine.logs[attempt] = engine.logs.get(attempt, b"") + text.encode()


def measured(site: Site, job: Any, count: int = 5) -> None:
    """As if it had been looked at so often since it was submitted."""
    rows = [
        {
            "job": job.id,
            "at": job.submitted + number * SECOND,
            "cpus": 0.5,
            "memory_mib": 32,
            "gpu_busy": 0.0,
            "gpu_memory_mib": 0,
        }
        for number in range(count)
    ]
    site.platform.database.write(lambda work: metering.add_samples(work, rows))


def filled(site: Site, minutes: int = 30) -> None:
    """Half an hour of hosts that were full of GPUs that did little."""
    now = site.platform.clock.now() // MINUTE * MINUTE
    figures = {"cpus": 6.0, "cpus_held": 4.0, "cpus_busy": 1.0, "gpus": 2.0, "gpus_held": 2.0, "gpus_busy": 0.5, "waiting": 3}
    rows = [{"at": now - number * MINUTE, "node": "", **figures} for number in range(1, minutes)]
    site.platform.database.write(lambda work: metering.add_utilisation(work, rows))


def submitted_at(site: Site, job: Any, moment: int) -> None:
    changed = update(tables.jobs).where(tables.jobs.c.id == job.id).values(submitted=Moment(moment))
    site.platform.database.write(lambda work: work.execute(changed))
