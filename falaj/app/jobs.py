"""Jobs wired to what they stand on: engines by the settings, prices, and the runs that `tracking` keeps."""

import logging
from pathlib import Path
from typing import Final

from falaj.app.settings import JobSettings
from falaj.base.clock import Moment
from falaj.base.errors import Misconfigured, NotFound
from falaj.database.work import Context, UnitOfWork
from falaj.jobs.engines.engine import Engine
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.pricing import PriceList
from falaj.tracking.experiments import ExperimentService
from falaj.tracking.operations.experiments import CreateExperiment, FindExperiment
from falaj.tracking.operations.runs import CreateRun
from falaj.tracking.operations.words import Tag
from falaj.tracking.runs import RunService
from falaj.tracking.store.runs import ACTIVE, change_run, find_run

_MILLIONTHS: Final = 1_000_000
_UNFINISHED: Final = ("RUNNING", "SCHEDULED")
_STATUS: Final = {"done": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}  # by the state of the job
log = logging.getLogger(__name__)


class JobRuns:
    """The runs that jobs write to. What a job does to its run is its own; what is left undone when it ends is done here."""

    def __init__(self) -> None:
        self._experiments = ExperimentService()
        self._runs = RunService()

    def make(self, context: Context, experiment: str, name: str, job: str) -> str:
        project = context.required_project.name
        try:
            number = self._experiments.find(context, FindExperiment(project=project, name=experiment)).id
        except NotFound:
            number = self._experiments.create(context, CreateExperiment(project=project, name=experiment)).id
        tags = (Tag(key="falaj.job", value=job),)
        return self._runs.create(context, CreateRun(project=project, experiment=number, name=name, tags=tags)).info.id

    def has(self, context: Context, run: str) -> bool:
        found = find_run(context.work, context.required_project.id, run)
        return found is not None and found.deleted == ACTIVE

    def finish(self, work: UnitOfWork, project: str, run: str, state: str, ended: Moment) -> None:
        found = find_run(work, project, run)
        if found is not None and found.status in _UNFINISHED:
            change_run(work, project, run, status=_STATUS[state], ended=ended // 1000, name=None)


def engines_of(settings: JobSettings, directory: Path, zone: str, hidden: tuple[Path, ...]) -> dict[str, Engine]:
    """By name. `hidden` is what no job may see, wherever it lies."""
    found: dict[str, Engine] = {}
    if settings.local:
        try:
            found["local"] = LocalEngine(directory, Site(zone=zone, hidden=hidden))
        except Misconfigured as error:
            log.warning("no jobs run on this host: %s", error)
    return found


def prices_of(settings: JobSettings) -> PriceList:
    gpus = {model: round(price * _MILLIONTHS) for model, price in _read_gpus(settings.price_gpu_models).items()}
    return PriceList(
        core=round(settings.price_cpu * _MILLIONTHS),
        memory_gib=round(settings.price_memory_gib * _MILLIONTHS),
        gpu=round(settings.price_gpu * _MILLIONTHS),
        gpus=gpus,
    )


def _read_gpus(texts: tuple[str, ...]) -> dict[str, float]:
    """`H200=4.5` each."""
    return {model.strip(): float(price) for model, _, price in (text.partition("=") for text in texts)}
