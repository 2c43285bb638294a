"""The gatekeeper: who is calling, and whether policy lets them.

Everything it remembers is keyed by the generation (see `store.py`), so a revocation holds for the very next call. The usual
call costs one tiny query. Someone outside a project is told the same as if it did not exist.
"""

import hashlib
from collections.abc import Iterable, Set
from typing import Any, Final

from falaj.base.caller import Identity, Place, ProjectFacts
from falaj.base.clock import DAY, Moment
from falaj.base.errors import FalajError, Forbidden, NotFound, Unauthenticated
from falaj.base.ids import PrincipalId
from falaj.base.operation import Group, Operation, Permission, Scope
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance import store
from falaj.governance.cache import Bounded, Current
from falaj.governance.identity.store import StoredToken, memberships_of, note_use, principal_by_id, token_by_hash, token_by_id
from falaj.governance.passes import Claims, Passes, check_times, refused
from falaj.governance.policies.cedar import Cedar, Deploying, Promoting, Resource, Ruling, Subject
from falaj.governance.policies.store import policies_of
from falaj.governance.profiles import Profile
from falaj.governance.projects.store import Project, project_named
from falaj.governance.roles import OVERSEERS, PLATFORM

TOKEN_PREFIX: Final = "falaj_"
LONGEST_CREDENTIALS: Final = 8000
ANONYMOUS: Final = Identity(principal=PrincipalId(""), kind="anonymous", name="anonymous", token=None, zone="")
_REMEMBERED: Final = 4096
_PREPARED: Final = 32  # few, because one prepared set may take megabytes


@value
class Grant:
    """What was allowed, on which generation."""

    project: ProjectFacts | None
    generation: int


@value
class Standing:
    """A principal's roles everywhere."""

    id: str
    name: str
    kind: str
    disabled: bool
    roles: dict[str, frozenset[str]]  # scope -> roles

    def on(self, scope: str) -> frozenset[str]:
        return self.roles.get(scope, frozenset())


@value
class _Known:
    """A token that was found good, until `expires`; a pass is bound to `claims` as well."""

    identity: Identity
    expires: Moment
    claims: Claims | None = None


def token_hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def no_such_project(name: str) -> NotFound:
    return NotFound(f"There is no project {name!r}, or it is not yours to see.")


class Gatekeeper:
    """Thread-safe. `authenticate` and `authorise` only read, and belong into one transaction."""

    def __init__(self, *, operations: Iterable[Operation[Any, Any]], profile: Profile, passes: Passes) -> None:
        declared = tuple(operations)
        self.cedar = Cedar(declared)
        self.cedar.check_builtin()
        self._needed = {operation.name: operation.permission for operation in declared}
        self._scopes: dict[str, set[Scope]] = {}
        for operation in declared:
            for name in (operation.name, operation.permission.name):
                self._scopes.setdefault(name, set()).add(operation.scope)
        self.profile = profile
        self._passes = passes
        self._tokens: Current[tuple[int, str], _Known] = Current(_REMEMBERED)
        self._standings: Current[tuple[int, str], Standing] = Current(_REMEMBERED)
        self._projects: Current[tuple[int, str], Project] = Current(_REMEMBERED)
        self._decisions: Current[tuple[Any, ...], Grant | FalajError] = Current(4 * _REMEMBERED)
        self._added: Current[tuple[int, str], tuple[tuple[str, str], ...]] = Current(_REMEMBERED)
        self._prepared: Bounded[tuple[tuple[str, str], ...], Any] = Bounded(_PREPARED)
        self._entities: Current[tuple[int, str, str, str], Any] = Current(_REMEMBERED)
        self._used: set[str] = set()
        self._last_seen = 0

    def generation(self, work: UnitOfWork) -> int:
        self._last_seen = generation = store.generation(work)
        return generation

    def recall(
        self, credentials: str | None, operation: Operation[Any, Any], request: Any, now: Moment
    ) -> tuple[Identity, Grant] | None:
        """Who asks and what was granted, where that is known from the generation seen last; asks no database.

        Good for getting in line, and no more: whoever acts on it compares generations inside the transaction first.
        """
        known = None if credentials is None else self._tokens.get((self._last_seen, token_hash(credentials)))
        if known is None or known.claims is not None or now >= known.expires:
            return None
        grant = self._decisions.get(_question(self._last_seen, known.identity, operation, request))
        if not isinstance(grant, Grant):
            return None
        self._note_use(known.identity)
        return known.identity, grant

    def permission_for(self, action: str) -> Permission | None:
        """What an operation needs; a permission's own name will do as well."""
        return self._needed.get(action) or self.cedar.permissions.get(action)

    def scopes_of(self, action: str) -> Set[Scope]:
        """What an operation, or the operations that need a permission, may touch."""
        return self._scopes.get(action, frozenset())

    # Who

    def authenticate(self, work: UnitOfWork, credentials: str | None, now: Moment) -> Identity:
        """The bearer's identity; anonymous without credentials. Raises `Unauthenticated`."""
        if credentials is None:
            return ANONYMOUS
        if len(credentials) > LONGEST_CREDENTIALS or not credentials.isascii():
            raise refused()
        key = (self.generation(work), token_hash(credentials))
        known = self._tokens.get(key)
        if known is None:
            check = self._check_secret if credentials.startswith(TOKEN_PREFIX) else self._check_pass
            known = self._tokens.put(key, check(work, key[0], credentials, now))
        if now >= known.expires:
            raise refused()
        if known.claims is not None:
            check_times(known.claims, now)
        self._note_use(known.identity)
        return known.identity

    def _note_use(self, identity: Identity) -> None:
        if identity.token is not None and len(self._used) < _REMEMBERED:
            self._used.add(identity.token)

    def _check_secret(self, work: UnitOfWork, generation: int, secret: str, now: Moment) -> _Known:
        token = token_by_hash(work, token_hash(secret))
        standing = self._live(work, generation, token, now)
        if token is None or standing is None:
            raise refused()
        identity = Identity(
            principal=token.principal,
            kind=standing.kind,
            name=standing.name,
            token=token.id,
            zone=token.zone,
            scopes=token.scopes,
            projects=token.projects,
        )
        return _Known(identity=identity, expires=token.expires)

    def _check_pass(self, work: UnitOfWork, generation: int, text: str, now: Moment) -> _Known:
        """A pass falls with the token it was exchanged for, and with its principal."""
        claims = self._passes.verify(work, text, now)
        token = token_by_id(work, claims.token)
        standing = self._live(work, generation, token, now)
        if token is None or standing is None or token.principal != claims.principal:
            raise refused()
        identity = Identity(
            principal=claims.principal,
            kind="process",
            name=standing.name,
            token=claims.token,
            zone=claims.zone,
            scopes=claims.scopes,
            projects=claims.projects,
        )
        return _Known(identity=identity, expires=Moment(min(claims.expires, token.expires)), claims=claims)

    def _live(self, work: UnitOfWork, generation: int, token: StoredToken | None, now: Moment) -> Standing | None:
        if token is None or token.revoked is not None or now >= token.expires:
            return None
        standing = self.standing(work, generation, token.principal)
        return None if standing is None or standing.disabled else standing

    def standing(self, work: UnitOfWork, generation: int, principal: str) -> Standing | None:
        key = (generation, principal)
        if (known := self._standings.get(key)) is not None:
            return known
        if principal == ANONYMOUS.principal:
            return Standing(id="", name="anonymous", kind="anonymous", disabled=False, roles={})
        found = principal_by_id(work, principal)
        if found is None:
            return None
        roles: dict[str, set[str]] = {}
        for membership in memberships_of(work, principal):
            roles.setdefault(membership.scope, set()).add(membership.role)
        held = {scope: frozenset(names) for scope, names in roles.items()}
        known = Standing(id=found.id, name=found.name, kind=found.kind, disabled=found.disabled, roles=held)
        return self._standings.put(key, known)

    def note_used_tokens(self, work: UnitOfWork, now: Moment) -> int:
        """Write down which tokens were used since the last time, by day; how many."""
        used, self._used = self._used, set()
        if used:
            note_use(work, used, now // DAY)
        return len(used)

    # Whether

    def authorise(self, work: UnitOfWork, identity: Identity, operation: Operation[Any, Any], request: Any) -> Grant:
        """What policy grants. Raises `Forbidden` with the rule's name, `NotFound` for what the caller may not know of, and
        `Unauthenticated` where nobody asks for what somebody may have."""
        key = _question(self.generation(work), identity, operation, request)
        answer = self._decisions.get(key)
        if answer is None:
            *_, project, target = key
            answer = self._decisions.put(key, self._judge(work, key[0], identity, operation.permission, project, target))
        if isinstance(answer, Grant):
            return answer
        raise _again(answer)

    def _judge(
        self, work: UnitOfWork, generation: int, identity: Identity, permission: Permission, name: str | None, target: str
    ) -> Grant | FalajError:
        if identity.kind == "anonymous" and permission.group is not Group.PUBLIC:
            return Unauthenticated(
                "This needs a token: send `Authorization: Bearer ...` (mlflow: set MLFLOW_TRACKING_TOKEN), or sign in."
            )
        standing = self.standing(work, generation, identity.principal)
        if standing is None or standing.disabled:
            return refused()
        project = None if name is None else self.project(work, generation, name)
        if name is not None and (project is None or not _reaches(identity, name)):
            return no_such_project(name)
        ruling = self.rule(work, generation, identity, standing, permission.name, permission.group, project, target)
        if ruling.allowed:
            facts = None if project is None else project_facts(project)
            return Grant(project=facts, generation=generation)
        if project is not None and not sees(standing, project):
            return no_such_project(project.name)
        return _refusal(identity, permission, project, ruling)

    def project(self, work: UnitOfWork, generation: int, name: str) -> Project | None:
        key = (generation, name)
        if (known := self._projects.get(key)) is not None:
            return known
        found = project_named(work, name)
        return None if found is None else self._projects.put(key, found)

    def rule(
        self,
        work: UnitOfWork,
        generation: int,
        identity: Identity,
        standing: Standing,
        action: str,
        group: Group,
        project: Project | None,
        target: str,
        intent: Promoting | Deploying | None = None,
    ) -> Ruling:
        """Ask Cedar. The policies are the built-in ones, the platform's, and this project's: no other's are even loaded."""
        context: dict[str, Any] = {
            "permission": action,
            "group": group.value,
            "scopes": sorted(identity.scopes),
            "token_projects": sorted(identity.projects),
            "zone_required": self.profile.zone_required,
            "admins_enter_projects": self.profile.admins_enter_projects,
        }
        if identity.zone:
            context["caller_zone"] = identity.zone
        if target:
            context["target_zone"] = target
        if isinstance(intent, Promoting):
            context["promotion"] = intent.facts() | {"four_eyes": self.profile.wants_four_eyes(intent.alias)}
        elif intent is not None:
            context["deployment"] = intent.facts() | {
                "four_eyes": bool(self.profile.four_eyes),
                "users_code": self.profile.users_code,
                "needs_certificate": self.profile.certificates,
                "loosest_bp": self.profile.loosest_bp,
            }
        try:
            added = self._policies(work, generation, PLATFORM)
            if project is not None:
                added += self._policies(work, generation, project.id)
            policies = self._prepared.get(added)
            if policies is None:
                policies = self._prepared.put(added, self.cedar.prepare(added))
            return self.cedar.decide(
                policies,
                self._slice(generation, identity.kind, standing, project),
                principal=standing.id,
                action=action,
                project=None if project is None else project.id,
                context=context,
            )
        except (FalajError, ValueError) as error:
            return Ruling(allowed=False, rules=(), trouble=str(error))

    def rule_on_promotion(
        self, work: UnitOfWork, identity: Identity, permission: Permission, project: str, promoting: Promoting
    ) -> Ruling:
        """What policy says once it is known what would be moved, and how many approved it. Admission asked without that."""
        return self._rule_on(work, identity, permission, project, promoting)

    def rule_on_deployment(
        self, work: UnitOfWork, identity: Identity, permission: Permission, project: str, deploying: Deploying
    ) -> Ruling:
        """The same for a version that would get traffic."""
        return self._rule_on(work, identity, permission, project, deploying)

    def _rule_on(
        self, work: UnitOfWork, identity: Identity, permission: Permission, project: str, intent: Promoting | Deploying
    ) -> Ruling:
        generation = self.generation(work)
        standing, found = self.standing(work, generation, identity.principal), self.project(work, generation, project)
        if standing is None or standing.disabled or found is None:
            return Ruling(allowed=False, rules=(), trouble="the caller or the project is gone")
        return self.rule(work, generation, identity, standing, permission.name, permission.group, found, "", intent=intent)

    def _policies(self, work: UnitOfWork, generation: int, scope: str) -> tuple[tuple[str, str], ...]:
        key = (generation, scope)
        if (known := self._added.get(key)) is not None:
            return known
        return self._added.put(key, tuple((rule_name(scope, policy.name), policy.text) for policy in policies_of(work, scope)))

    def _slice(self, generation: int, kind: str, standing: Standing, project: Project | None) -> Any:
        scope = PLATFORM if project is None else project.id
        key = (generation, kind, standing.id, scope)
        if (known := self._entities.get(key)) is not None:
            return known
        subject = Subject(
            id=standing.id, name=standing.name, kind=kind, roles=standing.on(scope), platform_roles=standing.on(PLATFORM)
        )
        resource = None if project is None else _resource(project)
        return self._entities.put(key, self.cedar.entities(subject, resource))


def _question(generation: int, identity: Identity, operation: Operation[Any, Any], request: Any) -> tuple[Any, ...]:
    """Everything a decision depends on; the project and the zone that would be written to come last."""
    project = request.project if operation.scope is Scope.PROJECT else None
    return (
        generation,
        identity.principal,
        identity.kind,
        identity.scopes,
        identity.projects,
        identity.zone,
        operation.name,
        project,
        getattr(request, "zone", "") if project is not None else "",
    )


def rule_name(scope: str, policy: str) -> str:
    """How an added policy is called in refusals and explanations; built-in names never hold a slash."""
    return f"{'platform' if scope == PLATFORM else 'project'}/{policy}"


def sees(standing: Standing, project: Project) -> bool:
    """Whether this principal may know that the project exists."""
    return bool(standing.on(project.id) or standing.on(PLATFORM) & OVERSEERS)


def project_facts(project: Project) -> ProjectFacts:
    places = tuple(Place(zone=zone.name, storage=zone.storage) for zone in project.zones)
    return ProjectFacts(id=project.id, name=project.name, places=places)


def _reaches(identity: Identity, project: str) -> bool:
    return not identity.projects or project in identity.projects


def _resource(project: Project) -> Resource:
    return Resource(
        id=project.id,
        name=project.name,
        zones=tuple(zone.name for zone in project.zones),
        countries=tuple(sorted({zone.country for zone in project.zones})),
        jurisdictions=tuple(sorted({tag for zone in project.zones for tag in zone.jurisdictions})),
        archived=project.archived,
    )


def _refusal(identity: Identity, permission: Permission, project: Project | None, ruling: Ruling) -> Forbidden:
    where = "on the platform" if project is None else f"in project {project.name!r}"
    if ruling.trouble:
        return Forbidden(f"{permission.name} {where} is refused: the policies could not be evaluated.", rule="policy.error")
    if not ruling.rules:
        return Forbidden(
            f"No policy allows {permission.name} {where} for {identity.name}; ask an admin for a role.", rule="no-permit"
        )
    return Forbidden(f"{permission.name} {where} is refused by {', '.join(ruling.rules)}.", rule=ruling.rules[0])


def _again(refusal: FalajError) -> FalajError:
    """A fresh exception, because a raised one gathers tracebacks."""
    if isinstance(refusal, Forbidden):
        return Forbidden(str(refusal), rule=refusal.rule)
    return type(refusal)(str(refusal))
