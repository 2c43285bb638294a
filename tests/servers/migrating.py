"""Migrations that were run once in earnest, repeated: for tests that open many new databases and are not about migrations."""

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from falaj.database.migrations import HISTORY, migrate

_statements: dict[tuple[str, Path, str], list[tuple[str, Any]]] = {}


def migrate_as_before(engine: Engine, folder: Path = HISTORY, *, revision: str = "head") -> None:
    """As `migrate` for a new database, with the statements that it came to for the first one of that kind."""
    key = (engine.dialect.name, folder, revision)
    if key not in _statements:
        _statements[key] = _migrate_and_remember(engine, folder, revision)
        return
    with engine.begin() as connection:
        for statement, parameters in _statements[key]:
            connection.exec_driver_sql(statement, parameters).close()


def _migrate_and_remember(engine: Engine, folder: Path, revision: str) -> list[tuple[str, Any]]:
    statements: list[tuple[str, Any]] = []

    def remember(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.startswith("BEGIN"):  # which every transaction of ours does by itself
            statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", remember)
    try:
        migrate(engine, folder, revision=revision)
    finally:
        event.remove(engine, "before_cursor_execute", remember)
    return statements
