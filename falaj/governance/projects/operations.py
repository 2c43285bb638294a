"""What can be asked about projects."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Items, Message, Name, Note, value
from falaj.governance.roles import Role

ZoneNames = Annotated[tuple[Name, ...], Items(least=1, most=50)]


@value
class ProjectView(Message):
    """`roles` are the caller's own. The first of `zones` is where things go when a call names none."""

    id: Id
    name: Name
    description: Note
    zones: tuple[str, ...]
    archived: bool
    roles: tuple[Role, ...]
    created: Moment


@value
class CreateProject(Message):
    name: Name
    zones: ZoneNames
    description: Note = ""


@value
class OneProject(Message):
    project: Name


@value
class UpdateProject(Message):
    """What is left out stays. A zone that still holds something of the project cannot be taken away."""

    project: Name
    zones: ZoneNames | None = None
    description: Note | None = None


@value
class ListProjects(Message):
    archived: bool = False
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Projects(Message):
    items: tuple[ProjectView, ...]
    next: str = ""


_ADMINISTER: Final = Permission(name="project.administer", group=Group.ADMINISTER)

CREATE_PROJECT: Final = Operation(
    name="project.create",
    summary="Create a project, with a key of its own; you become its admin.",
    method="POST",
    path="projects",
    request=CreateProject,
    result=ProjectView,
    permission=Permission(name="project.create", group=Group.ADMINISTER),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_PROJECTS: Final = Operation(
    name="project.list",
    summary="List the projects you have a role in.",
    method="GET",
    path="projects",
    request=ListProjects,
    result=Projects,
    permission=Permission(name="project.list", group=Group.SELF),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
SHOW_PROJECT: Final = Operation(
    name="project.show",
    summary="Show one project.",
    method="GET",
    path="projects/{project}",
    request=OneProject,
    result=ProjectView,
    permission=Permission(name="project.show", group=Group.READ),
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
UPDATE_PROJECT: Final = Operation(
    name="project.update",
    summary="Change a project's zones or description.",
    method="PUT",
    path="projects/{project}",
    request=UpdateProject,
    result=ProjectView,
    permission=_ADMINISTER,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
DELETE_PROJECT: Final = Operation(
    name="project.delete",
    summary="Archive a project: nothing new happens in it, and its data stays until it is shredded.",
    method="DELETE",
    path="projects/{project}",
    request=OneProject,
    result=ProjectView,
    permission=_ADMINISTER,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
RESTORE_PROJECT: Final = Operation(
    name="project.restore",
    summary="Bring an archived project back.",
    method="POST",
    path="projects/{project}/restore",
    request=OneProject,
    result=ProjectView,
    permission=_ADMINISTER,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (CREATE_PROJECT, LIST_PROJECTS, SHOW_PROJECT, UPDATE_PROJECT, DELETE_PROJECT, RESTORE_PROJECT)
