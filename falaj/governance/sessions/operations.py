"""What can be asked by someone who signs in, or lets another screen sign in."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Id, Message, Nothing, Secret, Text, value
from falaj.governance.identity.operations import Code, TokenText

Answer = Annotated[str, Text(shortest=1, longest=4000), Secret()]
IdToken = Annotated[str, Text(shortest=1, longest=20_000), Secret()]


@value
class Link(Message):
    """`code` opens one session within ten minutes."""

    code: Code
    expires: Moment


@value
class OpenSession(Message):
    code: Code


@value
class Session(Message):
    """`token` is a bearer token with the session's short life."""

    id: Id
    token: TokenText
    expires: Moment


@value
class OidcStarted(Message):
    """Send the browser to `url`; keep `state` with that browser and compare it when the provider sends it back."""

    url: Annotated[str, Text(longest=4000), Secret()]
    state: Answer
    expires: Moment


@value
class FinishOidc(Message):
    code: Answer
    state: Answer


@value
class OidcToken(Message):
    """An id_token that a command line obtained for itself, and the nonce it had asked for."""

    id_token: IdToken
    nonce: Annotated[str, Text(shortest=16, longest=200), Secret()]


_OPEN: Final = Permission(name="session.open", group=Group.PUBLIC)

LINK_SESSION: Final = Operation(
    name="session.link",
    summary="Make a one-time code that signs another screen in as you.",
    method="POST",
    path="sessions/links",
    request=Nothing,
    result=Link,
    permission=Permission(name="session.link", group=Group.SELF),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
OPEN_SESSION: Final = Operation(
    name="session.open",
    summary="Sign in with a one-time code.",
    method="POST",
    path="sessions",
    request=OpenSession,
    result=Session,
    permission=_OPEN,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
CLOSE_SESSION: Final = Operation(
    name="session.close",
    summary="Sign out: revoke the token this call is made with.",
    method="DELETE",
    path="sessions/current",
    request=Nothing,
    result=Nothing,
    permission=Permission(name="session.close", group=Group.SELF),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
START_OIDC: Final = Operation(
    name="session.oidc-start",
    summary="Begin to sign in through the identity provider.",
    method="POST",
    path="sessions/oidc/start",
    request=Nothing,
    result=OidcStarted,
    permission=_OPEN,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
FINISH_OIDC: Final = Operation(
    name="session.oidc-finish",
    summary="Finish signing in with what the identity provider sent back.",
    method="POST",
    path="sessions/oidc/finish",
    request=FinishOidc,
    result=Session,
    permission=_OPEN,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
OIDC_TOKEN: Final = Operation(
    name="session.oidc-token",
    summary="Sign a command line in with the id_token it obtained from the identity provider.",
    method="POST",
    path="sessions/oidc/token",
    request=OidcToken,
    result=Session,
    permission=_OPEN,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)

OPERATIONS: Final = (LINK_SESSION, OPEN_SESSION, CLOSE_SESSION, START_OIDC, FINISH_OIDC, OIDC_TOKEN)
