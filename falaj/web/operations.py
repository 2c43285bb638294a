"""What the console itself offers to anybody: its files, and what its sign-in page has to know."""

from typing import Annotated, Final

from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Nothing, Text, value

AssetName = Annotated[str, Text(pattern=r"^[a-z0-9][a-z0-9.-]{0,99}$", longest=100)]


@value
class OneAsset(Message):
    """`name` holds a digest of the content, so what was fetched once never needs to be fetched again."""

    name: AssetName


@value
class SignInWays(Message):
    """`oidc`: whether an identity provider is configured; a one-time code always works."""

    version: str
    oidc: bool


ASSET: Final = Operation(
    name="console.asset",
    summary="A style sheet, script or picture of the console.",
    method="GET",
    path="console/assets/{name}",
    request=OneAsset,
    result=Download,
    permission=Permission(name="console.asset", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
SIGN_IN: Final = Operation(
    name="console.sign-in",
    summary="In which ways one can sign in to the console.",
    method="GET",
    path="console/sign-in",
    request=Nothing,
    result=SignInWays,
    permission=Permission(name="console.sign-in", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (ASSET, SIGN_IN)
