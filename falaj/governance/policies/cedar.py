"""The one file that speaks to Cedar: the schema of all declared operations, prepared policy sets, and decisions.

Fails closed: an error while deciding is a refusal. Facts are passed in; this file knows no database.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

import cedarpy

from falaj.base.errors import Invalid
from falaj.base.operation import Group, Operation, Permission, Scope
from falaj.base.values import value
from falaj.governance.policies.limits import check_shape

BUILTIN: Final = files("falaj.governance.policies").joinpath("builtin.cedar").read_text(encoding="utf-8")
PLATFORM_RESOURCE: Final = {"type": "Platform", "id": "falaj"}

_TYPES: Final = """
type Promotion = {
  model: String, alias: String, approvals: Long, signed: Bool, four_eyes: Bool, gates: Set<String>
};
type Deployment = {
  endpoint: String, model: String, version: Long, share: Long, four_eyes: Bool, approved: Bool, signed: Bool,
  runs_code: Bool, users_code: Bool, variant: String, certified: Bool, needs_certificate: Bool,
  max_drop_bp: Long, max_slice_drop_bp: Long, truth_known: Bool, loosest_bp: Long
};
type Call = {
  permission: String, group: String, scopes: Set<String>, token_projects: Set<String>,
  caller_zone?: String, target_zone?: String, zone_required: Bool, admins_enter_projects: Bool,
  promotion?: Promotion, deployment?: Deployment
};
entity Role, PlatformRole, Platform;
entity Principal in [Role, PlatformRole] = { name: String, kind: String };
entity Project = { name: String, zones: Set<String>, countries: Set<String>, jurisdictions: Set<String>, archived: Bool };
"""
_RESOURCES: Final = {Scope.PROJECT: "Project", Scope.PLATFORM: "Platform"}


@value
class Subject:
    """A principal as policy sees it: its roles on the thing touched, and on the platform."""

    id: str
    name: str
    kind: str
    roles: frozenset[str]
    platform_roles: frozenset[str]


@value
class Resource:
    """A project as policy sees it."""

    id: str
    name: str
    zones: tuple[str, ...]
    countries: tuple[str, ...]
    jurisdictions: tuple[str, ...]
    archived: bool


@value
class Promoting:
    """A move of a model's alias (or stage) as policy sees it: to a version that is signed, how many people approved it, and the
    names of the gates that it passed."""

    model: str
    alias: str
    approvals: int
    signed: bool
    gates: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        named = {"model": self.model, "alias": self.alias, "approvals": self.approvals, "signed": self.signed}
        return named | {"gates": list(self.gates)}


@value
class Deploying:
    """A version that is to answer under an endpoint's name, as policy sees it. `share` is in hundredths of a per cent, the
    most it will get by itself; `approved` says that somebody else approved the version for production; `runs_code` that
    its own Python code would be loaded, in a sandbox. `variant` is the optimised form of it that would answer, empty for its
    own; `certified` says that this is the version's own form, or has a certificate that holds. That one allows at most
    `max_drop_bp` to be lost over all and `max_slice_drop_bp` in a slice, in hundredths of a per cent; `truth_known` says that
    it was judged by what is true, not by what the original said."""

    endpoint: str
    model: str
    version: int
    share: int
    approved: bool
    signed: bool
    runs_code: bool = False
    variant: str = ""
    certified: bool = True
    max_drop_bp: int = 0
    max_slice_drop_bp: int = 0
    truth_known: bool = True

    def facts(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "model": self.model,
            "version": self.version,
            "share": self.share,
            "approved": self.approved,
            "signed": self.signed,
            "runs_code": self.runs_code,
            "variant": self.variant,
            "certified": self.certified,
            "max_drop_bp": self.max_drop_bp,
            "max_slice_drop_bp": self.max_slice_drop_bp,
            "truth_known": self.truth_known,
        }


@value
class Ruling:
    """Allowed or not, and by which policies; none of them where nothing permits."""

    allowed: bool
    rules: tuple[str, ...]
    trouble: str = ""


def schema_text(operations: Iterable[Operation[Any, Any]]) -> str:
    """Every permission is an action, a member of its group, and applies to what its operations touch.

    Groups apply to everything, so that a policy may speak of one that has no operation yet.
    """
    groups: dict[str, Group] = {}
    touched: dict[str, set[str]] = {}
    for operation in operations:
        permission = operation.permission
        if groups.setdefault(permission.name, permission.group) is not permission.group:
            raise ValueError(f"permission {permission.name!r} is declared in two groups")
        touched.setdefault(permission.name, set()).add(_RESOURCES[operation.scope])
    actions = "".join(
        f'action "{name}" in ["{groups[name]}"] appliesTo '
        f"{{ principal: [Principal], resource: [{', '.join(sorted(touched[name]))}], context: Call }};\n"
        for name in sorted(groups)
    )
    everything = "appliesTo { principal: [Principal], resource: [Project, Platform], context: Call }"
    return _TYPES + "".join(f'action "{group}" {everything};\n' for group in Group) + actions


def _parsed(text: str) -> dict[str, Any]:
    try:
        policies: dict[str, Any] = json.loads(cedarpy.policies_to_json_str(text))
    except ValueError as error:
        raise Invalid(f"Cedar cannot read this policy: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error
    return policies


def _too_deep() -> Invalid:
    return Invalid("This policy is nested too deeply; split it into several.")


def _single(text: str) -> dict[str, Any]:
    """The one static policy that a stored text holds. Stored ones are bounded as well: somebody else may have stored them."""
    check_shape(text)
    policies = _parsed(text)
    found = list(policies["staticPolicies"].values())
    if len(found) != 1 or policies["templates"]:
        raise Invalid("Write exactly one policy, `permit (...)` or `forbid (...)`, without ?principal or ?resource slots.")
    return dict(found[0])


class Cedar:
    """Prepares and decides. Thread-safe: all handles are immutable."""

    def __init__(self, operations: Iterable[Operation[Any, Any]]) -> None:
        declared = tuple(operations)
        self._schema = cedarpy.Schema.from_str(schema_text(declared))
        self.permissions: Mapping[str, Permission] = {operation.permission.name: operation.permission for operation in declared}
        self._builtin = {policy["annotations"]["id"]: policy for policy in _parsed(BUILTIN)["staticPolicies"].values()}

    @property
    def builtin_rules(self) -> tuple[str, ...]:
        return tuple(self._builtin)

    def check(self, text: str) -> None:
        """Refuse, in Cedar's own words, what does not parse or does not fit the schema."""
        self.prepare([("checked", text)])
        self._validate(text)

    def permits(self, text: str) -> bool:
        """Whether this policy permits; otherwise it forbids."""
        return bool(_single(text)["effect"] == "permit")

    def check_builtin(self) -> None:
        """Fails where the declared operations lack what the built-in rules speak of."""
        self._validate(BUILTIN)

    def _validate(self, text: str) -> None:
        result = cedarpy.validate_policies(text, self._schema)
        if not result.validation_passed:
            raise Invalid("Cedar refuses this policy: " + "; ".join(error.error for error in result.errors))

    def prepare(self, added: Iterable[tuple[str, str]]) -> cedarpy.PolicySet:
        """The built-in policies and the `added` ones, (rule name, text) each, under their names."""
        policies = dict(self._builtin)
        for name, text in added:
            if name in policies:
                raise Invalid(f"There are two policies named {name!r}.")
            policies[name] = _single(text)
        try:
            text = json.dumps({"staticPolicies": policies, "templates": {}, "templateLinks": []})
            return cedarpy.PolicySet.from_json_str(text)
        except ValueError as error:
            raise Invalid(f"Cedar cannot hold these policies: {error}") from error
        except RecursionError as error:
            raise _too_deep() from error

    def entities(self, subject: Subject, resource: Resource | None) -> cedarpy.Entities:
        """Exactly what one decision may look at: the caller, and what it touches."""
        parents = [{"type": "Role", "id": role} for role in sorted(subject.roles)]
        parents += [{"type": "PlatformRole", "id": role} for role in sorted(subject.platform_roles)]
        known: list[dict[str, Any]] = [
            {
                "uid": {"type": "Principal", "id": subject.id},
                "attrs": {"name": subject.name, "kind": subject.kind},
                "parents": parents,
            }
        ]
        if resource is None:
            known.append({"uid": PLATFORM_RESOURCE, "attrs": {}, "parents": []})
        else:
            known.append(
                {
                    "uid": {"type": "Project", "id": resource.id},
                    "attrs": {
                        "name": resource.name,
                        "zones": resource.zones,
                        "countries": resource.countries,
                        "jurisdictions": resource.jurisdictions,
                        "archived": resource.archived,
                    },
                    "parents": [],
                }
            )
        return cedarpy.Entities.from_json_str(json.dumps(known), self._schema)

    def decide(
        self,
        policies: cedarpy.PolicySet,
        entities: cedarpy.Entities,
        *,
        principal: str,
        action: str,
        project: str | None,
        context: dict[str, Any],
    ) -> Ruling:
        request = {
            "principal": {"type": "Principal", "id": principal},
            "action": {"type": "Action", "id": action},
            "resource": PLATFORM_RESOURCE if project is None else {"type": "Project", "id": project},
            "context": context,
        }
        answer = cedarpy.is_authorized(request, policies, entities, self._schema)
        rules = tuple(sorted(answer.diagnostics.reasons))
        if answer.diagnostics.errors:
            return Ruling(allowed=False, rules=rules, trouble="; ".join(answer.diagnostics.errors))
        return Ruling(allowed=answer.allowed, rules=rules)

    def builtin_text(self, rule: str) -> str | None:
        policy = self._builtin.get(rule)
        if policy is None:
            return None
        whole = {"staticPolicies": {rule: policy}, "templates": {}, "templateLinks": []}
        return cedarpy.format_policies(cedarpy.policies_from_json_str(json.dumps(whole)), line_width=100)
