"""Who wished for something that is done later: with no more right than the token had, and told from whoever else agrees."""

import msgspec

from falaj.base.caller import Identity
from falaj.base.ids import PrincipalId
from falaj.base.values import value
from falaj.database.work import Context, UnitOfWork
from falaj.governance.identity.store import principal_by_id
from falaj.registry.store.approvals import makers_of


@value
class Wisher:
    """`scopes` and `projects` are those of the token; `behind` are all who could have used it: whose it is, and who made it.
    `token` is what the wish stands and falls with, where it does not go on without. It was wished for `at`."""

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
