"""What can be asked about policies."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, NameOrNone, Nothing, Personal, Text, value

PolicyText = Annotated[str, Text(shortest=1, longest=10_000)]
# Whose decision is explained: a login name or an id, or nothing for oneself.
Whom = Annotated[NameOrNone, Personal()]


@value
class PolicyView(Message):
    """`rule` is how refusals and explanations call it. Built-in policies come with the program and have no times."""

    name: Name
    rule: str
    text: str
    created: Moment | None = None
    changed: Moment | None = None


@value
class Policies(Message):
    items: tuple[PolicyView, ...]


@value
class PutPolicy(Message):
    """One Cedar policy. It sees requests on this project alone, and can never lift a forbid."""

    project: Name
    policy: Name
    text: PolicyText


@value
class OnePolicy(Message):
    project: Name
    policy: Name


@value
class ListPolicies(Message):
    project: Name


@value
class PutPlatformPolicy(Message):
    policy: Name
    text: PolicyText


@value
class OnePlatformPolicy(Message):
    policy: Name


@value
class Explain(Message):
    """`action` is the name of an operation or of a permission. Without `principal`, about yourself with this very token.

    `zone` is the one the call would write to, `caller_zone` where the caller would run.
    """

    action: Annotated[str, Text(pattern=r"^[a-z][a-z-]*(\.[a-z-]+)+$", longest=100)]
    principal: Whom = ""
    project: NameOrNone = ""
    zone: NameOrNone = ""
    caller_zone: NameOrNone = ""


@value
class RuleText(Message):
    """`text` is empty for a platform policy where the asker may not read those."""

    rule: str
    text: str


@value
class Explanation(Message):
    """`deciding` are the policies that decided; none where nothing permits. `roles` are those on what is touched."""

    allowed: bool
    permission: str
    group: str
    deciding: tuple[RuleText, ...]
    roles: tuple[str, ...]
    platform_roles: tuple[str, ...]
    trouble: str


_ADMINISTER: Final = Permission(name="policy.administer", group=Group.ADMINISTER)
_READ: Final = Permission(name="policy.read", group=Group.READ)

PUT_POLICY: Final = Operation(
    name="policy.put",
    summary="Add or replace a project's policy.",
    method="PUT",
    path="projects/{project}/policies/{policy}",
    request=PutPolicy,
    result=PolicyView,
    permission=_ADMINISTER,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_POLICIES: Final = Operation(
    name="policy.list",
    summary="List a project's own policies.",
    method="GET",
    path="projects/{project}/policies",
    request=ListPolicies,
    result=Policies,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_POLICY: Final = Operation(
    name="policy.show",
    summary="Show one of a project's policies.",
    method="GET",
    path="projects/{project}/policies/{policy}",
    request=OnePolicy,
    result=PolicyView,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DELETE_POLICY: Final = Operation(
    name="policy.delete",
    summary="Remove a project's policy.",
    method="DELETE",
    path="projects/{project}/policies/{policy}",
    request=OnePolicy,
    result=Nothing,
    permission=_ADMINISTER,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
PUT_PLATFORM_POLICY: Final = Operation(
    name="platform.put-policy",
    summary="Add or replace a policy that holds everywhere.",
    method="PUT",
    path="platform/policies/{policy}",
    request=PutPlatformPolicy,
    result=PolicyView,
    permission=_ADMINISTER,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_PLATFORM_POLICIES: Final = Operation(
    name="platform.policies",
    summary="List the policies that hold everywhere, the built-in ones included.",
    method="GET",
    path="platform/policies",
    request=Nothing,
    result=Policies,
    permission=_READ,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
DELETE_PLATFORM_POLICY: Final = Operation(
    name="platform.delete-policy",
    summary="Remove a policy that holds everywhere.",
    method="DELETE",
    path="platform/policies/{policy}",
    request=OnePlatformPolicy,
    result=Nothing,
    permission=_ADMINISTER,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
EXPLAIN: Final = Operation(
    name="policy.explain",
    summary="Say whether a call would be allowed, and by which policies. About others: needs audit or administer there.",
    method="GET",
    path="policies/explain",
    request=Explain,
    result=Explanation,
    permission=Permission(name="policy.explain", group=Group.SELF),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (
    PUT_POLICY,
    LIST_POLICIES,
    SHOW_POLICY,
    DELETE_POLICY,
    PUT_PLATFORM_POLICY,
    LIST_PLATFORM_POLICIES,
    DELETE_PLATFORM_POLICY,
    EXPLAIN,
)
