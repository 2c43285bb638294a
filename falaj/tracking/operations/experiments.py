"""What can be done with experiments."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Message, Name, Nothing, value
from falaj.tracking.operations.words import ExperimentNumber, Filter, Key, Order, Remark, State, Tag, Tags, Title


@value
class CreateExperiment(Message):
    project: Name
    name: Title
    tags: Tags = ()


@value
class Experiment(Message):
    id: ExperimentNumber
    name: Title
    deleted: bool
    tags: tuple[Tag, ...]
    created: Moment
    changed: Moment
    created_by: str


@value
class OneExperiment(Message):
    project: Name
    experiment: ExperimentNumber


@value
class FindExperiment(Message):
    project: Name
    name: Title


@value
class SearchExperiments(Message):
    """`filter` and `order` are MLflow's language: `name LIKE 'fraud%' AND tags.team = 'risk'`, `creation_time DESC`."""

    project: Name
    filter: Filter = ""
    order: Order = ()
    state: State = "active"
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Experiments(Message):
    items: tuple[Experiment, ...]
    next: str = ""


@value
class RenameExperiment(Message):
    project: Name
    experiment: ExperimentNumber
    name: Title


@value
class TagExperiment(Message):
    project: Name
    experiment: ExperimentNumber
    key: Key
    value: Remark = ""


@value
class UntagExperiment(Message):
    project: Name
    experiment: ExperimentNumber
    key: Key


_WRITE: Final = Permission(name="experiment.write", group=Group.WRITE)
_READ: Final = Permission(name="experiment.read", group=Group.READ)

CREATE_EXPERIMENT: Final = Operation(
    name="experiment.create",
    summary="Create an experiment.",
    method="POST",
    path="projects/{project}/experiments",
    request=CreateExperiment,
    result=Experiment,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_EXPERIMENT: Final = Operation(
    name="experiment.show",
    summary="Show an experiment.",
    method="GET",
    path="projects/{project}/experiments/{experiment}",
    request=OneExperiment,
    result=Experiment,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
FIND_EXPERIMENT: Final = Operation(
    name="experiment.find",
    summary="Find an experiment by its name.",
    method="GET",
    path="projects/{project}/experiment-named",
    request=FindExperiment,
    result=Experiment,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SEARCH_EXPERIMENTS: Final = Operation(
    name="experiment.search",
    summary="Search a project's experiments, newest first unless ordered otherwise.",
    method="POST",
    path="projects/{project}/experiments/search",
    request=SearchExperiments,
    result=Experiments,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
RENAME_EXPERIMENT: Final = Operation(
    name="experiment.rename",
    summary="Give an experiment another name.",
    method="PUT",
    path="projects/{project}/experiments/{experiment}/name",
    request=RenameExperiment,
    result=Experiment,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_EXPERIMENT: Final = Operation(
    name="experiment.delete",
    summary="Hide an experiment and its runs; restoring brings them back.",
    method="DELETE",
    path="projects/{project}/experiments/{experiment}",
    request=OneExperiment,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RESTORE_EXPERIMENT: Final = Operation(
    name="experiment.restore",
    summary="Bring a deleted experiment back, with the runs that went with it.",
    method="POST",
    path="projects/{project}/experiments/{experiment}/restore",
    request=OneExperiment,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
TAG_EXPERIMENT: Final = Operation(
    name="experiment.tag",
    summary="Set a tag of an experiment; `mlflow.note.content` is its note.",
    method="PUT",
    path="projects/{project}/experiments/{experiment}/tags",
    request=TagExperiment,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
UNTAG_EXPERIMENT: Final = Operation(
    name="experiment.untag",
    summary="Remove a tag of an experiment.",
    method="DELETE",
    path="projects/{project}/experiments/{experiment}/tags",
    request=UntagExperiment,
    result=Nothing,
    permission=_WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    CREATE_EXPERIMENT,
    SHOW_EXPERIMENT,
    FIND_EXPERIMENT,
    SEARCH_EXPERIMENTS,
    RENAME_EXPERIMENT,
    DELETE_EXPERIMENT,
    RESTORE_EXPERIMENT,
    TAG_EXPERIMENT,
    UNTAG_EXPERIMENT,
)
