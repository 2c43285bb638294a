"""Bringing a database to the newest schema: one linear history, in `history/versions/`, the same for both engines.

Alembic is imported where something has to be migrated: it takes as long to load as the rest of the database room, and most
starts find the newest schema.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, column, inspect, select, table

from falaj.database.work import metadata

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

VERSION_TABLE = "alembic_version"
HISTORY = Path(__file__).parent / "history"
ONE_AT_A_TIME = 0x46616C616A  # the number of our advisory lock in Postgres


def read_history(folder: Path = HISTORY) -> tuple["Config", "ScriptDirectory"]:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config, ScriptDirectory.from_config(config)


def revisions(folder: Path = HISTORY) -> list[str]:
    """From the first to the newest: a migration's file begins with its revision."""
    return sorted(file.name.partition("_")[0] for file in (folder / "versions").glob("*_*.py"))


def newest_revision(folder: Path = HISTORY) -> str:
    if not (found := revisions(folder)):
        raise RuntimeError("this installation has no migrations")
    return found[-1]


def is_known(revision: str, folder: Path = HISTORY) -> bool:
    """Whether this release, or one before it, made that schema."""
    return revision in revisions(folder)


def current_revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return revision_seen_by(connection)


def revision_seen_by(connection: Connection) -> str | None:
    """The schema a database is at; None where it was never used."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: Sequence[str] = connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalars().all()
    if len(found) > 1:
        raise RuntimeError(f"the table {VERSION_TABLE} names several revisions, and a history is linear: {sorted(found)}")
    return found[0] if found else None


def migrate(engine: Engine, folder: Path = HISTORY, *, revision: str = "head") -> None:
    """Run what is missing up to `revision`, in one transaction: a failure leaves the old schema. One at a time."""
    from alembic.runtime.environment import EnvironmentContext

    config, scripts = read_history(folder)

    def upgrade(current: object, _context: object) -> object:
        return scripts._upgrade_revs(revision, current)  # type: ignore[arg-type]

    with engine.begin() as connection, EnvironmentContext(config, scripts, fn=upgrade) as environment:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"select pg_advisory_xact_lock({ONE_AT_A_TIME})")
        environment.configure(connection=connection, target_metadata=metadata)
        environment.run_migrations()
