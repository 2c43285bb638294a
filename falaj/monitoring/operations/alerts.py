"""Alerts: what needs somebody, who was told, and what was done about it."""

from typing import Annotated, Final, Literal, TypeAlias

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, Nothing, Secret, Text, value
from falaj.monitoring.operations.words import SEE, SET, ActionKind, ActionState, Sentence, Severity, ShownKind, Told
from falaj.registry.operations.promotions import Person

Which: TypeAlias = Literal["open", "over", "all"]
Address = Annotated[str, Text(shortest=1, longest=2000), Secret()]
_ACKNOWLEDGE: Final = Permission(name="monitor.acknowledge", group=Group.WRITE)


@value
class ListAlerts(Message):
    """Newest first; of one endpoint where that is named."""

    project: Name
    endpoint: Annotated[str, Text(longest=100)] = ""
    which: Which = "open"
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Action(Message):
    """`waiting` is for somebody's approval; what is `ready` is done within seconds. `words` say what was done, or why it was
    not."""

    id: Id
    kind: ActionKind
    state: ActionState
    words: Sentence
    at: Moment
    decided: Moment | None
    decided_by: Person | None


@value
class Sent(Message):
    """To one channel; `problem` says why it was not taken yet, or not at all."""

    channel: str
    what: str
    at: Moment | None
    tries: int
    problem: Sentence


@value
class Alert(Message):
    """`sentences` explain it: what changed, by how much, since when, what it may mean. Of the kind `verdict` is what the
    platform decided by itself, of an A/B test or a canary: it is told, and over at once."""

    id: Id
    endpoint: str
    kind: ShownKind
    severity: Severity
    title: Sentence
    sentences: tuple[Sentence, ...]
    columns: tuple[Told, ...]
    since: Moment | None
    raised: Moment
    seen: Moment
    sightings: int
    acknowledged: Moment | None
    acknowledged_by: Person | None
    resolved: Moment | None
    actions: tuple[Action, ...]
    sent: tuple[Sent, ...]


@value
class Alerts(Message):
    items: tuple[Alert, ...]
    next: str = ""


@value
class OneAlert(Message):
    project: Name
    alert: Id


@value
class DecideAction(Message):
    project: Name
    action: Id
    agree: bool


@value
class SetChannel(Message):
    """Where alerts go. `url` is an https address that gets signed CloudEvents (`webhook`), or one as apprise writes it
    (`apprise`: mail, Slack, Teams, ...). Webhooks are signed with a secret that is shown once."""

    project: Name
    channel: Name
    kind: Literal["webhook", "apprise"]
    url: Address


@value
class Channel(Message):
    """`shown` is the address without what is secret in it."""

    name: Name
    kind: str
    shown: str
    changed: Moment
    changed_by: Person


@value
class NewChannel(Message):
    """`secret` verifies signatures of a webhook, and is shown once; empty for other kinds."""

    channel: Channel
    secret: Annotated[str, Secret()] = ""


@value
class OneChannel(Message):
    project: Name
    channel: Name


@value
class ListChannels(Message):
    project: Name


@value
class Channels(Message):
    items: tuple[Channel, ...]


LIST_ALERTS: Final = Operation(
    name="alert.list",
    summary="List alerts, with what was done about them.",
    method="GET",
    path="projects/{project}/alerts",
    request=ListAlerts,
    result=Alerts,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_ALERT: Final = Operation(
    name="alert.show",
    summary="Show an alert: what changed, who was told, what was done.",
    method="GET",
    path="projects/{project}/alerts/{alert}",
    request=OneAlert,
    result=Alert,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
ACKNOWLEDGE_ALERT: Final = Operation(
    name="alert.acknowledge",
    summary="Say that somebody sees to it: it goes to nobody else.",
    method="POST",
    path="projects/{project}/alerts/{alert}/acknowledge",
    request=OneAlert,
    result=Alert,
    permission=_ACKNOWLEDGE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DECIDE_ACTION: Final = Operation(
    name="alert.decide",
    summary="Agree to what an alert would do, or refuse it.",
    method="POST",
    path="projects/{project}/actions/{action}/decision",
    request=DecideAction,
    result=Alert,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SET_CHANNEL: Final = Operation(
    name="channel.set",
    summary="Say where alerts are sent.",
    method="PUT",
    path="projects/{project}/channels/{channel}",
    request=SetChannel,
    result=NewChannel,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_CHANNELS: Final = Operation(
    name="channel.list",
    summary="List where alerts are sent, without what is secret.",
    method="GET",
    path="projects/{project}/channels",
    request=ListChannels,
    result=Channels,
    permission=SEE,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DELETE_CHANNEL: Final = Operation(
    name="channel.delete",
    summary="Send alerts there no more.",
    method="DELETE",
    path="projects/{project}/channels/{channel}",
    request=OneChannel,
    result=Nothing,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
# Leaves of what the platform does by itself; nobody asks for them.
RAISE_ALERT: Final = Operation(
    name="alert.raise",
    summary="A monitor found something that matters.",
    method="POST",
    path="projects/{project}/alerts/{alert}",
    request=OneAlert,
    result=Nothing,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RESOLVE_ALERT: Final = Operation(
    name="alert.resolve",
    summary="What a monitor found was not seen again.",
    method="POST",
    path="projects/{project}/alerts/{alert}/resolution",
    request=OneAlert,
    result=Nothing,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
TAKE_ACTION: Final = Operation(
    name="alert.act",
    summary="What an alert made happen, or why that failed.",
    method="POST",
    path="projects/{project}/alerts/{alert}/actions",
    request=OneAlert,
    result=Nothing,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
SEND_MESSAGE: Final = Operation(
    name="alert.send",
    summary="A message of an alert was taken by its channel, or given up.",
    method="POST",
    path="projects/{project}/alerts/{alert}/messages",
    request=OneAlert,
    result=Nothing,
    permission=SET,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
OPERATIONS: Final = (
    LIST_ALERTS,
    SHOW_ALERT,
    ACKNOWLEDGE_ALERT,
    DECIDE_ACTION,
    SET_CHANNEL,
    LIST_CHANNELS,
    DELETE_CHANNEL,
)
