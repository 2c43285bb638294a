"""Bringing a database to the newest schema: one linear history, in `history/versions/`, the same for both engines."""

from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from falaj.database.work import metadata

HISTORY = Path(__file__).parent / "history"
ONE_AT_A_TIME = 0x46616C616A  # the number of our advisory lock in Postgres


def read_history(folder: Path = HISTORY) -> tuple[Config, ScriptDirectory]:
    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config, ScriptDirectory.from_config(config)


def newest_revision(folder: Path = HISTORY) -> str:
    head = read_history(folder)[1].get_current_head()
    if head is None:
        raise RuntimeError("this installation has no migrations")
    return head


def is_known(revision: str, folder: Path = HISTORY) -> bool:
    """Whether this release, or one before it, made that schema."""
    return any(script.revision == revision for script in read_history(folder)[1].walk_revisions())


def current_revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def migrate(engine: Engine, folder: Path = HISTORY, *, revision: str = "head") -> None:
    """Run what is missing up to `revision`, in one transaction: a failure leaves the old schema. One at a time."""
    config, scripts = read_history(folder)

    def upgrade(current: object, _context: object) -> object:
        return scripts._upgrade_revs(revision, current)  # type: ignore[arg-type]

    with engine.begin() as connection, EnvironmentContext(config, scripts, fn=upgrade) as environment:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"select pg_advisory_xact_lock({ONE_AT_A_TIME})")
        environment.configure(connection=connection, target_metadata=metadata)
        environment.run_migrations()
