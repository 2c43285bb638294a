"""Monitors: what of an endpoint's traffic is watched, what it is held against, and what came out."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Nothing, Number, Range, Text, value
from falaj.datasets.operations.words import DatasetRefOrNone
from falaj.monitoring.operations.words import (
    SEE,
    SET,
    Act,
    Channels,
    ColumnName,
    Objective,
    QualityBound,
    Season,
    Seconds,
    Sentence,
    Told,
    Word,
)
from falaj.registry.operations.promotions import Person
from falaj.serving.operations.words import RevisionNumber

MOST_COLUMNS: Final = 500
Share = Annotated[float, Range(least=0, most=1)]


@value
class Wishes(Message):
    """What a monitor does.

    Traffic is held against the rows of the dataset version `reference`, or, where none is named, against the first
    `learn_rows` rows that are answered, which is also how the answers themselves are known. Windows are `window` seconds long.
    There is an alarm where a column is at least `floor` away from its reference and chance explains that less often than once
    in `one_in` windows, all columns together. With a `season`, an hour is compared with the same hour of the day, or of the
    week, by the clock of `timezone`; `time` is then the reference's column that says when a row was. Columns in `ignore` are
    not watched.

    Alerts go to `channels`; one that nobody acknowledges goes to those in `escalate_to` after `escalate_after` seconds, and
    after `remind_after` to all of them again. One that was not seen for `quiet` windows is over. `actions` are what alerts make
    happen, and `objectives` what the calls are held to, with an alert when their budget of errors burns too fast. There is an
    alert too while a figure of `quality` lies beyond its bound for sure.
    """

    reference: DatasetRefOrNone = ""
    time: Annotated[str, Text(longest=500)] = ""
    ignore: Annotated[tuple[ColumnName, ...], Items(most=MOST_COLUMNS)] = ()
    window: Annotated[int, Range(least=1, most=86_400)] = 60
    learn_rows: Annotated[int, Range(least=100, most=10_000_000)] = 10_000
    floor: Share = 0.1
    one_in: Annotated[int, Range(least=10, most=1_000_000)] = 1000
    season: Season = "none"
    timezone: Word = "UTC"
    quiet: Annotated[int, Range(least=1, most=1000)] = 5
    channels: Channels = ()
    escalate_to: Channels = ()
    escalate_after: Seconds = 0
    remind_after: Seconds = 86_400
    actions: Annotated[tuple[Act, ...], Items(most=20)] = ()
    objectives: Annotated[tuple[Objective, ...], Items(most=5)] = ()
    quality: Annotated[tuple[QualityBound, ...], Items(most=20)] = ()


@value
class ApplyMonitor(Message):
    """Sets what is watched of an endpoint. With `relearn`, all that was learnt of its revisions is learnt anew."""

    project: Name
    endpoint: Name
    wishes: Wishes = Wishes()
    relearn: bool = False


@value
class OneMonitor(Message):
    project: Name
    endpoint: Name


@value
class ListMonitors(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class RowsTogether(Message):
    """Rows of all inputs together, the last time that there were enough of them: `area` is how often a row of the traffic was
    told from a row of the reference, 0.5 where they cannot be; `chance` how often that would be by chance. `columns` are those
    that it takes most."""

    rows: int
    area: Number
    chance: Number
    columns: tuple[str, ...]
    drifting: bool


@value
class Watching(Message):
    """One revision under watch, held against `source`. `learning` are the columns that are not known yet, `learnt` the rows
    that they were learnt from so far. `rows` were seen in the last window, which began at `last`; `missed` were not looked at
    in it. `late` ever came at a wrong time: after their window had been closed, or by a clock that is ahead. `columns` are
    what came out, the furthest first."""

    revision: RevisionNumber
    source: str
    columns: tuple[Told, ...]
    learning: tuple[str, ...]
    learnt: int
    windows: int
    last: Moment | None
    rows: int
    missed: int
    late: int
    together: RowsTogether | None = None


@value
class Monitor(Message):
    """`health` is `learning`, `quiet` (nothing came for a while), `well` or `drifting`. `open_alerts` counts alerts. `behind`
    are the planes that have not heard of the newest state: they may still count as was wished before, or nothing at all."""

    id: Id
    endpoint: Name
    wishes: Wishes
    health: str
    open_alerts: int
    behind: int
    watching: tuple[Watching, ...]
    created: Moment
    changed: Moment
    changed_by: Person


@value
class Monitors(Message):
    items: tuple[Monitor, ...]
    next: str = ""


@value
class ReadWindows(Message):
    """The windows of a revision, newest first; of the one with the most traffic where none is named."""

    project: Name
    endpoint: Name
    revision: Annotated[int, Range(least=0, most=2**31 - 1)] = 0
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Window(Message):
    at: Moment
    until: Moment
    rows: int
    missed: int
    columns: tuple[Told, ...]


@value
class Windows(Message):
    revision: int
    items: tuple[Window, ...]
    next: str = ""


@value
class ReadColumn(Message):
    """How one column is spread: in the reference, and in so many of the last `windows`. 0 takes those that its distance was
    measured over: since it changed, or else the last one."""

    project: Name
    endpoint: Name
    column: ColumnName
    revision: Annotated[int, Range(least=0, most=2**31 - 1)] = 0
    windows: Annotated[int, Range(least=0, most=200)] = 0


@value
class Bin(Message):
    """`name` says which values; shares of the rows."""

    name: str
    reference: Number
    seen: Number


@value
class Spread(Message):
    """`distances` are by name: `ks`, `psi`, `jensen-shannon`, `cramers-v`, `wasserstein`; which there are depends on the kind
    of column. `quantiles` of what was seen lately: from a sketch while a column is learnt, after that from its bins, where
    values are taken to lie evenly within each, and without those that lie beyond all of them. `distinct` is about how many
    values there were, 0 where nobody counts them, as with numbers that have bins."""

    column: str
    revision: int
    rows: int
    bins: tuple[Bin, ...]
    distances: dict[str, float]
    quantiles: dict[str, float]
    distinct: int
    sentence: Sentence


APPLY_MONITOR: Final = Operation(
    name="monitor.apply",
    summary="Watch an endpoint's traffic, or change how.",
    method="PUT",
    path="projects/{project}/endpoints/{endpoint}/monitor",
    request=ApplyMonitor,
    result=Monitor,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SHOW_MONITOR: Final = Operation(
    name="monitor.show",
    summary="What is watched of an endpoint, and what came out.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/monitor",
    request=OneMonitor,
    result=Monitor,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_MONITORS: Final = Operation(
    name="monitor.list",
    summary="List a project's monitors, with how their endpoints are.",
    method="GET",
    path="projects/{project}/monitors",
    request=ListMonitors,
    result=Monitors,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DELETE_MONITOR: Final = Operation(
    name="monitor.delete",
    summary="Watch an endpoint no more. Its alerts stay.",
    method="DELETE",
    path="projects/{project}/endpoints/{endpoint}/monitor",
    request=OneMonitor,
    result=Nothing,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
READ_WINDOWS: Final = Operation(
    name="monitor.windows",
    summary="What came out of each window of traffic, column by column.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/monitor/windows",
    request=ReadWindows,
    result=Windows,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
READ_COLUMN: Final = Operation(
    name="monitor.column",
    summary="How a column is spread in the reference and lately.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/monitor/column",
    request=ReadColumn,
    result=Spread,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
OPERATIONS: Final = (APPLY_MONITOR, SHOW_MONITOR, LIST_MONITORS, DELETE_MONITOR, READ_WINDOWS, READ_COLUMN)
