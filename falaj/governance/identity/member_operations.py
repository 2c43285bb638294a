"""What can be asked about roles: who holds which in a project or on the platform, and which groups bring them."""

from typing import Final

from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Message, Name, Nothing, value
from falaj.governance.identity.operations import GroupName, Login
from falaj.governance.roles import Role


@value
class Member(Message):
    """`group` is the identity provider's group that brought the role; empty where somebody gave it."""

    id: str
    name: Login
    kind: str
    role: Role
    group: str
    disabled: bool


@value
class Members(Message):
    items: tuple[Member, ...]
    next: str = ""


@value
class AddMember(Message):
    """`member` is a person, or a service account of this project, by name or id."""

    project: Name
    member: Login
    role: Role


@value
class RemoveMember(Message):
    project: Name
    member: Login
    role: Role


@value
class ListMembers(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class PlatformMember(Message):
    member: Login
    role: Role


@value
class ListPlatformMembers(Message):
    limit: Limit = 100
    cursor: Cursor = ""


@value
class GroupRole(Message):
    """A group of the identity provider, as it names it in its claim."""

    group: GroupName
    role: Role


@value
class ProjectGroupRole(Message):
    project: Name
    group: GroupName
    role: Role


@value
class OfProject(Message):
    project: Name


@value
class GroupRoles(Message):
    items: tuple[GroupRole, ...]


_MEMBERS: Final = Permission(name="member.administer", group=Group.ADMINISTER)
_READ_MEMBERS: Final = Permission(name="member.read", group=Group.READ)

ADD_MEMBER: Final = Operation(
    name="member.add",
    summary="Give somebody a role in a project.",
    method="POST",
    path="projects/{project}/members",
    request=AddMember,
    result=Member,
    permission=_MEMBERS,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
REMOVE_MEMBER: Final = Operation(
    name="member.remove",
    summary="Take a role in a project back.",
    method="DELETE",
    path="projects/{project}/members/{member}",
    request=RemoveMember,
    result=Nothing,
    permission=_MEMBERS,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_MEMBERS: Final = Operation(
    name="member.list",
    summary="List who holds which role in a project.",
    method="GET",
    path="projects/{project}/members",
    request=ListMembers,
    result=Members,
    permission=_READ_MEMBERS,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
ADD_PLATFORM_MEMBER: Final = Operation(
    name="platform.add-member",
    summary="Give somebody a role on the platform.",
    method="POST",
    path="platform/members",
    request=PlatformMember,
    result=Member,
    permission=_MEMBERS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
REMOVE_PLATFORM_MEMBER: Final = Operation(
    name="platform.remove-member",
    summary="Take a role on the platform back.",
    method="DELETE",
    path="platform/members/{member}",
    request=PlatformMember,
    result=Nothing,
    permission=_MEMBERS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_PLATFORM_MEMBERS: Final = Operation(
    name="platform.members",
    summary="List who holds which role on the platform.",
    method="GET",
    path="platform/members",
    request=ListPlatformMembers,
    result=Members,
    permission=_READ_MEMBERS,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
MAP_GROUP: Final = Operation(
    name="group.map",
    summary="Give everybody in a group of the identity provider a role in a project, from their next sign-in.",
    method="POST",
    path="projects/{project}/groups",
    request=ProjectGroupRole,
    result=GroupRole,
    permission=_MEMBERS,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
UNMAP_GROUP: Final = Operation(
    name="group.unmap",
    summary="Take back the role that a group brings in a project; it goes at once.",
    method="DELETE",
    path="projects/{project}/groups",
    request=ProjectGroupRole,
    result=Nothing,
    permission=_MEMBERS,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_GROUPS: Final = Operation(
    name="group.list",
    summary="List the groups that bring roles in a project.",
    method="GET",
    path="projects/{project}/groups",
    request=OfProject,
    result=GroupRoles,
    permission=_READ_MEMBERS,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
MAP_PLATFORM_GROUP: Final = Operation(
    name="platform.map-group",
    summary="Give everybody in a group of the identity provider a role on the platform, from their next sign-in.",
    method="POST",
    path="platform/groups",
    request=GroupRole,
    result=GroupRole,
    permission=_MEMBERS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
UNMAP_PLATFORM_GROUP: Final = Operation(
    name="platform.unmap-group",
    summary="Take back the role that a group brings on the platform; it goes at once.",
    method="DELETE",
    path="platform/groups",
    request=GroupRole,
    result=Nothing,
    permission=_MEMBERS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_PLATFORM_GROUPS: Final = Operation(
    name="platform.groups",
    summary="List the groups that bring roles on the platform.",
    method="GET",
    path="platform/groups",
    request=Nothing,
    result=GroupRoles,
    permission=_READ_MEMBERS,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (
    ADD_MEMBER,
    REMOVE_MEMBER,
    LIST_MEMBERS,
    ADD_PLATFORM_MEMBER,
    REMOVE_PLATFORM_MEMBER,
    LIST_PLATFORM_MEMBERS,
    MAP_GROUP,
    UNMAP_GROUP,
    LIST_GROUPS,
    MAP_PLATFORM_GROUP,
    UNMAP_PLATFORM_GROUP,
    LIST_PLATFORM_GROUPS,
)
