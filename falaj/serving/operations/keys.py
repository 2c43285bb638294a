"""Tokens that endpoints take: short-lived ones for people and jobs, long-lived keys for programs that cannot come back.

A plane verifies them by itself. A key that is revoked stands in the signed state until it would have expired.
"""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Nothing, Personal, Range, Secret, Text, value
from falaj.registry.operations.promotions import Person
from falaj.serving.operations.words import EndpointName

KeyLabel = Annotated[str, Text(shortest=1, longest=100), Personal()]
EndpointNames = Annotated[tuple[EndpointName, ...], Items(most=100)]
TokenText = Annotated[str, Text(longest=8000), Secret()]


@value
class AskForToken(Message):
    """For one endpoint of the project, or for all of them where none is named."""

    project: Name
    endpoint: Annotated[str, Text(pattern=r"^([a-z0-9][a-z0-9._-]{0,99})?$", longest=100)] = ""


@value
class EndpointToken(Message):
    token: TokenText
    expires: Moment


@value
class CreateKey(Message):
    """For the endpoints that are named, or for all the project has or will have where none is. `manage` lets its holder load
    and unload models through the protocol's repository extension."""

    project: Name
    label: KeyLabel
    endpoints: EndpointNames = ()
    days: Annotated[int, Range(least=1, most=366)] = 90
    manage: bool = False


@value
class EndpointKey(Message):
    id: Id
    label: KeyLabel
    endpoints: tuple[EndpointName, ...]
    manage: bool
    created: Moment
    expires: Moment
    revoked: Moment | None
    created_by: Person


@value
class NewEndpointKey(Message):
    """The token is shown once."""

    key: EndpointKey
    token: TokenText


@value
class ListKeys(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class EndpointKeys(Message):
    items: tuple[EndpointKey, ...]
    next: str = ""


@value
class RevokeKey(Message):
    project: Name
    key: Id


PREDICT: Final = Permission(name="endpoint.predict", group=Group.WRITE)
_KEYS: Final = Permission(name="endpoint.keys", group=Group.DEPLOY)

ASK_FOR_TOKEN: Final = Operation(
    name="endpoint.token",
    summary="A short-lived token for calling endpoints.",
    method="POST",
    path="projects/{project}/endpoint-tokens",
    request=AskForToken,
    result=EndpointToken,
    permission=PREDICT,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
CREATE_KEY: Final = Operation(
    name="endpoint.key-create",
    summary="Make a long-lived key for calling endpoints.",
    method="POST",
    path="projects/{project}/endpoint-keys",
    request=CreateKey,
    result=NewEndpointKey,
    permission=_KEYS,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_KEYS: Final = Operation(
    name="endpoint.key-list",
    summary="List the long-lived keys of a project's endpoints.",
    method="GET",
    path="projects/{project}/endpoint-keys",
    request=ListKeys,
    result=EndpointKeys,
    permission=_KEYS,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
REVOKE_KEY: Final = Operation(
    name="endpoint.key-revoke",
    summary="End a key; planes refuse it as soon as they have heard.",
    method="DELETE",
    path="projects/{project}/endpoint-keys/{key}",
    request=RevokeKey,
    result=Nothing,
    permission=_KEYS,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (ASK_FOR_TOKEN, CREATE_KEY, LIST_KEYS, REVOKE_KEY)
