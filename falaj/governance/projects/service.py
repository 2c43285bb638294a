"""Projects: whoever creates one becomes its admin, and gets its key made before it exists."""

from collections.abc import Sequence
from typing import Protocol

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.failpoints import failpoint
from falaj.base.ids import ProjectId, new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, UnitOfWork
from falaj.governance.identity.store import add_membership, memberships_of
from falaj.governance.projects import operations as ops
from falaj.governance.projects.store import (
    Project,
    add_project,
    describe_project,
    project_by_id,
    project_named,
    projects_after,
    set_archived,
    set_zones,
)
from falaj.governance.roles import OVERSEERS, PLATFORM, Role
from falaj.governance.store import changed
from falaj.governance.zones.store import zones_named


class ProjectKeys(Protocol):
    """Makes the key that a project's data keys are wrapped with. Durable when it returns; repeating it changes nothing."""

    def create(self, project: ProjectId) -> object: ...


class Holdings(Protocol):
    """Whether a project holds anything in a zone; asked inside the transaction that would take the zone away."""

    def holds(self, work: UnitOfWork, project: ProjectId, zone: str) -> bool: ...


class ProjectService:
    def __init__(self, *, keys: ProjectKeys, holdings: Holdings) -> None:
        self._keys = keys
        self._holdings = holdings

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(ops.CREATE_PROJECT, self.make_key, self.create),
            bind(ops.LIST_PROJECTS, self.list),
            bind(ops.SHOW_PROJECT, self.show),
            bind(ops.UPDATE_PROJECT, self.update),
            bind(ops.DELETE_PROJECT, lambda context, _request: self._archive(context, True)),
            bind(ops.RESTORE_PROJECT, lambda context, _request: self._archive(context, False)),
        ]

    def make_key(self, context: Context, _request: ops.CreateProject) -> ProjectId:
        """A key without a project, left by a crash between the two, opens nothing and harms nobody."""
        id = ProjectId(new_id(context.now))
        self._keys.create(id)
        failpoint("project.key-made")
        return id

    def create(self, context: Context, request: ops.CreateProject, id: ProjectId) -> ops.ProjectView:
        if project_named(context.work, request.name) is not None:
            raise Conflict(f"There is a project {request.name!r} already.")
        _check_zones(context.work, request.zones)
        add_project(
            context.work, id=id, name=request.name, description=request.description, zones=request.zones, now=context.now
        )
        add_membership(context.work, context.identity.principal, id, Role.ADMIN, now=context.now)
        context.facts["project"] = id
        return self._view_of(context, id)

    def list(self, context: Context, request: ops.ListProjects) -> ops.Projects:
        """Those the caller has a role in; all of them for who oversees the platform; never beyond the token's own."""
        held = memberships_of(context.work, context.identity.principal)
        oversees = any(row.scope == PLATFORM and row.role in OVERSEERS for row in held)
        found = projects_after(
            context.work,
            ids=None if oversees else [row.scope for row in held],
            names=context.identity.projects or None,
            archived=request.archived,
            after=read_text_cursor(request.cursor),
            limit=request.limit + 1,
        )
        page, following = page_of(found, request.limit, lambda project: (project.name,))
        return ops.Projects(items=tuple(_view(context, project) for project in page), next=following)

    def show(self, context: Context, _request: ops.OneProject) -> ops.ProjectView:
        return self._view_of(context, context.required_project.id)

    def update(self, context: Context, request: ops.UpdateProject) -> ops.ProjectView:
        id = context.required_project.id
        if request.zones is not None:
            _check_zones(context.work, request.zones)
            for place in context.required_project.places:
                if place.zone not in request.zones and self._holdings.holds(context.work, id, place.zone):
                    raise Conflict(f"The project still holds data in zone {place.zone!r}; remove or shred it first.")
            set_zones(context.work, id, request.zones)
        if request.description is not None:
            describe_project(context.work, id, request.description)
        return self._view_of(context, id)

    def _archive(self, context: Context, archived: bool) -> ops.ProjectView:
        set_archived(context.work, context.required_project.id, archived)
        return self._view_of(context, context.required_project.id)

    def _view_of(self, context: Context, id: ProjectId) -> ops.ProjectView:
        project = project_by_id(context.work, id)
        if project is None:
            raise NotFound("The project is gone.")
        return _view(context, project)


def _check_zones(work: UnitOfWork, names: Sequence[str]) -> None:
    changed(work)  # first: a zone that is deleted at the same moment waits for this, or this for it
    if len(set(names)) != len(names):
        raise Invalid("A zone is listed twice.")
    missing = sorted(set(names) - set(zones_named(work, names)))
    if missing:
        raise NotFound(f"There is no zone {missing[0]!r}; `falaj zone list` shows them.")


def _view(context: Context, project: Project) -> ops.ProjectView:
    held = {row.role for row in memberships_of(context.work, context.identity.principal) if row.scope == project.id}
    return ops.ProjectView(
        id=project.id,
        name=project.name,
        description=project.description,
        zones=tuple(zone.name for zone in project.zones),
        archived=project.archived,
        roles=tuple(sorted(held)),
        created=project.created,
    )
