"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.operation import Group, Permission
from falaj.base.values import NAME_PATTERN, Message, Personal, Text, value

# What can be talked about. A thing's id is an experiment's number, or the id of a run, a registered model or a version.
Kind = Literal["experiment", "run", "model", "version"]
KindOrNone = Literal["", "experiment", "run", "model", "version"]
ThingId = Annotated[str, Text(pattern=r"^([0-9]{1,16}|[0-9a-f]{32})$", longest=32)]
ThingOrNone = Annotated[str, Text(pattern=r"^([0-9]{1,16}|[0-9a-f]{32})?$", longest=32)]
Words = Annotated[str, Text(shortest=1, longest=10_000), Personal()]
Remark = Annotated[str, Text(longest=2000), Personal()]
# A member of the project, by name or id.
Whom = Annotated[str, Text(pattern=NAME_PATTERN, longest=100), Personal()]
WhomOrNone = Annotated[str, Text(pattern=r"^([a-z0-9][a-z0-9._-]{0,99})?$", longest=100), Personal()]

READ: Final = Permission(name="discussion.read", group=Group.READ)
WRITE: Final = Permission(name="discussion.write", group=Group.DISCUSS)


@value
class Person(Message):
    """Somebody, as they are called today. Nothing but the id is left of somebody who was erased."""

    id: str
    name: str = ""
    display: str = ""


@value
class Thing(Message):
    """`label` is empty where the thing is gone, `id` where only what it was called then is known."""

    kind: Kind
    id: str
    label: str = ""
