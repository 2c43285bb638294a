"""Postgres through psycopg 3, for fleets: several control planes share one database, loops run under leases."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from falaj.base.errors import Invalid
from falaj.base.failpoints import failpoint
from falaj.database.errors import translated
from falaj.database.work import UnitOfWork

T = TypeVar("T")
ATTEMPTS = 5
# serialization_failure, deadlock_detected: the transaction left nothing behind and may simply be run again.
REPEATABLE = {"40001", "40P01"}


def postgres_engine(url: str) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise Invalid(
            "[database] url names a Postgres, and its driver is not installed: pip install 'falaj[postgres]'"
        ) from None
    engine = create_engine(url, pool_size=16, max_overflow=16, pool_timeout=10, pool_pre_ping=True)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        # Our queries end with their page: compiling one takes longer than running it, whatever the planner expects.
        connection.execute("SET jit = off")
        connection.commit()

    return engine


class PostgresDatabase:
    """Passes the same tests as `SqliteDatabase`."""

    def __init__(self, url: str) -> None:
        self._engine = postgres_engine(url)
        self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._this_thread = threading.local()
        self._writers = ThreadPoolExecutor(16, thread_name_prefix="postgres-writer")

    def read(self, function: Callable[[UnitOfWork], T]) -> T:
        with translated(), self._reading.begin() as connection:
            return function(UnitOfWork(connection))

    def write(self, function: Callable[[UnitOfWork], T]) -> T:
        if getattr(self._this_thread, "writes", False):
            raise RuntimeError("a write within a write may wait for itself: pass the unit of work on instead")
        self._this_thread.writes = True
        try:
            with translated():
                return self._write_repeatedly(function)
        finally:
            self._this_thread.writes = False

    def submit(self, function: Callable[[UnitOfWork], T]) -> Future[T]:
        return self._writers.submit(self.write, function)

    def _write_repeatedly(self, function: Callable[[UnitOfWork], T]) -> T:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._write_once(function)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in REPEATABLE:
                    raise
        return self._write_once(function)

    def _write_once(self, function: Callable[[UnitOfWork], T]) -> T:
        with self._engine.begin() as connection:
            result = function(UnitOfWork(connection))
            failpoint("postgres.before-commit")
        failpoint("postgres.after-commit")
        return result

    def close(self) -> None:
        self._writers.shutdown()
        self._engine.dispose()
