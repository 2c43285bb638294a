"""Migrations that were run once in earnest, repeated: for tests that open many new databases and are not about migrations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from falaj.database import opening
from falaj.database.migrations import HISTORY, current_revision, migrate

_files: dict[tuple[Path, str], bytes] = {}
_scripts: dict[tuple[Path, str], str] = {}


@contextmanager
def migrations_as_before() -> Iterator[None]:
    """New databases that are opened meanwhile are made as the first of their kind was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "migrate", migrate_as_before)
        yield


def migrate_as_before(engine: Engine, folder: Path = HISTORY, *, revision: str = "head") -> None:
    """As `migrate`; but for a new database SQLite's file is copied, and Postgres gets the statements again, all in one."""
    if engine.dialect.name == "sqlite":
        _copy_file(engine, Path(str(engine.url.database)), folder, revision)
    else:
        _repeat_script(engine, folder, revision)


def _copy_file(engine: Engine, file: Path, folder: Path, revision: str) -> None:
    if file.exists():
        migrate(engine, folder, revision=revision)
        return
    if (known := _files.get((folder, revision))) is not None:
        file.write_bytes(known)
        return
    migrate(engine, folder, revision=revision)
    engine.dispose()  # the last connection takes over what is in the log beside the file
    _files[folder, revision] = file.read_bytes()


def _repeat_script(engine: Engine, folder: Path, revision: str) -> None:
    if current_revision(engine) is not None:
        migrate(engine, folder, revision=revision)
        return
    if (known := _scripts.get((folder, revision))) is not None:
        with engine.begin() as connection:
            connection.exec_driver_sql(known).close()
        return
    changes: list[str] = []

    def remember(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.lower().startswith(("begin", "select")):
            assert not parameters, f"a migration with parameters cannot be repeated like this: {statement}"
            changes.append(statement)

    event.listen(engine, "before_cursor_execute", remember)
    try:
        migrate(engine, folder, revision=revision)
    finally:
        event.remove(engine, "before_cursor_execute", remember)
    _scripts[folder, revision] = ";\n".join(changes)
