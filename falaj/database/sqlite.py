"""SQLite: readers side by side on WAL snapshots, and one writer that commits groups.

Everything that waits while a commit is under way shares the next one: a savepoint each, so that one failing leaves the others
alone, and one fsync for all. `synchronous=FULL`, because NORMAL may lose acknowledged commits when the power fails.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from falaj.base.failpoints import failpoint
from falaj.database.errors import translated
from falaj.database.work import UnitOfWork

T = TypeVar("T")
LARGEST_GROUP = 256
Job = tuple[Callable[[UnitOfWork], Any], "Future[Any]"]


def sqlite_engine(file: Path, *, writes: bool) -> Engine:
    """An engine whose transactions begin explicitly: IMMEDIATE to write, and refusing to write otherwise."""
    url = URL.create("sqlite", database=str(file))  # not by hand: a folder's name may hold a `?`
    engine = create_engine(url, poolclass=QueuePool, pool_size=1 if writes else 16, max_overflow=0 if writes else 48)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout=10000")
        connection.execute("PRAGMA foreign_keys=ON")
        if writes:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA secure_delete=ON")  # a deleted key must not linger in a free page
        else:
            connection.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


class SqliteDatabase:
    """Passes the same tests as `PostgresDatabase`; for one process at a time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._writing = sqlite_engine(file, writes=True)
        self._reading = sqlite_engine(file, writes=False)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closed = False
        self._closing = threading.Lock()  # so that no job is queued behind the mark that ends the writer
        self._writer = threading.Thread(target=self._write_groups, name="sqlite-writer", daemon=True)
        self._writer.start()

    def read(self, function: Callable[[UnitOfWork], T]) -> T:
        with translated(self._file), self._reading.begin() as connection:
            return function(UnitOfWork(connection))

    def write(self, function: Callable[[UnitOfWork], T]) -> T:
        if threading.current_thread() is self._writer:
            raise RuntimeError("a write within a write would wait for itself: pass the unit of work on instead")
        return self.submit(function).result()

    def submit(self, function: Callable[[UnitOfWork], T]) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._closing:
            if self._closed:
                raise RuntimeError("the database is closed")
            self._jobs.put((function, future))
        return future

    def close(self) -> None:
        with self._closing:
            self._closed = True
            self._jobs.put(None)
        self._writer.join()
        self._writing.dispose()
        self._reading.dispose()

    def _write_groups(self) -> None:
        while (job := self._jobs.get()) is not None:
            group = [job]
            while len(group) < LARGEST_GROUP and not self._jobs.empty():
                if (job := self._jobs.get()) is None:
                    self._jobs.put(None)
                    break
                group.append(job)
            self._write_group(group)

    def _write_group(self, group: list[Job]) -> None:
        """Run each job in its savepoint, commit once, and only then tell anyone."""
        done: list[tuple[Future[Any], Any]] = []
        try:
            with self._writing.begin() as connection:
                for function, future in group:
                    work = UnitOfWork(connection)
                    work.driver.execute("SAVEPOINT job")
                    try:
                        result = function(work)
                    except BaseException as error:
                        if not work.driver.in_transaction:
                            raise  # SQLite itself rolled everything back, as it does on a full disk
                        work.driver.execute("ROLLBACK TO job")
                        future.set_exception(self._meaning(error))
                    else:
                        done.append((future, result))
                    work.driver.execute("RELEASE job")
                failpoint("sqlite.before-commit")
            failpoint("sqlite.after-commit")
        except BaseException as error:  # noqa: BLE001  whoever waits must hear of it, whatever it is
            meaning = self._meaning(error)
            for _, future in group:
                if not future.done():
                    future.set_exception(meaning)
            return
        for future, result in done:
            future.set_result(result)

    def _meaning(self, error: BaseException) -> BaseException:
        try:
            with translated(self._file):
                raise error
        except BaseException as meaning:  # noqa: BLE001  it goes to whoever waits
            return meaning
