"""Stops a study: from its runs and their jobs alone, so that it can be stopped whatever its tags say, and without Optuna."""

import time
from contextlib import suppress

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.client.tuning.endings import OVER, UNENDED, ending
from falaj.client.tuning.records import RUNNING, Kept, Records, read_kept, read_run
from falaj.jobs.operations import jobs
from falaj.tracking.operations.experiments import Experiment
from falaj.tracking.operations.runs import Run
from falaj.training.search import written

_WORDS = "Somebody stopped it."


def stop(records: Records, study: Experiment) -> int:
    """How many trials it has. Those that run are cancelled; those that ended meanwhile count as what they came to."""
    records.stop(study.id)
    try:
        kept = read_kept(study)
    except Invalid:  # somebody changed its tags; what runs is stopped all the same
        kept = None
    for run in records.runs(study.id, RUNNING, state="active"):
        if _is_trial(records, study, run):
            _end(records, kept, run)
    return sum(_is_trial(records, study, run) for run in records.runs(study.id, state="active"))


def _is_trial(records: Records, study: Experiment, run: Run) -> bool:
    number = written.read_number({tag.key: tag.value for tag in run.tags})
    return number is not None and run.info.id == written.run_id(records.project, study.id, int(study.created), number)


def _end(records: Records, kept: Kept | None, run: Run) -> None:
    job = _job(records, run)
    if kept is not None and job is not None and job.state in OVER and run.info.status not in UNENDED:
        seen = read_run(records.project, kept, run)
        ended = None if seen is None else ending(kept.study, seen.trial, seen, job, time.time())
        if ended is not None:
            records.settle(ended.trial, ended.metrics)
            return
    records.note(run.info.id, {written.STATE: "cancelled", written.WORDS: _WORDS})
    if job is not None and job.state not in OVER:
        with suppress(Conflict, NotFound):  # it is over by now
            records.client.call(jobs.CANCEL_JOB, jobs.Cancel(project=records.project, job=job.id, reason=_WORDS))


def _job(records: Records, run: Run) -> jobs.Job | None:
    """The one that says itself that it is of this run; the run's tags may name any."""
    named = written.read_job({tag.key: tag.value for tag in run.tags})
    if not named:
        return None
    try:
        job = records.client.call(jobs.SHOW_JOB, jobs.OneJob(project=records.project, job=named))
    except NotFound:
        return None
    return job if job.run == run.info.id else None
