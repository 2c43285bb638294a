"""The declaration of an operation: said once, and route, client, OpenAPI, permission and audit record follow from it.

Declarations live in each room's `operations.py`; the room binds them to its functions, `operations.Dispatcher` runs them.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Generic, Literal, TypeAlias, TypeVar

from falaj.base.values import value

Req = TypeVar("Req")
Res = TypeVar("Res")
Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]


class Group(StrEnum):
    """What kind of power a permission is; roles are granted groups, so a new operation finds its roles by itself."""

    PUBLIC = "public"  # needs no identity
    SELF = "self"  # every authenticated caller, about itself
    READ = "read"
    DISCUSS = "discuss"  # to comment, review and share
    WRITE = "write"
    PERSONAL = "personal"  # to see what is personal or sensitive, for which a token names it
    DEPLOY = "deploy"
    OPERATE = "operate"
    APPROVE = "approve"
    AUDIT = "audit"
    ADMINISTER = "administer"


class Scope(StrEnum):
    """What an operation touches: a project, named by the request's `project` field, or the platform itself."""

    PROJECT = "project"
    PLATFORM = "platform"


class Record(StrEnum):
    """What the call leaves in the ledger."""

    CHANGE = "change"  # a leaf each
    SENSITIVE_READ = "sensitive-read"  # a leaf each
    TELEMETRY = "telemetry"  # a leaf per window, with the digest of what came in
    PLAIN_READ = "plain-read"  # nothing


@value
class Permission:
    name: str
    group: Group

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z-]*(\.[a-z-]+)+", self.name):
            raise ValueError(f"permission {self.name!r} is not written like noun.verb")


@value
class Download:
    """Bytes on their way to the client. `chunks` is read once and may be closed early; `size` is None where it is not known."""

    chunks: Iterator[bytes]
    size: int | None
    name: str
    media_type: str = "application/octet-stream"


@value
class Operation(Generic[Req, Res]):
    """One thing the platform can do.

    `path` is relative to `/v1` and names request fields in braces; the other fields travel in the query (GET, DELETE) or in a
    JSON body (POST, PUT). An operation that takes bytes gets them as the body, and its fields in path and query. A result of
    type `Download` leaves as bytes. A project operation's request has a `project` field; a `zone` field, where there is one,
    is the zone the call would write to and is held against the project's zones. `subject` names the field that says what
    telemetry is about: each thing gets a leaf of its own per window.
    """

    name: str
    summary: str
    method: Method
    path: str
    request: type[Req]
    result: type[Res]
    permission: Permission
    scope: Scope
    record: Record
    takes_bytes: bool = False
    subject: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.permission, Permission):
            raise TypeError(f"operation {self.name!r} needs a permission")
        fields = set(getattr(self.request, "__dataclass_fields__", ()))
        if missing := set(self.path_fields) - fields:
            raise TypeError(f"operation {self.name!r}: path names fields the request has not: {sorted(missing)}")
        if self.scope is Scope.PROJECT and "project" not in fields:
            raise TypeError(f"operation {self.name!r} touches a project, so its request needs a field 'project'")
        if self.subject and self.subject not in fields:
            raise TypeError(f"operation {self.name!r} is about {self.subject!r}, which its request has not")
        if self.method == "GET" and self.record is Record.CHANGE:
            raise TypeError(f"operation {self.name!r} changes something, so it cannot be a GET")

    @property
    def path_fields(self) -> tuple[str, ...]:
        return tuple(re.findall(r"{(\w+)}", self.path))
