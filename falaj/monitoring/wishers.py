"""Who wished for something that is done later: with no more right than the token had, and told from whoever else agrees."""

from dataclasses import replace
from typing import Any

import msgspec

from falaj.base.caller import Identity
from falaj.base.clock import Moment
from falaj.base.errors import Forbidden, PermanentError
from falaj.base.ids import PrincipalId, TokenId
from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import Gatekeeper, project_facts
from falaj.governance.identity.store import principal_by_id, token_by_id
from falaj.governance.projects.store import Project
from falaj.jobs.makers import maker_for
from falaj.registry.store.approvals import makers_of


@value
class Wisher:
    """`scopes` and `projects` are those of the token; `behind` are all who could have used it: whose it is, and who made it.
    `token` is what the wish stands and falls with; of a session, what stands in for it. It was wished for `at`."""

    principal: str
    scopes: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    token: str = ""
    at: int = 0

    def is_behind(self, principal: str) -> bool:
        return principal == self.principal or principal in self.behind


def wisher_of(context: Context) -> Wisher:
    identity = context.identity
    behind = makers_of(context.work, identity.token) if identity.token else set[str]()
    return Wisher(
        principal=identity.principal,
        scopes=identity.scopes,
        projects=identity.projects,
        behind=frozenset(behind),
        token=str(maker_for(context) or ""),
        at=int(context.now),
    )


def encode(wisher: Wisher) -> str:
    return msgspec.json.encode(wisher, order="deterministic").decode()


def decode(text: str) -> Wisher:
    return msgspec.json.decode(text, type=Wisher)


def identity_of(work: UnitOfWork, wisher: Wisher, zone: str) -> Identity:
    """As they are now, with what their token could do; the gate refuses whoever is shut out."""
    person = principal_by_id(work, wisher.principal)
    name, kind = ("", "process") if person is None else (person.name, person.kind)
    return Identity(
        principal=PrincipalId(wisher.principal),
        kind=kind,
        name=name,
        token=None,
        zone=zone,
        scopes=wisher.scopes,
        projects=wisher.projects,
    )


def on_behalf(
    work: UnitOfWork,
    gate: Gatekeeper,
    wisher: Wisher,
    what: str,
    *,
    project: Project,
    zone: str,
    operation: Operation[Any, Any],
    request: Any,
    now: Moment,
) -> Context:
    """The context of whoever set `what`, such as 'the monitor', if they may do that now."""
    person = principal_by_id(work, wisher.principal)
    if person is None or person.disabled:
        raise Forbidden(f"Whoever set {what} is shut out, and nothing is done in their name.")
    token = token_by_id(work, TokenId(wisher.token))
    if token is not None and token.revoked is not None:
        raise Forbidden(f"The token that {what} was set with was revoked: whoever still wants it sets it again.")
    identity = replace(identity_of(work, wisher, zone), token=None if token is None else token.id)
    try:
        gate.authorise(work, identity, operation, request)
    except PermanentError as error:
        raise Forbidden(f"{identity.name}, who set {what}, may not do that any more: {error}") from None
    return Context(work=work, identity=identity, project=project_facts(project), now=now, request_id="", facts={})
