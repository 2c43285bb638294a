"""The platform's operations about itself: is it well, what is it, what can it do, and its backups."""

from falaj.base.clock import Moment
from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Nothing, value


@value
class Health(Message):
    status: str
    version: str


@value
class Readiness(Message):
    """Whether everything needed is there; `parts` says of each whether it is. Why not is for the log and the doctor."""

    ready: bool
    parts: dict[str, str]


@value
class PlatformInfo(Message):
    version: str
    profile: str
    zone: Name
    country: str
    storages: tuple[Name, ...]
    oidc: bool


@value
class Backup(Message):
    """A sealed backup in the home's `backups` folder. Keep a copy elsewhere.

    `opened_with` says, when it was just made, what restoring it elsewhere needs: the recovery kit or a hardware module.
    """

    name: str
    size: int
    created: Moment
    tree_size: int = 0
    opened_with: str = ""


@value
class Backups(Message):
    items: tuple[Backup, ...]


HEALTH = Operation(
    name="platform.health",
    summary="Whether the control plane answers",
    method="GET",
    path="/healthz",
    request=Nothing,
    result=Health,
    permission=Permission(name="platform.health", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
READY = Operation(
    name="platform.ready",
    summary="Whether every part the control plane needs is there",
    method="GET",
    path="/readyz",
    request=Nothing,
    result=Readiness,
    permission=Permission(name="platform.ready", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
OPENAPI = Operation(
    name="platform.openapi",
    summary="This interface as an OpenAPI document",
    method="GET",
    path="/openapi.json",
    request=Nothing,
    result=Download,
    permission=Permission(name="platform.openapi", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
METRICS = Operation(
    name="platform.metrics",
    summary="Prometheus metrics of the control plane",
    method="GET",
    path="/metrics",
    request=Nothing,
    result=Download,
    permission=Permission(name="platform.metrics", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
SHOW = Operation(
    name="platform.show",
    summary="Version, profile, zone and storages of this platform",
    method="GET",
    path="platform",
    request=Nothing,
    result=PlatformInfo,
    permission=Permission(name="platform.show", group=Group.SELF),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
CREATE_BACKUP = Operation(
    name="backup.create",
    summary="Write a consistent, sealed backup while the platform runs",
    method="POST",
    path="platform/backups",
    request=Nothing,
    result=Backup,
    permission=Permission(name="backup.create", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_BACKUPS = Operation(
    name="backup.list",
    summary="The backups in the home, newest first",
    method="GET",
    path="platform/backups",
    request=Nothing,
    result=Backups,
    permission=Permission(name="backup.list", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
START = Operation(
    name="platform.start",
    summary="The first start: owner, zone and project are made. Recorded like any change, and reachable by no route",
    method="POST",
    path="platform/start",
    request=Nothing,
    result=Nothing,
    permission=Permission(name="platform.start", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
OPERATIONS = (HEALTH, READY, OPENAPI, METRICS, SHOW, CREATE_BACKUP, LIST_BACKUPS)
