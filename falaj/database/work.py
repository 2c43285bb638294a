"""The unit of work: one transaction, shared by every room that takes part in one operation."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, CursorResult, Executable, MetaData

from falaj.base.caller import Identity, ProjectFacts
from falaj.base.clock import Moment
from falaj.base.values import value

T = TypeVar("T")

# Every room's tables register here; names carry the room's prefix. Alembic's history creates them.
metadata = MetaData()


class UnitOfWork:
    """An open transaction. Belongs to one thread; valid only inside the function that was given it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.driver: Any = connection.connection.dbapi_connection  # for `Prepared`
        self.remembered: dict[str, int] = {}  # what was read once and holds for this transaction

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return self.connection.execute(statement, parameters)


class Database(Protocol):
    """Runs functions in transactions. Thread-safe.

    `write` returns only after the effect is durable, or raises with no effect; the function may be run again after a
    conflict, so it acts on the database alone. `submit` is `write` for those who will not wait: what it returns cannot be
    cancelled. `read` sees one consistent snapshot and cannot write. Raises `OutOfSpace` when the disk is full and `Unavailable`
    when the database does not answer.
    """

    def read(self, function: Callable[[UnitOfWork], T]) -> T: ...

    def write(self, function: Callable[[UnitOfWork], T]) -> T: ...

    def submit(self, function: Callable[[UnitOfWork], T]) -> Future[T]: ...

    def close(self) -> None: ...


@value
class Context:
    """What a handler is given: its transaction, who asks, what it touches, and what it adds to the record.

    `facts` go into the leaf beside the request: ids that were made, versions that were read. Nothing personal, no secrets.
    """

    work: UnitOfWork
    identity: Identity
    project: ProjectFacts | None
    now: Moment
    request_id: str
    facts: dict[str, Any]

    @property
    def required_project(self) -> ProjectFacts:
        """The project that policy saw; an operation declared for projects always has one."""
        if self.project is None:
            raise RuntimeError("this operation is not declared for projects and asks for one")
        return self.project
