"""What can be done with datasets as such: names for a line of versions."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, NameOrNone, Nothing, value
from falaj.datasets.operations.words import READ, WRITE, Description, ExternalKind, TagName, VersionWord


@value
class CreateDataset(Message):
    """`zone` may be left out: the project's first. All versions are kept in it."""

    project: Name
    dataset: Name
    description: Description = ""
    zone: NameOrNone = ""


@value
class DatasetTag(Message):
    tag: str
    version: int


@value
class External(Message):
    """Where the rows are that are not kept here: which table of which place."""

    place: Name
    kind: ExternalKind
    table: str


@value
class Dataset(Message):
    """`current` is the number of the version that the name alone means; 0 where there is none yet. Of one that is `external`
    the rows stay where they are."""

    id: Id
    name: Name
    description: Description
    zone: str
    current: int
    versions: int
    rows: int
    size: int
    tags: tuple[DatasetTag, ...]
    created: Moment
    changed: Moment
    created_by: str
    external: External | None = None


@value
class OneDataset(Message):
    project: Name
    dataset: Name


@value
class DeleteDataset(Message):
    """One that something was made of, or that a feature view reads, is deleted only where that is said (`even_if_needed`)."""

    project: Name
    dataset: Name
    even_if_needed: bool = False


@value
class ListDatasets(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Datasets(Message):
    items: tuple[Dataset, ...]
    next: str = ""


@value
class DescribeDataset(Message):
    project: Name
    dataset: Name
    description: Description


@value
class TagVersion(Message):
    """`version` is a number, another tag, or `current`."""

    project: Name
    dataset: Name
    tag: TagName
    version: VersionWord


@value
class UntagVersion(Message):
    project: Name
    dataset: Name
    tag: TagName


CREATE_DATASET: Final = Operation(
    name="dataset.create",
    summary="Create a dataset, still without versions.",
    method="POST",
    path="projects/{project}/datasets",
    request=CreateDataset,
    result=Dataset,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_DATASETS: Final = Operation(
    name="dataset.list",
    summary="List a project's datasets by name.",
    method="GET",
    path="projects/{project}/datasets",
    request=ListDatasets,
    result=Datasets,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_DATASET: Final = Operation(
    name="dataset.show",
    summary="Show a dataset: its current version, tags, how many rows.",
    method="GET",
    path="projects/{project}/datasets/{dataset}",
    request=OneDataset,
    result=Dataset,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DESCRIBE_DATASET: Final = Operation(
    name="dataset.describe",
    summary="Set a dataset's description.",
    method="PUT",
    path="projects/{project}/datasets/{dataset}/description",
    request=DescribeDataset,
    result=Dataset,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_DATASET: Final = Operation(
    name="dataset.delete",
    summary="Delete a dataset with all its versions; their keys are forgotten, so that nobody can read them any more.",
    method="DELETE",
    path="projects/{project}/datasets/{dataset}",
    request=DeleteDataset,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
TAG_VERSION: Final = Operation(
    name="dataset.tag",
    summary="Let a tag mean a version; one that is there already is moved.",
    method="PUT",
    path="projects/{project}/datasets/{dataset}/tags/{tag}",
    request=TagVersion,
    result=Dataset,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
UNTAG_VERSION: Final = Operation(
    name="dataset.untag",
    summary="Remove a tag; the version stays.",
    method="DELETE",
    path="projects/{project}/datasets/{dataset}/tags/{tag}",
    request=UntagVersion,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    CREATE_DATASET,
    LIST_DATASETS,
    SHOW_DATASET,
    DESCRIBE_DATASET,
    DELETE_DATASET,
    TAG_VERSION,
    UNTAG_VERSION,
)
