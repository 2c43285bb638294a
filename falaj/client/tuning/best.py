"""Which trials are best, held against their jobs, and the best one's model, made a version of a registered model."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.client.tuning.endings import ANOTHERS
from falaj.client.tuning.records import Kept, Records
from falaj.jobs.operations import jobs
from falaj.registry.operations import models, versions
from falaj.registry.operations.versions import Version
from falaj.registry.operations.words import ModelTag
from falaj.tracking.operations import artifacts, runs
from falaj.training.search.studies import Trial, front

_MODEL_FILE = "MLmodel"  # in every folder that MLflow calls a model


def leading(records: Records, kept: Kept, trials: Sequence[Trial], say: Callable[[str], None]) -> list[Trial]:
    """The trials that none beats. A run's tags are anybody's word: who leads by them has a job that says itself that it is of
    this run and was done, and the run's metrics say the same."""
    left = list(trials)
    while found := front(kept.study.objectives, left):
        doubts = {one.number: why for one in found if (why := _doubt(records, kept, one))}
        if not doubts:
            break
        for number, why in doubts.items():
            say(f"Trial {number} is left out of those that lead. {why}")
        left = [one for one in left if one.number not in doubts]
    return found


def _doubt(records: Records, kept: Kept, trial: Trial) -> str:
    try:
        job = records.client.call(jobs.SHOW_JOB, jobs.OneJob(project=records.project, job=trial.job)) if trial.job else None
    except (Forbidden, NotFound):
        job = None
    if job is None:
        return "It has no job that could be looked at."
    if job.run != trial.run:
        return ANOTHERS
    if job.state != "done":
        return f"Its job is {job.state}."
    seen = records.trial(kept, trial.run)
    said = () if seen is None else tuple(seen.latest.get(one.metric) for one in kept.study.objectives)
    if tuple(one and one.value for one in said) != trial.values:
        return "Its run's metrics say something else than its tags."
    return ""


def register(records: Records, study: str, trial: Trial, model: str) -> Version:
    """Raises `Invalid` where the trial's run logged no model."""
    holder, folder = _place(records, trial)
    with suppress(Conflict):  # it is there
        records.client.call(models.CREATE_MODEL, models.CreateModel(project=records.project, model=model))
    request = versions.CreateVersion(
        project=records.project,
        model=model,
        holder=holder,
        folder=folder,
        run=trial.run,
        description=f"Trial {trial.number} of the study {study}.",
        tags=(ModelTag(key="falaj.tune.study", value=study), ModelTag(key="falaj.tune.trial", value=str(trial.number))),
    )
    return records.client.call(versions.CREATE_VERSION, request)


def _place(records: Records, trial: Trial) -> tuple[str, str]:
    """Whose files, below which folder: the last model that the run logged, or else the first among its files."""
    run = records.client.call(runs.SHOW_RUN, runs.OneRun(project=records.project, run=trial.run))
    if run.models_made:
        return max(run.models_made, key=lambda made: made.step).model, ""
    request = artifacts.ListArtifacts(project=records.project, holder=trial.run, deep=True)
    names = [PurePosixPath(entry.name) for entry in records.client.call(artifacts.LIST_ARTIFACTS, request).items]
    found = [name for name in names if name.name == _MODEL_FILE] or [name for name in names if name.suffix == ".onnx"]
    if not found:
        raise Invalid(
            f"The run of trial {trial.number} logged no model, so that there is nothing to register: let the script log one, "
            "as mlflow.sklearn.log_model does, or keep an ONNX file with its run."
        )
    folder = min(found, key=lambda name: (len(name.parts), str(name))).parent
    return trial.run, "" if folder == PurePosixPath(".") else str(folder)
