"""The best trial's model, made a version of a registered model."""

from contextlib import suppress
from pathlib import PurePosixPath

from falaj.base.errors import Conflict, Invalid
from falaj.client.tuning.records import Records
from falaj.registry.operations import models, versions
from falaj.registry.operations.versions import Version
from falaj.registry.operations.words import ModelTag
from falaj.tracking.operations import artifacts, runs
from falaj.training.search.studies import Trial

_MODEL_FILE = "MLmodel"  # in every folder that MLflow calls a model


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
