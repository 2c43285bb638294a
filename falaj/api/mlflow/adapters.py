"""What an endpoint is: an adapter over one operation, or a procedure over several. Both are values; `face` runs them."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from falaj.api.mlflow.failures import INVALID
from falaj.base.operation import Download, Operation
from falaj.base.values import value

Req = TypeVar("Req")
Res = TypeVar("Res")
B = TypeVar("B")
Document: TypeAlias = dict[str, Any]


class Visit(Protocol):
    """One request under way, in a worker thread. `project` is chosen when it is first asked for."""

    @property
    def project(self) -> str: ...

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the path that the endpoint left open, decoded."""

    @property
    def address(self) -> str:
        """How the caller reached this face: scheme, host and prefix, without a slash at the end."""

    def call(self, operation: Operation[Req, Res], request: Req) -> Res:
        """Through the dispatcher, in the caller's name; an operation that takes bytes is given the body."""


@value
class Answer:
    """An answer that is more than a document."""

    document: Document | None = None
    text: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@value
class Adapter:
    """One operation under MLflow's names: what was sent becomes its request, its result what MLflow would answer.

    `more` gives further requests of the same operation, for the rare case that one cannot say all that was sent. `quick` reads
    the common case faster, and answers None in any other.
    """

    name: str
    body: type
    operation: Operation[Any, Any]
    read: Callable[[Any, Visit], Any]
    write: Callable[[Any], Document]
    more: Callable[[Any, Visit], tuple[Any, ...]] | None = None
    quick: Callable[[bytes, Visit], Any] | None = None
    conflict: str = INVALID


@value
class Procedure:
    """Several operations, or none, that make one answer. `takes_bytes` leaves the body to the operation that wants it."""

    name: str
    body: type
    perform: Callable[[Visit, Any], Document | Answer | Download]
    conflict: str = INVALID
    takes_bytes: bool = False


Endpoint: TypeAlias = Adapter | Procedure


def adapt(
    operation: Operation[Req, Res],
    body: type[B],
    read: Callable[[B, Visit], Req],
    write: Callable[[Res], Document],
    *,
    more: Callable[[B, Visit], tuple[Req, ...]] | None = None,
    quick: Callable[[bytes, Visit], Req | None] | None = None,
    conflict: str = INVALID,
) -> Adapter:
    """mypy holds them against each other."""
    return Adapter(
        name=operation.name,
        body=body,
        operation=operation,
        read=read,
        write=write,
        more=more,
        quick=quick,
        conflict=conflict,
    )


def perform(
    name: str,
    body: type[B],
    function: Callable[[Visit, B], Document | Answer | Download],
    *,
    conflict: str = INVALID,
    takes_bytes: bool = False,
) -> Procedure:
    return Procedure(name=name, body=body, perform=function, conflict=conflict, takes_bytes=takes_bytes)


def nothing(_result: Any) -> Document:
    """MLflow answers an empty object where there is nothing to say."""
    return {}
