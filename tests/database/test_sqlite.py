"""What only SQLite does: one writer, one commit for all who wait."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from falaj.database.sqlite import SqliteDatabase
from tests.database.conftest import note, read_notes, schema


@pytest.fixture
def database(tmp_path):
    database = SqliteDatabase(tmp_path / "falaj.db")
    database.write(lambda work: schema.create_all(work.connection))
    yield database
    database.close()


def test_all_who_wait_share_one_commit(database):
    commits = []
    event.listen(database._writing, "commit", lambda connection: commits.append(connection))
    held, release = threading.Event(), threading.Event()

    def hold(work):
        held.set()
        release.wait(10)

    with ThreadPoolExecutor(41) as pool:
        first = pool.submit(database.write, hold)
        held.wait(10)
        waiting = [pool.submit(database.write, note(str(number))) for number in range(40)]
        while database._jobs.qsize() < 40:
            pass
        release.set()
        for future in [first, *waiting]:
            future.result(10)
    assert len(commits) == 2
    assert len(database.read(read_notes)) == 40


def test_commits_are_durable_when_the_power_fails(database):
    pragmas = database.write(
        lambda work: [work.connection.exec_driver_sql(f"pragma {name}").scalar() for name in ("journal_mode", "synchronous")]
    )
    assert pragmas == ["wal", 2]  # 2 is FULL


def test_a_closed_database_says_so_and_does_not_hang(tmp_path):
    database = SqliteDatabase(tmp_path / "falaj.db")
    database.close()
    with pytest.raises(RuntimeError, match="closed"):
        database.write(lambda work: None)


def test_what_was_queued_before_closing_is_written(tmp_path):
    database = SqliteDatabase(tmp_path / "falaj.db")
    database.write(lambda work: schema.create_all(work.connection))
    with ThreadPoolExecutor(20) as pool:
        futures = [pool.submit(database.write, note(str(number))) for number in range(20)]
        for future in futures:
            future.exception(10) or future.result()
        database.close()
    reopened = SqliteDatabase(tmp_path / "falaj.db")
    assert len(reopened.read(read_notes)) == 20
    reopened.close()
