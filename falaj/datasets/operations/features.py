"""What can be done with feature views: defining them, joining labels with them, and keeping their newest values for serving."""

from typing import Annotated, Any, Final

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Personal, Text, value
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import READ, WRITE, ColumnName, DatasetRef, Description
from falaj.tables.joining.views import Feature, Key, Period
from falaj.tables.schemas import Column

MOST_FEATURES: Final = 1000
MOST_ENTITIES: Final = 1000
# `clicks`, `clicks@2`, `clicks:clicks_7d` or `clicks@2:clicks_7d`.
FeatureRef = Annotated[
    str,
    Text(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,99}(@[1-9][0-9]{0,8})?(:[^\x00]{1,500})?$",
        longest=620,
        says="must be a feature view, a version of it, or a feature of it, such as clicks, clicks@2 or clicks:clicks_7d",
    ),
]
ViewRef = Annotated[
    str,
    Text(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,99}(@[1-9][0-9]{0,8})?$",
        longest=110,
        says="must be a feature view, or a version of it, such as clicks or clicks@2",
    ),
]


@value
class ApplyView(Message):
    """A view over a dataset, or over one version of it.

    `event` is the column that says when something happened, `known` the one that says when it became known; without one that
    is when the rows were first published. `keys` are the columns that tell entities apart. `time_to_live` and a feature's
    `period` are microseconds.
    """

    project: Name
    view: Name
    dataset: DatasetRef
    keys: Annotated[tuple[Key, ...], Items(least=1, most=50)]
    event: ColumnName
    known: Annotated[str, Text(longest=500)] = ""
    features: Annotated[tuple[Feature, ...], Items(least=1, most=MOST_FEATURES)]
    time_to_live: Period | None = None
    description: Description = ""


@value
class FeatureView(Message):
    """A version of a view; any other definition under its name is another one. `columns` are its keys, as labels call them, and
    its features with their types. `materialised`: of when the values are that are kept for serving."""

    id: Id
    view: Name
    version: int
    dataset: DatasetRef
    keys: tuple[Key, ...]
    event: str
    known: str
    features: tuple[Feature, ...]
    time_to_live: int | None
    description: Description
    columns: tuple[Column, ...]
    created: Moment
    created_by: str
    materialised: Moment | None = None


@value
class OneView(Message):
    """Without a version the newest."""

    project: Name
    view: ViewRef


@value
class ListViews(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class FeatureViews(Message):
    items: tuple[FeatureView, ...]
    next: str = ""


@value
class MakeTrainingSet(Message):
    """`labels` with the values of `features` that were known at the moment in each label's `time` column, as a new version of
    the dataset `into`, which is made where there is none. A view without a feature's name means all of its features."""

    project: Name
    labels: DatasetRef
    time: ColumnName
    features: Annotated[tuple[FeatureRef, ...], Items(least=1, most=MOST_FEATURES)]
    into: Name
    description: Description = ""


@value
class TrainingSet(Message):
    """`views` are those that were read, such as `clicks@2`, `sources` the versions of datasets behind them."""

    version: Version
    labels: str
    views: tuple[str, ...]
    sources: tuple[str, ...]


@value
class Materialise(Message):
    """`moment` is now where it is left out. It only ever goes forward; the same again changes nothing."""

    project: Name
    view: ViewRef
    moment: Moment | None = None


@value
class Materialised(Message):
    """`source` is the version of a dataset that was read. So many of `entities` were `written`: the others had such values."""

    view: str
    moment: Moment
    source: str
    entities: int
    written: int


@value
class GetFeatures(Message):
    """`entities` have the columns that tell them apart, as labels call them: moments and dates as text, bytes in base64."""

    project: Name
    features: Annotated[tuple[FeatureRef, ...], Items(least=1, most=MOST_FEATURES)]
    entities: Annotated[tuple[dict[str, Any], ...], Items(least=1, most=MOST_ENTITIES), Personal()]


@value
class ServedView(Message):
    """A view that values were read of: its `columns` stand together, in their order. `moment` is that of which they are."""

    view: str
    moment: Moment
    columns: tuple[Column, ...]


@value
class FeatureValues(Message):
    """A row for each entity, in their order, with the columns of all `views`. `events` has for each row and view when the
    newest happened that is known of the entity; null where nothing is known, or nothing that is young enough.
    Numbers that JSON has not, and whatever is no number, text or truth, are text."""

    views: tuple[ServedView, ...]
    rows: tuple[tuple[Any, ...], ...]
    events: tuple[tuple[Moment | None, ...], ...]


APPLY_VIEW: Final = Operation(
    name="feature.apply",
    summary="Define a feature view; the same definition again changes nothing, any other is a new version.",
    method="POST",
    path="projects/{project}/features",
    request=ApplyView,
    result=FeatureView,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_VIEWS: Final = Operation(
    name="feature.list",
    summary="List a project's feature views by name, each in its newest version.",
    method="GET",
    path="projects/{project}/features",
    request=ListViews,
    result=FeatureViews,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_VIEW: Final = Operation(
    name="feature.show",
    summary="Show a feature view: what it reads, and its features.",
    method="GET",
    path="projects/{project}/features/{view}",
    request=OneView,
    result=FeatureView,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
MAKE_TRAINING_SET: Final = Operation(
    name="feature.training-set",
    summary="Join labels with what was known of their entities at their moments, as a new version of a dataset.",
    method="POST",
    path="projects/{project}/training-sets",
    request=MakeTrainingSet,
    result=TrainingSet,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
MATERIALISE: Final = Operation(
    name="feature.materialise",
    summary="Keep what a feature view knows of every entity at a moment, for serving.",
    method="POST",
    path="projects/{project}/features/{view}/materialise",
    request=Materialise,
    result=Materialised,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
GET_FEATURES: Final = Operation(
    name="feature.get",
    summary="Read the features of entities that are kept for serving.",
    method="POST",
    path="projects/{project}/feature-values",
    request=GetFeatures,
    result=FeatureValues,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (APPLY_VIEW, LIST_VIEWS, SHOW_VIEW, MAKE_TRAINING_SET, MATERIALISE, GET_FEATURES)
