"""Jobs that need somebody: they wait for long, or failed today. What the home page asks of each project, and says of it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from falaj.base.clock import DAY, Moment
from falaj.base.values import value
from falaj.jobs.operations.jobs import ListJobs
from falaj.web.jobs.amounts import between, sentence
from falaj.web.jobs.listing import waits_long

LOOKED_AT: Final = 100  # of each project, the newest
TOLD_APART: Final = 3  # of one project; more are told as one


@value
class Stuck:
    """One job, or several of one project. `failed`: otherwise they wait."""

    project: str
    failed: bool
    title: str
    detail: str
    path: str


def waiting(projects: Iterable[str]) -> list[ListJobs]:
    return [ListJobs(project=project, state="waiting", limit=LOOKED_AT) for project in projects]


def over(projects: Iterable[str]) -> list[ListJobs]:
    return [ListJobs(project=project, state="over", limit=LOOKED_AT) for project in projects]


def stuck(me: str, now: Moment, waits: dict[ListJobs, Any], ended: dict[ListJobs, Any]) -> list[Stuck]:
    """Only the reader's own jobs: what colleagues run is theirs to look after. Those that failed come first."""
    told: list[Stuck] = []
    for asked, found in ended.items():
        failed = [job for job in _not_better_since(found.items) if job.submitted_by.id == me and now - job.ended < DAY]
        told += _told(asked.project, failed, now, failed=True)
    for asked, found in waits.items():
        long = [job for job in found.items if job.submitted_by.id == me and waits_long(job, now)]
        told += _told(asked.project, long, now, failed=False)
    return told


def _not_better_since(jobs: Sequence[Any]) -> list[Any]:
    """Those that failed and of which no later one of that name was done; `jobs` are newest first."""
    done: set[str] = set()
    failed = []
    for job in jobs:
        if job.state == "done":
            done.add(job.name)
        elif job.state == "failed" and job.name not in done:
            failed.append(job)
    return failed


def _told(project: str, jobs: Sequence[Any], now: Moment, *, failed: bool) -> list[Stuck]:
    base = f"/projects/{project}/jobs"
    if len(jobs) > TOLD_APART:
        what = "failed today" if failed else "have waited for more than an hour"
        names = ", ".join(dict.fromkeys(job.name for job in jobs[:5]))
        path = f"{base}?state={'failed' if failed else 'waiting'}"
        title, detail = f"{len(jobs)} of your jobs {what}", f"In {project}: {names}."
        return [Stuck(project=project, failed=failed, title=title, detail=detail, path=path)]
    return [_one(project, job, now, f"{base}/{job.id}", failed=failed) for job in jobs]


def _one(project: str, job: Any, now: Moment, path: str, *, failed: bool) -> Stuck:
    if failed:
        title, detail = f"Job {job.name} failed", f"In {project}. {sentence(job.words)}"
    else:
        title = f"Job {job.name} has waited for {between(job.submitted, now)}"
        detail = f"In {project}, queue {job.queue}. Its page says why, and when it will start."
    return Stuck(project=project, failed=failed, title=title, detail=detail, path=path)
