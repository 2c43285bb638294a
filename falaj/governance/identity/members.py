"""Roles: given by hand, or brought by groups of the identity provider."""

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.identity import member_operations as ops
from falaj.governance.identity.store import (
    Membership,
    Principal,
    add_membership,
    groups_of,
    map_group,
    members_after,
    other_admin_exists,
    principal_by_id,
    principal_named,
    remove_membership,
    unmap_group,
)
from falaj.governance.roles import PLATFORM, Role
from falaj.governance.store import changed


def _view(membership: Membership, principal: Principal) -> ops.Member:
    return ops.Member(
        id=principal.id,
        name=principal.name,
        kind=principal.kind,
        role=membership.role,
        group=membership.source,
        disabled=principal.disabled,
    )


def _find(context: Context, name_or_id: str, owner: str) -> Principal:
    """A person, or a service account of the very project: another project's accounts are as if they did not exist."""
    found = (
        principal_named(context.work, name_or_id)
        or (principal_named(context.work, name_or_id, owner=owner) if owner else None)
        or principal_by_id(context.work, name_or_id)
    )
    if found is None or found.erased or found.owner not in ("", owner):
        raise NotFound(f"There is no user {name_or_id!r}, nor a service account of that name here.")
    return found


class MemberService:
    def bindings(self) -> list[Bound]:
        return [
            bind(
                ops.ADD_MEMBER,
                lambda context, request: self._add(context, context.required_project.id, request.member, request.role),
            ),
            bind(
                ops.REMOVE_MEMBER,
                lambda context, request: self._remove(context, context.required_project.id, request.member, request.role),
            ),
            bind(
                ops.LIST_MEMBERS,
                lambda context, request: self._list(context, context.required_project.id, request.limit, request.cursor),
            ),
            bind(ops.ADD_PLATFORM_MEMBER, lambda context, request: self._add(context, PLATFORM, request.member, request.role)),
            bind(
                ops.REMOVE_PLATFORM_MEMBER,
                lambda context, request: self._remove(context, PLATFORM, request.member, request.role),
            ),
            bind(
                ops.LIST_PLATFORM_MEMBERS, lambda context, request: self._list(context, PLATFORM, request.limit, request.cursor)
            ),
            bind(
                ops.MAP_GROUP,
                lambda context, request: self._map(context, context.required_project.id, request.group, request.role),
            ),
            bind(
                ops.UNMAP_GROUP,
                lambda context, request: self._unmap(context, context.required_project.id, request.group, request.role),
            ),
            bind(ops.LIST_GROUPS, lambda context, _request: self._groups(context, context.required_project.id)),
            bind(ops.MAP_PLATFORM_GROUP, lambda context, request: self._map(context, PLATFORM, request.group, request.role)),
            bind(
                ops.UNMAP_PLATFORM_GROUP, lambda context, request: self._unmap(context, PLATFORM, request.group, request.role)
            ),
            bind(ops.LIST_PLATFORM_GROUPS, lambda context, _request: self._groups(context, PLATFORM)),
        ]

    def _add(self, context: Context, scope: str, member: str, role: Role) -> ops.Member:
        principal = _find(context, member, "" if scope == PLATFORM else scope)
        if principal.disabled:
            raise Conflict(f"{member!r} is disabled; enable the account first.")
        add_membership(context.work, principal.id, scope, role, now=context.now)
        context.facts["principal"] = principal.id
        return _view(Membership(principal=principal.id, scope=scope, role=role, source=""), principal)

    def _remove(self, context: Context, scope: str, member: str, role: Role) -> Nothing:
        changed(context.work)  # first: of two admins who remove each other, the second waits here and sees that it is the last
        principal = _find(context, member, "" if scope == PLATFORM else scope)
        if role is Role.ADMIN and not other_admin_exists(context.work, scope, besides=principal.id):
            raise Conflict("This is the last admin; give somebody else the role first.")
        if not remove_membership(context.work, principal.id, scope, role):
            raise NotFound(f"{member!r} was not given the role {role}; one that a group brings goes with `group unmap`.")
        context.facts["principal"] = principal.id
        return Nothing()

    def _list(self, context: Context, scope: str, limit: int, cursor: str) -> ops.Members:
        found = members_after(context.work, scope, after=read_text_cursor(cursor), limit=limit + 1)
        page, following = page_of(found, limit, lambda row: (f"{row[0].principal}/{row[0].role}/{row[0].source}",))
        return ops.Members(items=tuple(_view(*row) for row in page), next=following)

    def _map(self, context: Context, scope: str, group: str, role: Role) -> ops.GroupRole:
        if not group.isprintable() or group != group.strip():
            raise Invalid(
                "A group's name is printable text without spaces around it, exactly as the identity provider sends it."
            )
        map_group(context.work, group, scope, role)
        return ops.GroupRole(group=group, role=role)

    def _unmap(self, context: Context, scope: str, group: str, role: Role) -> Nothing:
        if not unmap_group(context.work, group, scope, role):
            raise NotFound(f"Group {group!r} brings no role {role} here.")
        return Nothing()

    def _groups(self, context: Context, scope: str) -> ops.GroupRoles:
        return ops.GroupRoles(
            items=tuple(ops.GroupRole(group=name, role=role) for name, role in groups_of(context.work, scope))
        )
