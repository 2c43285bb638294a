"""The same tests over both engines: `database` is SQLite once and Postgres once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, insert, select

from falaj.database.leases import leases
from falaj.database.postgres import PostgresDatabase, postgres_engine
from falaj.database.sqlite import SqliteDatabase, sqlite_engine
from falaj.database.work import Database, UnitOfWork

schema = MetaData()
notes = Table("notes", schema, Column("id", Integer, primary_key=True), Column("text", String))


@dataclass(frozen=True)
class Place:
    """Where a database is: opened anew by each call of `open`, and by `engine` for what is beneath transactions."""

    kind: str
    open: Callable[[], Database]
    engine: Callable[[], Engine]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        file = tmp_path / "what? a #folder%20name" / "falaj.db"
        file.parent.mkdir()
        return Place("sqlite", lambda: SqliteDatabase(file), lambda: sqlite_engine(file, writes=True))
    url = request.getfixturevalue("postgres_url")
    return Place("postgres", lambda: PostgresDatabase(url), lambda: postgres_engine(url))


@pytest.fixture
def database(place: Place) -> Iterator[Database]:
    create_tables(place)
    database = place.open()
    yield database
    database.close()


def create_tables(place: Place) -> None:
    engine = place.engine()
    schema.create_all(engine)
    leases.create(engine)
    engine.dispose()


def note(text: str) -> Callable[[UnitOfWork], None]:
    return lambda work: work.execute(insert(notes).values(text=text)) and None


def read_notes(work: UnitOfWork) -> list[str]:
    return [row.text for row in work.execute(select(notes.c.text).order_by(notes.c.id))]
