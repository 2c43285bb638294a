"""Who is asking, and the one way in which code outside the control plane asks."""

from typing import Any, Protocol

from falaj.base.ids import PrincipalId, ProjectId, TokenId
from falaj.base.operation import Operation, Req, Res
from falaj.base.values import value


@value
class Identity:
    """An authenticated caller. `scopes` narrows what its roles allow; empty means not narrowed."""

    principal: PrincipalId
    kind: str  # person, service, process or anonymous
    name: str
    token: TokenId | None
    zone: str
    scopes: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()  # names of the only projects this token reaches; empty means all


@value
class Place:
    """A zone as storage sees it: its name and which configured storage holds its bytes."""

    zone: str
    storage: str


@value
class ProjectFacts:
    """The project a call touches, as policy saw it."""

    id: ProjectId
    name: str
    places: tuple[Place, ...]


class Caller(Protocol):
    """Calls a declared operation on the platform; implemented by `client`. Thread-safe. Raises the errors of `base.errors`."""

    def call(self, operation: Operation[Req, Res], request: Req, **options: Any) -> Res: ...
