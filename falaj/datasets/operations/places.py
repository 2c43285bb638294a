"""Places that data is in and stays in: declared by an operator, so that nobody else says what the platform connects to."""

from typing import Annotated, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Items, Message, Name, Nothing, Range, Secret, Text, value
from falaj.datasets.operations.words import READ

PlaceKind = Literal["s3", "postgres", "folder"]
_Word = Annotated[str, Text(longest=1000)]
_Host = Annotated[
    str,
    Text(
        pattern=r"^([A-Za-z0-9._:\[\]-]*|/[A-Za-z0-9._/-]+)$",
        longest=253,
        says="takes a host's name or its number, such as db.example.com, or the folder of a socket",
    ),
]
_Endpoint = Annotated[
    str,
    Text(
        pattern=r"^(https?://[A-Za-z0-9._:\[\]-]+/?)?$", longest=300, says="must be like https://s3.example.com, without a path"
    ),
]


@value
class Address(Message):
    """Where a place is. Of a bucket: `bucket`, `prefix`, `region`, and the `endpoint` of a service that is not AWS; of a
    Postgres: `host`, `port`, `database` and how its certificate is checked (`tls`); of a folder: its path on the server, which
    the settings must allow (`data.folders`)."""

    bucket: Annotated[str, Text(pattern=r"^([a-z0-9][a-z0-9._-]{1,62})?$", longest=63)] = ""
    prefix: _Word = ""
    region: Annotated[str, Text(pattern=r"^[a-z0-9-]*$", longest=50)] = ""
    endpoint: _Endpoint = ""
    host: _Host = ""
    port: Annotated[int, Range(least=1, most=65_535)] = 5432
    database: _Word = ""
    tls: Literal["verify-full", "verify-ca", "require", "prefer", "disable"] = "prefer"
    folder: _Word = ""


@value
class SetPlace(Message):
    """`user` is the name or the access key, `secret` the password or the secret key; neither is shown again. All of a place is
    said each time: what is left out is empty."""

    place: Name
    kind: PlaceKind
    zone: Name
    projects: Annotated[tuple[Name, ...], Items(most=1000)]
    address: Address
    user: Annotated[str, Text(longest=1000), Secret()] = ""
    secret: Annotated[str, Text(longest=10_000), Secret()] = ""


@value
class PlaceView(Message):
    """Everything but what opens it. `projects` are those that may use it."""

    name: Name
    kind: PlaceKind
    zone: Name
    projects: tuple[str, ...]
    address: Address
    changed: Moment
    changed_by: str


@value
class OnePlace(Message):
    place: Name


@value
class ListPlaces(Message):
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Places(Message):
    items: tuple[PlaceView, ...]
    next: str = ""


@value
class ListUsable(Message):
    project: Name


@value
class UsablePlace(Message):
    name: Name
    kind: PlaceKind
    zone: Name


@value
class UsablePlaces(Message):
    items: tuple[UsablePlace, ...]


SET: Final = Permission(name="place.set", group=Group.OPERATE)
SEE: Final = Permission(name="place.read", group=Group.OPERATE)

SET_PLACE: Final = Operation(
    name="place.set",
    summary="Declare a place that data is in, or declare it anew: a prefix of a bucket, a Postgres, a folder.",
    method="PUT",
    path="platform/places/{place}",
    request=SetPlace,
    result=PlaceView,
    permission=SET,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_PLACES: Final = Operation(
    name="place.list",
    summary="The places that data is in, without what opens them.",
    method="GET",
    path="platform/places",
    request=ListPlaces,
    result=Places,
    permission=SEE,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
REMOVE_PLACE: Final = Operation(
    name="place.remove",
    summary="Forget a place that no dataset has its rows in; nothing is touched there.",
    method="DELETE",
    path="platform/places/{place}",
    request=OnePlace,
    result=Nothing,
    permission=SET,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
USABLE_PLACES: Final = Operation(
    name="dataset.places",
    summary="The places that a project may register tables of.",
    method="GET",
    path="projects/{project}/places",
    request=ListUsable,
    result=UsablePlaces,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (SET_PLACE, LIST_PLACES, REMOVE_PLACE, USABLE_PLACES)
