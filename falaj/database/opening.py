"""Which engine a location means, and bringing a database to the schema this release works with."""

from pathlib import Path

from sqlalchemy import Engine

from falaj.base.errors import Invalid, Misconfigured
from falaj.base.values import value
from falaj.database.errors import translated
from falaj.database.migrations import current_revision, is_known, migrate, newest_revision
from falaj.database.postgres import PostgresDatabase, postgres_engine
from falaj.database.sqlite import SqliteDatabase, sqlite_engine
from falaj.database.work import Database


class SchemaDiffers(Misconfigured):
    """The database is of another release."""


@value
class Location:
    """A Postgres by its URL or, where that is empty, SQLite in a file."""

    url: str
    file: Path

    def engine(self) -> Engine:
        """A bare engine for migrations and for loading a dump; dispose of it after use."""
        if not self.url:
            return sqlite_engine(self.file, writes=True)
        if self.url.startswith("postgresql+psycopg://"):
            return postgres_engine(self.url)
        raise Invalid(
            "[database] url: leave it empty for SQLite in the home, or write postgresql+psycopg://USER:PASSWORD@HOST/NAME."
        )

    def revision(self) -> str | None:
        """The schema it is at; None where it was never used."""
        if not self.url and not self.file.exists():
            return None
        engine = self.engine()
        try:
            with translated(self.file):
                return current_revision(engine)
        finally:
            engine.dispose()

    def migrate(self, revision: str = "head") -> None:
        engine = self.engine()
        try:
            with translated(self.file):
                migrate(engine, revision=revision)
        finally:
            engine.dispose()

    def open(self) -> Database:
        """Open it at the newest schema. A new one gets it at once; an older one waits for `falaj upgrade`."""
        revision, newest = self.revision(), newest_revision()
        if revision is None:
            self.migrate()
        elif revision != newest:
            raise SchemaDiffers(differing(revision))
        return self.connect()

    def connect(self) -> Database:
        """Open it as it is, whatever its schema."""
        return PostgresDatabase(self.url) if self.url else SqliteDatabase(self.file)


def differing(revision: str) -> str:
    """What to do about a database at another schema than this release's."""
    told = f"The database is at schema {revision}, this Falaj works with {newest_revision()}."
    if is_known(revision):
        return f"{told} Run: falaj upgrade"
    return f"{told} A newer release made it: install that release; going back is done by restoring a backup."
