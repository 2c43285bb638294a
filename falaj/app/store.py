"""What `doctor` and `support` read from a database directly, whether a control plane runs on it or not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import func, inspect, select, table, text

from falaj.database.errors import translated
from falaj.database.migrations import current_revision
from falaj.database.postgres import postgres_engine
from falaj.database.sqlite import sqlite_engine
from falaj.database.work import UnitOfWork

T = TypeVar("T")


class Inspection:
    """A look at a database; it never writes. Raises `Unavailable` where the database does not answer."""

    def __init__(self, *, file: Path, url: str) -> None:
        self._engine = postgres_engine(url) if url else sqlite_engine(file, writes=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()

    def read(self, function: Callable[[UnitOfWork], T]) -> T:
        with translated(), self._engine.begin() as connection:
            return function(UnitOfWork(connection))

    def revision(self) -> str | None:
        with translated():
            return current_revision(self._engine)

    def damage(self) -> str:
        """The first thing SQLite finds wrong with its file; empty when there is none. Postgres checks its pages by itself."""
        if self._engine.dialect.name != "sqlite":
            return ""
        found = self.read(lambda work: work.execute(text("PRAGMA quick_check(1)")).scalar())
        return "" if found == "ok" else str(found)

    def row_counts(self) -> dict[str, int]:
        def count(work: UnitOfWork) -> dict[str, int]:
            names: list[str] = inspect(work.connection).get_table_names()
            return {name: _rows(work, name) for name in sorted(names)}

        return self.read(count)


def _rows(work: UnitOfWork, name: str) -> int:
    found: Any = work.execute(select(func.count()).select_from(table(name))).scalar_one()
    return int(found)
