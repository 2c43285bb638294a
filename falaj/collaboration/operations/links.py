"""What can be done with share links: short names for a page of the console, good for those who may read the project."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, Nothing, Personal, Range, Text, value
from falaj.collaboration.operations.words import READ, WRITE, Person

PagePath = Annotated[str, Text(shortest=1, longest=4000), Personal()]
LinkTitle = Annotated[str, Text(longest=200), Personal()]
Days = Annotated[int, Range(least=0, most=3660)]


@value
class CreateLink(Message):
    """`path` is a page of the project, `/projects/PROJECT/...`, with its query. `days` 0 means that it does not expire."""

    project: Name
    path: PagePath
    title: LinkTitle = ""
    days: Days = 0


@value
class Link(Message):
    """`address` is where the link itself is opened, below the console's own."""

    id: Id
    address: str
    path: PagePath
    title: LinkTitle
    made_by: Person
    created: Moment
    expires: Moment | None


@value
class OneLink(Message):
    project: Name
    link: Id


@value
class ListLinks(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Links(Message):
    items: tuple[Link, ...]
    next: str = ""


CREATE_LINK: Final = Operation(
    name="link.create",
    summary="Make a link to a page of the project, to share with others who may read it.",
    method="POST",
    path="projects/{project}/links",
    request=CreateLink,
    result=Link,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
OPEN_LINK: Final = Operation(
    name="link.open",
    summary="Find out where a share link leads.",
    method="GET",
    path="projects/{project}/links/{link}",
    request=OneLink,
    result=Link,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_LINKS: Final = Operation(
    name="link.list",
    summary="List the share links that you made, newest first.",
    method="GET",
    path="projects/{project}/links",
    request=ListLinks,
    result=Links,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
REVOKE_LINK: Final = Operation(
    name="link.revoke",
    summary="Revoke a share link that you made.",
    method="DELETE",
    path="projects/{project}/links/{link}",
    request=OneLink,
    result=Nothing,
    permission=WRITE,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (CREATE_LINK, OPEN_LINK, LIST_LINKS, REVOKE_LINK)
