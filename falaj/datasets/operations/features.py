"""What can be done with feature views: defining them, joining labels with them, and keeping their newest values for serving."""

from typing import Annotated, Any, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Personal, Range, Text, value
from falaj.datasets.operations.derivations import Inputs
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.words import READ, WRITE, ColumnName, DatasetRef, DatasetRefOrNone, Description
from falaj.tables.joining.views import Feature, Key, Period
from falaj.tables.schemas import Column

Cause = Literal["wrong", "stale", "changed", "unknown"]
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
class ViewFunction(Message):
    """A Python function that makes a view's rows: the text that has it, what it is called there, and the requirements it runs
    with. It runs in a job."""

    source: Annotated[str, Text(shortest=1, longest=200_000)]
    function: Annotated[str, Text(shortest=1, longest=200)]
    lock: Annotated[str, Text(longest=200_000)] = ""


@value
class ApplyView(Message):
    """A view over a dataset, or over one version of it; or over what `sql` finds in datasets, or what a `python` function makes
    of `inputs`. Then the rows are versions of a dataset of their own, `dataset` or else the view's name with -rows, and `known`
    has to be named.

    `event` is the column that says when something happened, `known` the one that says when it became known; without one that
    is when the rows were first published. `keys` are the columns that tell entities apart. `time_to_live` and a feature's
    `period` are microseconds. `log` is the share of served entities that is kept for audits, from 0 to 1; to change it makes no
    new version.
    """

    project: Name
    view: Name
    dataset: DatasetRefOrNone = ""
    sql: Annotated[str, Text(longest=100_000), Personal()] = ""
    python: ViewFunction | None = None
    inputs: Inputs = ()
    keys: Annotated[tuple[Key, ...], Items(least=1, most=50)]
    event: ColumnName
    known: Annotated[str, Text(longest=500)] = ""
    features: Annotated[tuple[Feature, ...], Items(least=1, most=MOST_FEATURES)]
    time_to_live: Period | None = None
    description: Description = ""
    log: Annotated[float, Range(least=0, most=1)] = 0.0


@value
class Freshness(Message):
    """Of the values that are kept for serving: of which `moment` they are, of how many `entities`, out of which version of a
    dataset (`source`), and when the `newest_event` happened that is known. `current` is the version that would be read now;
    `behind` is how many were published since the one that was read, the first of them at `behind_since`."""

    moment: Moment
    source: str
    entities: int
    newest_event: Moment | None
    current: str
    behind: int
    behind_since: Moment | None = None


@value
class FeatureView(Message):
    """A version of a view; any other definition under its name is another one. `columns` are its keys, as labels call them, and
    its features with their types. `materialised`: of when the values are that are kept for serving. `sql` or `python`: what
    makes the rows of its dataset."""

    id: Id
    view: Name
    version: int
    dataset: DatasetRef
    sql: str = ""
    python: ViewFunction | None = None
    inputs: Inputs = ()
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
    freshness: Freshness | None = None
    log: float = 0.0


@value
class OneView(Message):
    """Without a version the newest."""

    project: Name
    view: ViewRef


@value
class DeleteView(Message):
    """All versions of a view, or one of them such as `clicks@2`."""

    project: Name
    view: ViewRef


@value
class DeletedViews(Message):
    """Versions that are there no more; their numbers are not given again."""

    views: tuple[str, ...]


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
    the dataset `into`, which is made where there is none. A view without a feature's name means all of its features.

    Where the same was made of the same rows before, that version is answered, and is current again. `anew`: it is made all the
    same."""

    project: Name
    labels: DatasetRef
    time: ColumnName
    features: Annotated[tuple[FeatureRef, ...], Items(least=1, most=MOST_FEATURES)]
    into: Name
    description: Description = ""
    anew: bool = False


@value
class TrainingSet(Message):
    """`views` are those that were read, such as `clicks@2`, `sources` the versions of datasets behind them. `cached`: it had
    been made before."""

    version: Version
    labels: str
    views: tuple[str, ...]
    sources: tuple[str, ...]
    cached: bool = False


@value
class Materialise(Message):
    """`moment` is now where it is left out. It only ever goes forward; the same again changes nothing. With `whole` everything
    is computed and written anew, whatever was kept."""

    project: Name
    view: ViewRef
    moment: Moment | None = None
    whole: bool = False


@value
class Materialised(Message):
    """`source` is the version of a dataset that was read. So many of `entities` were `written`: the others had such values.
    `read`: everything, of all rows what changed, only what was appended, or nothing, for nothing could have changed."""

    view: str
    moment: Moment
    source: str
    entities: int
    written: int
    read: str = "everything"


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


@value
class AuditView(Message):
    """What was served `since` a moment and before `until`, of at most so many entities (`limit`), newest first. Without a
    version it is the one that is served. `most` are the differences that are told."""

    project: Name
    view: ViewRef
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Range(least=1, most=100_000)] = 10_000
    most: Annotated[int, Range(least=1, most=10_000)] = 1000


@value
class Difference(Message):
    """A feature of an entity that was `served` at a moment (`at`), out of what was materialised as of `moment` from `source`,
    and is something else offline. Values of columns that the caller may not see are left out (`masked`).

    wrong    not even what the view gave then: the store had something else
    stale    rows were known by then that had not been materialised
    changed  the dataset was rewritten since, or rows came late that say they were known earlier
    unknown  the version that was materialised, or was current then, is gone
    """

    at: Moment
    moment: Moment
    source: str
    entity: dict[str, Any]
    feature: str
    served: Any
    offline: Any
    cause: Cause
    masked: bool = False


@value
class FeatureAudit(Message):
    """So many `entities` of so many `calls` were held against a training set of their moments. `causes` counts the differences,
    those too that are not told. `more`: there is more that was served than was looked at."""

    view: str
    calls: int
    entities: int
    causes: dict[str, int]
    differences: tuple[Difference, ...]
    more: bool


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
DELETE_VIEW: Final = Operation(
    name="feature.delete",
    summary="Delete a feature view, or one version of it, with what is kept of it for serving.",
    method="DELETE",
    path="projects/{project}/features/{view}",
    request=DeleteView,
    result=DeletedViews,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
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

AUDIT_VIEW: Final = Operation(
    name="feature.audit",
    summary="Hold what was served of a feature view against what it gives offline, and tell every difference.",
    method="GET",
    path="projects/{project}/features/{view}/audit",
    request=AuditView,
    result=FeatureAudit,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (APPLY_VIEW, LIST_VIEWS, SHOW_VIEW, DELETE_VIEW, MAKE_TRAINING_SET, MATERIALISE, GET_FEATURES, AUDIT_VIEW)
