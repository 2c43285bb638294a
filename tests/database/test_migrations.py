"""The history brings an empty database to what the rooms declare, on both engines."""

import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect

from falaj.database.migrations import HISTORY, current_revision, is_known, migrate, newest_revision, read_history, revisions
from falaj.database.work import metadata
from scripts.new_migration import load_tables, write_migration

FIRST = """
import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.create_table("wells", sa.Column("name", sa.String(100), primary_key=True))
"""
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.add_column("wells", sa.Column("depth", sa.BigInteger(), nullable=True))
    op.create_index("wells_depth", "wells", ["depth"])
"""
BROKEN = SECOND.replace('op.create_index("wells_depth", "wells", ["depth"])', 'op.drop_table("no_such_table")')


@pytest.fixture
def engine(place):
    engine = place.engine()
    yield engine
    engine.dispose()


@pytest.fixture
def history(tmp_path):
    folder = tmp_path / "history"
    (folder / "versions").mkdir(parents=True)
    (folder / "versions" / "0001_wells.py").write_text(FIRST)
    return folder


def columns(engine):
    return [column["name"] for column in inspect(engine).get_columns("wells")]


def test_an_empty_database_is_brought_to_the_newest_revision(engine, history):
    assert current_revision(engine) is None
    (history / "versions" / "0002_depth.py").write_text(SECOND)
    migrate(engine, history)
    assert current_revision(engine) == newest_revision(history) == "0002"
    assert columns(engine) == ["name", "depth"]


def test_a_history_is_read_by_its_files_as_alembic_reads_it(history):
    (history / "versions" / "0002_depth.py").write_text(SECOND)
    for folder in (history, HISTORY):
        scripts = read_history(folder)[1]
        assert revisions(folder) == [script.revision for script in scripts.walk_revisions()][::-1]
        assert newest_revision(folder) == scripts.get_current_head()
        assert is_known("0001", folder)
        assert not is_known("9999", folder)


def test_the_revision_is_read_as_alembic_reads_it(engine, history):
    migrate(engine, history)
    with engine.connect() as connection:
        alembics = MigrationContext.configure(connection).get_current_revision()
    assert current_revision(engine) == alembics == "0001"
    with engine.begin() as connection:
        connection.exec_driver_sql("delete from alembic_version")
    assert current_revision(engine) is None


def test_several_revisions_in_one_database_are_refused(engine, history):
    migrate(engine, history)
    with engine.begin() as connection:
        connection.exec_driver_sql("insert into alembic_version values ('0007')")
    with pytest.raises(RuntimeError, match="several revisions"):
        current_revision(engine)


def test_only_what_is_missing_is_run(engine, history):
    migrate(engine, history)
    with engine.begin() as connection:
        connection.exec_driver_sql("insert into wells values ('falaj al-ain')")
    (history / "versions" / "0002_depth.py").write_text(SECOND)
    migrate(engine, history)
    migrate(engine, history)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select name, depth from wells").all() == [("falaj al-ain", None)]


def test_a_migration_that_fails_leaves_the_schema_as_it_was(engine, history):
    migrate(engine, history)
    (history / "versions" / "0002_depth.py").write_text(BROKEN)
    with pytest.raises(Exception, match="no_such_table"):
        migrate(engine, history)
    assert columns(engine) == ["name"]
    assert current_revision(engine) == "0001"


MIGRATE = """
import sys
from pathlib import Path
from sqlalchemy import create_engine
from falaj.database.migrations import migrate
from falaj.database.sqlite import sqlite_engine

address, history = sys.argv[1:]
engine = create_engine(address) if address.startswith("postgresql") else sqlite_engine(Path(address), writes=True)
migrate(engine, Path(history))
"""


def test_processes_that_migrate_at_once_wait_for_each_other(engine, history):
    address = engine.url.database if engine.dialect.name == "sqlite" else engine.url.render_as_string(hide_password=False)
    processes = [subprocess.Popen([sys.executable, "-c", MIGRATE, address, str(history)]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert current_revision(engine) == "0001"


def test_the_history_makes_exactly_the_tables_that_the_rooms_declare(engine):
    load_tables()
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_a_new_migration_is_written_from_the_tables_and_then_nothing_is_missing(engine, tmp_path):
    written = write_migration("the whole schema", tmp_path)
    assert written is not None
    assert written.name == "0001_the_whole_schema.py"
    migrate(engine, tmp_path)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []
    assert write_migration("again", tmp_path) is None
