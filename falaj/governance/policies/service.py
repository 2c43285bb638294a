"""Editing policies, and explaining what they decide."""

from dataclasses import replace

from falaj.base.caller import Identity
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.operation import Group, Permission, Scope
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper, Standing, no_such_project, rule_name, sees
from falaj.governance.identity.store import principal_by_id, principal_named
from falaj.governance.policies import operations as ops
from falaj.governance.policies.cedar import Ruling
from falaj.governance.policies.store import StoredPolicy, policies_of, policy_named, put_policy, remove_policy
from falaj.governance.projects.store import Project, project_by_id
from falaj.governance.roles import PLATFORM
from falaj.governance.store import changed

MOST_POLICIES = 100
# Every process holds the sets it decides by in memory, so what one scope can add to them is bounded.
MOST_TEXT = 100_000


def _view(policy: StoredPolicy) -> ops.PolicyView:
    return ops.PolicyView(
        name=policy.name,
        rule=rule_name(policy.scope, policy.name),
        text=policy.text,
        created=policy.created,
        changed=policy.changed,
    )


class PolicyService:
    def __init__(self, *, gate: Gatekeeper) -> None:
        self._gate = gate

    def bindings(self) -> list[Bound]:
        return [
            bind(
                ops.PUT_POLICY,
                lambda context, request: self._put(context, context.required_project.id, request.policy, request.text),
            ),
            bind(ops.LIST_POLICIES, lambda context, _request: self._list(context, context.required_project.id)),
            bind(ops.SHOW_POLICY, self.show),
            bind(
                ops.DELETE_POLICY, lambda context, request: self._delete(context, context.required_project.id, request.policy)
            ),
            bind(ops.PUT_PLATFORM_POLICY, self.put_on_platform),
            bind(ops.LIST_PLATFORM_POLICIES, lambda context, _request: self._list(context, PLATFORM)),
            bind(ops.DELETE_PLATFORM_POLICY, lambda context, request: self._delete(context, PLATFORM, request.policy)),
            bind(ops.EXPLAIN, self.explain),
        ]

    # Editing

    def put_on_platform(self, context: Context, request: ops.PutPlatformPolicy) -> ops.PolicyView:
        """Where platform admins stay out of projects, they may not permit themselves in either."""
        if not self._gate.profile.admins_enter_projects and self._gate.cedar.permits(request.text):
            raise Forbidden(
                f"Under the profile {self._gate.profile.name!r} a platform policy can only forbid; permit in the project.",
                rule="profile.platform-permit",
            )
        return self._put(context, PLATFORM, request.policy, request.text)

    def _put(self, context: Context, scope: str, name: str, text: str) -> ops.PolicyView:
        self._gate.cedar.check(text)
        changed(context.work)  # first: two who add a policy at the same moment each count the other's
        put_policy(context.work, scope, name, text, now=context.now)
        held = policies_of(context.work, scope)
        if len(held) > MOST_POLICIES:
            raise Conflict(f"There are {MOST_POLICIES} policies here already; that is the most.")
        if (length := sum(len(policy.text) for policy in held)) > MOST_TEXT:
            raise Conflict(f"All policies here would have {length} characters together; {MOST_TEXT} characters are the most.")
        self._refuse_lockout(context, scope)
        return self._required(context, scope, name)

    def _refuse_lockout(self, context: Context, scope: str) -> None:
        """Whoever writes a policy must still be able to remove it. Decided with the policy in place, in this transaction."""
        project = None if scope == PLATFORM else project_by_id(context.work, scope)
        removing = ops.DELETE_POLICY.permission
        ruling, _ = self._rule(context, context.identity, removing.name, removing.group, project, "")
        if not ruling.allowed:
            why = ruling.trouble or ", ".join(ruling.rules) or "nothing permits it any more"
            raise Conflict(f"With this policy you could not remove it again ({why}); make it narrower.")

    def show(self, context: Context, request: ops.OnePolicy) -> ops.PolicyView:
        return self._required(context, context.required_project.id, request.policy)

    def _required(self, context: Context, scope: str, name: str) -> ops.PolicyView:
        policy = policy_named(context.work, scope, name)
        if policy is None:
            raise NotFound(f"There is no policy {name!r} here.")
        return _view(policy)

    def _list(self, context: Context, scope: str) -> ops.Policies:
        own = tuple(_view(policy) for policy in policies_of(context.work, scope))
        if scope != PLATFORM:
            return ops.Policies(items=own)
        return ops.Policies(items=tuple(self._builtin(rule) for rule in self._gate.cedar.builtin_rules) + own)

    def _builtin(self, rule: str) -> ops.PolicyView:
        return ops.PolicyView(name=rule, rule=rule, text=self._gate.cedar.builtin_text(rule) or "")

    def _delete(self, context: Context, scope: str, name: str) -> Nothing:
        if not remove_policy(context.work, scope, name):
            raise NotFound(f"There is no policy {name!r} here.")
        return Nothing()

    # Explaining

    def explain(self, context: Context, request: ops.Explain) -> ops.Explanation:
        permission = self._permission(request.action)
        generation = self._gate.generation(context.work)
        project = self._project(context, generation, request.project)
        identity = context.identity if not request.principal else self._other(context, request.principal, project)
        self._check_scope(request.action, project)
        if request.caller_zone:
            identity = replace(identity, zone=request.caller_zone)
        ruling, standing = self._rule(context, identity, permission.name, permission.group, project, request.zone)
        scope = PLATFORM if project is None else project.id
        return ops.Explanation(
            allowed=ruling.allowed,
            permission=permission.name,
            group=permission.group.value,
            deciding=tuple(ops.RuleText(rule=rule, text=self._text(context, rule, scope)) for rule in ruling.rules),
            roles=tuple(sorted(standing.on(scope))),
            platform_roles=tuple(sorted(standing.on(PLATFORM))),
            trouble=ruling.trouble,
        )

    def _permission(self, action: str) -> Permission:
        permission = self._gate.permission_for(action)
        if permission is None:
            raise Invalid(f"There is no operation or permission {action!r}.")
        return permission

    def _check_scope(self, action: str, project: Project | None) -> None:
        scopes = self._gate.scopes_of(action)
        if project is None and Scope.PLATFORM not in scopes:
            raise Invalid(f"{action} touches a project: say which one.")
        if project is not None and Scope.PROJECT not in scopes:
            raise Invalid(f"{action} touches the platform itself: ask without a project.")

    def _project(self, context: Context, generation: int, name: str) -> Project | None:
        """Only what the asker may know of; a stranger is told what everybody is told of what does not exist."""
        if not name:
            return None
        project = self._gate.project(context.work, generation, name)
        standing = self._gate.standing(context.work, generation, context.identity.principal)
        hidden = bool(context.identity.projects) and name not in context.identity.projects
        if project is None or standing is None or hidden or not sees(standing, project):
            raise no_such_project(name)
        return project

    def _other(self, context: Context, name_or_id: str, project: Project | None) -> Identity:
        """Somebody else, as if with a token that narrows nothing; who asks must audit or administer that scope."""
        if name_or_id in (context.identity.principal, context.identity.name):
            return context.identity
        powers = (Group.AUDIT, Group.ADMINISTER)
        if not any(self._rule(context, context.identity, group.value, group, project, "")[0].allowed for group in powers):
            raise Forbidden("Asking about others needs the group audit or administer there.", rule="policy.explain-others")
        found = (
            principal_named(context.work, name_or_id)
            or (principal_named(context.work, name_or_id, owner=project.id) if project else None)
            or principal_by_id(context.work, name_or_id)
        )
        if found is None or found.owner not in ("", "" if project is None else project.id):
            raise NotFound(f"There is no user {name_or_id!r}, nor a service account of that name here.")
        return Identity(principal=found.id, kind=found.kind, name=found.name, token=None, zone=context.identity.zone)

    def _rule(
        self, context: Context, identity: Identity, action: str, group: Group, project: Project | None, zone: str
    ) -> tuple[Ruling, Standing]:
        generation = self._gate.generation(context.work)
        standing = self._gate.standing(context.work, generation, identity.principal)
        if standing is None:
            raise NotFound("There is no such principal.")
        if standing.disabled:
            return Ruling(allowed=False, rules=(), trouble="the account is disabled"), standing
        return self._gate.rule(context.work, generation, identity, standing, action, group, project, zone), standing

    def _text(self, context: Context, rule: str, scope: str) -> str:
        builtin = self._gate.cedar.builtin_text(rule)
        if builtin is not None:
            return builtin
        owner, _, name = rule.partition("/")
        if owner == "platform" and not self._reads_platform_policies(context):
            return ""
        policy = policy_named(context.work, PLATFORM if owner == "platform" else scope, name)
        return "" if policy is None else policy.text

    def _reads_platform_policies(self, context: Context) -> bool:
        reading = ops.LIST_PLATFORM_POLICIES.permission
        return self._rule(context, context.identity, reading.name, reading.group, None, "")[0].allowed
