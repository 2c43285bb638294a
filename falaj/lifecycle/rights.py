"""What a run may do: what its steps need, and no more than whoever starts it may do by the token they start it with."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Forbidden, Invalid, PermanentError
from falaj.base.ids import TokenId, new_id
from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper, token_hash
from falaj.governance.identity.minting import covers, new_secret
from falaj.governance.identity.store import token_by_id
from falaj.jobs.makers import maker_for
from falaj.jobs.operations.jobs import CANCEL_JOB, REPORT, RETRY_JOB, SUBMIT_JOB
from falaj.jobs.room import DEFAULT_SCOPES
from falaj.jobs.store import tokens
from falaj.lifecycle.calling_off import calling_off
from falaj.lifecycle.checking import Catalogue, required
from falaj.lifecycle.expressions import MARK
from falaj.lifecycle.gates.planning import NEEDED
from falaj.lifecycle.operations.gates import RUN_GATES
from falaj.lifecycle.operations.words import TELL, Definition, Step
from falaj.monitoring import wishers
from falaj.optimisation.operations.optimisations import PLAN_OPTIMISATION, SHOW_OPTIMISATION
from falaj.optimisation.operations.words import OPTIMISE, SEE

LABEL: Final = "a run of a pipeline"
LIFE: Final = 366 * DAY
_SUBMITTING: Final = (SUBMIT_JOB.name, RETRY_JOB.name)
_OF_OPTIMISING: Final = (OPTIMISE.name, SEE.name, REPORT.name, "dataset.read", "version.read", "model.read")


@value
class _Asked:
    """What the gate looks at of a request."""

    project: str
    zone: str = ""


@value
class Rights:
    """`calls` are operations and the projects they are called in; `scopes` what the run's own token needs."""

    calls: tuple[tuple[Operation[Any, Any], str], ...]
    scopes: frozenset[str]

    @property
    def projects(self) -> frozenset[str]:
        return frozenset(project for _, project in self.calls)


def rights_of(definition: Definition, project: str, catalogue: Catalogue) -> Rights:
    calls: dict[tuple[str, str], tuple[Operation[Any, Any], str]] = {}
    scopes = set[str]()
    for step in definition.steps:
        for operation, where in _calls_of(step, project, catalogue):
            calls[operation.name, where] = (operation, where)
            scopes.add(operation.permission.name)
        scopes |= permissions_of(step)
        for name in _wished(step):
            operation = _needing(name, catalogue)
            calls[operation.name, project] = (operation, project)
        if step.kind == "optimise":
            scopes.update(_OF_OPTIMISING)
        if step.operation == RUN_GATES.name:  # what the jobs of gates may do, their run has to be able to give
            scopes.update((SUBMIT_JOB.permission.name, *NEEDED))
    return Rights(calls=tuple(calls.values()), scopes=frozenset(scopes))


def _needing(permission: str, catalogue: Catalogue) -> Operation[Any, Any]:
    """By which one can ask whether somebody has a permission."""
    if (found := catalogue.needing.get(permission)) is None:
        raise Invalid(f"There is no permission {permission!r} that a step could have; docs/reference.md names them.")
    return found


def permissions_of(step: Step) -> set[str]:
    """What the job of a step may do: where it does not say, what a training may; a function also hands on what came out."""
    if step.function is None:
        return set(_wished(step) or DEFAULT_SCOPES) if step.operation in _SUBMITTING else set()
    usual = {*DEFAULT_SCOPES, "dataset.write"} if step.result == "dataset" else DEFAULT_SCOPES
    return {TELL.name, *(_wished(step) or usual)}


def _wished(step: Step) -> tuple[str, ...]:
    """The permissions that the step itself says its job needs."""
    if step.function is not None:
        return step.function.permissions
    spec = step.arguments.get("spec") if step.operation in _SUBMITTING else None
    named = spec.get("permissions") if isinstance(spec, dict) else None
    return tuple(one for one in named if isinstance(one, str)) if isinstance(named, list | tuple) else ()


def _calls_of(step: Step, project: str, catalogue: Catalogue) -> Iterable[tuple[Operation[Any, Any], str]]:
    if step.kind == "function":
        yield from ((SUBMIT_JOB, project), (CANCEL_JOB, project))
    elif step.kind == "optimise":
        yield from ((one, project) for one in (PLAN_OPTIMISATION, SHOW_OPTIMISATION, SUBMIT_JOB, CANCEL_JOB))
    elif step.kind == "operation":
        yield required(catalogue, step.operation), _place(step.arguments, project)
        if step.until is not None:
            yield required(catalogue, step.until.operation), _place(step.until.arguments, project)
        if (how := calling_off(step)) is not None:
            yield how.operation, _place(step.arguments, project)


def _place(arguments: Any, project: str) -> str:
    """Another project is named outright: what a run may reach is known before it begins."""
    named = arguments.get("project", project)
    if not isinstance(named, str) or MARK in named:
        raise Invalid("The project that an operation is called in has to be named as it is, and not referred to.")
    return named


def check_may(context: Context, gate: Gatekeeper, rights: Rights) -> None:
    """Raises `Forbidden` where the caller may not do what the run would do, or only with another token."""
    for operation, project in rights.calls:
        gate.authorise(context.work, context.identity, operation, _Asked(project=project))
    known, held = gate.cedar.permissions, context.identity.scopes
    for name in sorted(rights.scopes):
        if name not in known:
            raise Invalid(f"There is no permission {name!r}; docs/reference.md names them.")
        if held and not covers(held, name, known):
            raise Forbidden(f"Your own token does not have the scope {name!r}, which the run needs.", rule="token.scope")


def check_author(context: Context, gate: Gatekeeper, author: str, rights: Rights, *, since: str = "", then: str) -> None:
    """Who starts what another one wrote without having looked at it lends them no right: the author has to have all of them,
    too. `then` is what whoever has them does about it."""
    identity = wishers.identity_of(context.work, wishers.Wisher(principal=author), context.identity.zone)
    try:
        check_may(replace(context, identity=identity), gate, rights)
    except PermanentError as error:
        raise Forbidden(
            f"{identity.name or 'Somebody'} changed the pipeline{since}, and may not do what it does: "
            f"whoever may looks at it and {then}. {error}"
        ) from None


def run_token(context: Context, rights: Rights) -> TokenId:
    """A token for the run: nobody ever knows its secret, and it falls with the one that it was started with."""
    identity, made = context.identity, TokenId(new_id(context.now))
    parent = maker_for(context) if identity.token else None
    reach = None if parent is None or (found := token_by_id(context.work, parent)) is None else found.reach
    life = Moment(context.now + LIFE)
    if reach is not None and reach <= context.now:  # a trigger goes on when the token it was set with has run out
        reach = None
    row = {
        "id": made,
        "hash": token_hash(new_secret()),
        "principal": identity.principal,
        "label": LABEL,
        "scopes": tokens.listed(rights.scopes),
        "projects": tokens.listed(rights.projects | {context.required_project.name}),
        "zone": identity.zone,
        "expires": int(life if reach is None else min(life, reach)),
        "parent": parent,
    }
    tokens.add(context.work, [row], context.now)
    return made
