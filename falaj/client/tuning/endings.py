"""What became of a trial whose job is over, decided from what its run and its job say. Pure."""

from dataclasses import replace
from typing import Final

from falaj.base.clock import SECOND
from falaj.base.values import value
from falaj.client.tuning.records import Seen
from falaj.jobs.operations.jobs import Job
from falaj.tracking.operations.words import Metric
from falaj.training.search.studies import Study, Trial, finite

OVER: Final = ("done", "failed", "cancelled")  # states of a job
UNENDED: Final = ("RUNNING", "SCHEDULED")  # of a run
OF_JOB: Final = ("job.seconds", "job.cost")  # metrics that no script has to measure
ANOTHERS: Final = "Its run names a job of another."


@value
class Ending:
    """`metrics` are to be told to its run with it."""

    trial: Trial
    metrics: tuple[Metric, ...] = ()


def ending(study: Study, trial: Trial, seen: Seen, job: Job, now: float) -> Ending | None:
    """None while its job is not over. Only a job counts that says itself that it is of this run."""
    if job.run != trial.run:
        return _failed(trial, ANOTHERS)
    if job.state not in OVER:
        return None
    if job.state == "cancelled":
        return Ending(trial=replace(trial, state="cancelled", words=job.words or "Its job was cancelled."))
    if job.state == "failed":
        return _failed(trial, job.words or "Its job failed.")
    took = 0.0 if job.started is None or job.ended is None else (job.ended - job.started) / SECOND
    measured = dict(zip(OF_JOB, (took, job.usage.cost / 1e6), strict=True))
    wanted = [one.metric for one in study.objectives]
    found = measured | {name: metric.value for name, metric in seen.latest.items()}
    if missing := [name for name in wanted if name not in found]:
        reported = ", ".join(sorted(seen.latest)[:10]) or "nothing"
        return _failed(trial, f"It ended without reporting {' and '.join(missing)}; it reported {reported}.")
    values = tuple(float(found[name]) for name in wanted)
    if not finite(values):
        return _failed(trial, f"{wanted[0]} is {values[0]}: no number to compare.")
    unsaid = [key for key in wanted if key in measured and key not in seen.latest]
    told = tuple(Metric(key=key, value=measured[key], timestamp=int(now * 1000)) for key in unsaid)
    return Ending(trial=replace(trial, state="complete", values=values), metrics=told)


def _failed(trial: Trial, words: str) -> Ending:
    return Ending(trial=replace(trial, state="failed", words=words))
