"""Databases that hold every room's tables already: made once and copied, which takes less than making them for each test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from falaj.database.work import metadata
from tests.servers.postgres import PostgresServer

_files: dict[frozenset[str], bytes] = {}
_models: dict[tuple[Path, frozenset[str]], str] = {}


def make_sqlite_tables(file: Path) -> None:
    """A new database file with the tables that are declared by now; one that is there already stays as it is."""
    if file.exists():
        return
    declared = frozenset(metadata.tables)
    if declared not in _files:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model.db"
            _make_tables(f"sqlite:///{model}")
            _files[declared] = model.read_bytes()
    file.write_bytes(_files[declared])


def _make_tables(url: str) -> None:
    engine = create_engine(url)
    metadata.create_all(engine)
    engine.dispose()


@pytest.fixture
def postgres_tables_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh database for each test, with the tables that are declared by now and nothing in them."""
    key = (postgres_server.folder, frozenset(metadata.tables))
    if key not in _models:
        model = postgres_server.create_database()
        _make_tables(model)
        _models[key] = postgres_server.name_of(model)
    url = postgres_server.create_database(template=_models[key])
    yield url
    postgres_server.drop_database(url)
