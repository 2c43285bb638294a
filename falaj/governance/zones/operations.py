"""What can be asked about zones."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Items, Message, Name, Nothing, Text, value

Country = Annotated[str, Text(pattern=r"^[A-Z]{2}$", longest=2)]
Names = Annotated[tuple[Name, ...], Items(most=50)]


@value
class ZoneView(Message):
    """`storage` is one of the storages in the settings. Jurisdictions are tags such as uae, uae-difc, uae-adgm, gdpr."""

    name: Name
    country: Country
    jurisdictions: tuple[str, ...]
    storage: Name
    engines: tuple[str, ...]
    created: Moment


@value
class CreateZone(Message):
    name: Name
    country: Country
    storage: Name = "local"
    jurisdictions: Names = ()
    engines: Names = ()


@value
class OneZone(Message):
    zone: Name


@value
class UpdateZone(Message):
    """What is left out stays. The country and the storage of a zone that projects use cannot change."""

    zone: Name
    country: Country | None = None
    storage: Name | None = None
    jurisdictions: Names | None = None
    engines: Names | None = None


@value
class ListZones(Message):
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Zones(Message):
    items: tuple[ZoneView, ...]
    next: str = ""


_ADMINISTER: Final = Permission(name="zone.administer", group=Group.ADMINISTER)
_READ: Final = Permission(name="zone.read", group=Group.SELF)

CREATE_ZONE: Final = Operation(
    name="zone.create",
    summary="Declare a zone: a place under a jurisdiction, with its storage and engines.",
    method="POST",
    path="zones",
    request=CreateZone,
    result=ZoneView,
    permission=_ADMINISTER,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_ZONES: Final = Operation(
    name="zone.list",
    summary="List zones.",
    method="GET",
    path="zones",
    request=ListZones,
    result=Zones,
    permission=_READ,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
SHOW_ZONE: Final = Operation(
    name="zone.show",
    summary="Show one zone.",
    method="GET",
    path="zones/{zone}",
    request=OneZone,
    result=ZoneView,
    permission=_READ,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
UPDATE_ZONE: Final = Operation(
    name="zone.update",
    summary="Change a zone; one that projects use cannot move.",
    method="PUT",
    path="zones/{zone}",
    request=UpdateZone,
    result=ZoneView,
    permission=_ADMINISTER,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
DELETE_ZONE: Final = Operation(
    name="zone.delete",
    summary="Remove a zone that no project uses.",
    method="DELETE",
    path="zones/{zone}",
    request=OneZone,
    result=Nothing,
    permission=_ADMINISTER,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)

OPERATIONS: Final = (CREATE_ZONE, LIST_ZONES, SHOW_ZONE, UPDATE_ZONE, DELETE_ZONE)
