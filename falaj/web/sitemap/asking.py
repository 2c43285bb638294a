"""The words in which pages say what they load, for whom, and where their forms lead."""

from typing import Any, Final

from falaj.base.operation import Group, Operation
from falaj.base.values import Nothing
from falaj.governance.identity import operations as identity
from falaj.governance.projects import operations as projects
from falaj.governance.zones import operations as zones
from falaj.operations import operations as platform
from falaj.web import audit
from falaj.web.forms import request_from
from falaj.web.pages import Load


def may(group: Group) -> Any:
    return lambda visit: visit.standing.may(group)


def may_here(group: Group) -> Any:
    return lambda visit: visit.standing.may(group, visit.project)


def always(request: Any) -> Any:
    return lambda visit: request


def paged(request: Any) -> Any:
    """The page's own list, continued where the reader left off."""
    return lambda visit: request(cursor=visit.query.get("cursor", "")[:500])


def paged_here(request: Any) -> Any:
    return lambda visit: request(project=visit.project, cursor=visit.query.get("cursor", "")[:500])


def here(request: Any) -> Any:
    return lambda visit: request(project=visit.project)


def of_path(operation: Operation[Any, Any]) -> Any:
    """What the address says, in the words of the operation's request."""
    return lambda visit: request_from(operation, {}, visit.path)


def to(path: str) -> Any:
    return lambda visit, result: path.format(**visit.path)


PEOPLE_FOR_CHOICE: Final = Load(operation=identity.LIST_USERS, request=audit.everybody, when=may(Group.READ))
ALL_ZONES: Final = Load(operation=zones.LIST_ZONES, request=always(zones.ListZones(limit=1000)))
ALL_PROJECTS: Final = Load(operation=projects.LIST_PROJECTS, request=always(projects.ListProjects(limit=1000)))
PLATFORM: Final = Load(operation=platform.SHOW, request=always(Nothing()))
THIS_PROJECT: Final = Load(operation=projects.SHOW_PROJECT, request=here(projects.OneProject))
