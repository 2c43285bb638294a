"""What an MLflow holds, whichever way it is read, and what a way to read it must offer."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from falaj.base.errors import PermanentError
from falaj.base.values import value
from falaj.registry.operations.words import Stage
from falaj.tracking.operations.models import ModelMetric, ModelStatus
from falaj.tracking.operations.runs import DatasetInput
from falaj.tracking.operations.words import Metric, Param, Status, Tag


class OutOfReach(PermanentError):
    """Artifacts that lie where this command cannot or may not read; the message is that place alone, so that it is counted."""


@value
class Experiment:
    id: str
    name: str
    deleted: bool
    tags: tuple[Tag, ...]


@value
class Run:
    """`latest` is the last value of each metric; `place` is where the artifacts lie, as the source spells it."""

    id: str
    experiment: str
    name: str
    user: str
    status: Status
    started: int
    ended: int | None
    deleted: bool
    params: tuple[Param, ...]
    tags: tuple[Tag, ...]
    latest: tuple[Metric, ...]
    datasets: tuple[DatasetInput, ...]
    models_used: tuple[str, ...]
    models_made: tuple[tuple[str, int], ...]  # id and step
    place: str


@value
class LoggedModel:
    id: str
    experiment: str
    name: str
    kind: str
    run: str
    status: ModelStatus
    params: tuple[Param, ...]
    tags: tuple[Tag, ...]
    metrics: tuple[ModelMetric, ...]
    place: str


@value
class Version:
    """`place` is where its files lie, where that is known beside `source`, which is what its maker said."""

    version: int
    description: str
    source: str
    place: str
    run: str
    stage: Stage
    tags: tuple[Tag, ...]


@value
class Registered:
    """A registered model with its versions in the order of their numbers."""

    name: str
    description: str
    tags: tuple[Tag, ...]
    aliases: tuple[tuple[str, int], ...]
    versions: tuple[Version, ...]


@value
class File:
    """An artifact of a run or a logged model, by its name relative to where all of theirs lie."""

    name: str
    size: int


class Source(Protocol):
    """An existing MLflow, only ever read. Thread-safe; raises `Unavailable` where trying again may help.

    `label` says which one it is, without secrets.
    """

    label: str

    def totals(self, wanted: Collection[str]) -> Mapping[str, int]:
        """How much there is of the kinds that are counted quickly, in the experiments of these names or in all."""

    def experiments(self) -> Iterator[Experiment]: ...

    def runs(self, experiment: str) -> Iterator[Run]: ...

    def points(self, run: Run) -> Iterator[Metric]:
        """The whole history of every metric of a run."""

    def logged_models(self, experiment: str) -> Iterator[LoggedModel]: ...

    def registered(self) -> Iterator[Registered]: ...

    def files(self, holder: Run | LoggedModel) -> Iterator[File]:
        """Raises `OutOfReach` where they cannot be read from here."""

    def opened(self, holder: Run | LoggedModel, file: File) -> AbstractContextManager[Iterator[bytes]]:
        """The bytes of one file."""
