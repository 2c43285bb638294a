"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.values import Items, Message, Personal, Range, Text, value

WHOLE: Final = 10_000  # shares of traffic are counted in hundredths of a per cent
ORIGINAL: Final = "original"  # how a version's own form is called among its variants

EndpointName = Annotated[str, Text(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$", longest=100)]
RevisionNumber = Annotated[int, Range(least=1, most=2**31 - 1)]
# 0 stands for none, or for the one that goes without saying.
RevisionNumberOrNone = Annotated[int, Range(least=0, most=2**31 - 1)]
VersionNumberOrNone = Annotated[int, Range(least=0, most=2**31 - 1)]
Share = Annotated[int, Range(least=0, most=WHOLE)]
Label = Annotated[str, Text(pattern=r"^[A-Za-z0-9_-]{0,50}$", longest=50)]
VariantNameOrNone = Annotated[
    str,
    Text(
        pattern=r"^([a-z0-9][a-z0-9.+_-]{0,79})?$",
        longest=80,
        says="must be a variant's name, such as int8, or best; `falaj model variants` lists them",
    ),
]
# A name, an IPv4 address, or an IPv6 one in brackets; a port may follow.
CallbackHost = Annotated[
    str, Text(pattern=r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$", longest=255)
]
Reason = Annotated[str, Text(longest=2000), Personal()]
Role = Literal["live", "shadow"]
Mode = Literal["live", "canary", "shadow", "ab"]
ChangeKind = Literal["deploy", "split", "promote", "rollback", "step", "quarantine"]


@value
class Arm(Message):
    """A revision and its share of the endpoint's traffic. A shadow gets copies; its answers are never returned."""

    revision: RevisionNumber
    share: Share
    role: Role = "live"
    label: Label = ""


Arms = Annotated[tuple[Arm, ...], Items(least=1, most=20)]


@value
class Steps(Message):
    """How a canary grows by itself: its shares one after the other, each held for `seconds`, the last of them `WHOLE`.

    It goes back by itself when a verdict says that it is worse. Without shares it stays as it is until somebody decides.
    """

    shares: Annotated[tuple[Share, ...], Items(most=20)] = ()
    seconds: Annotated[int, Range(least=1, most=30 * 86_400)] = 300
