"""A full disk and a database that is gone: told apart from bugs, and over by themselves when the cause is."""

import contextlib
import os
import resource
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError

from falaj.base.errors import OutOfSpace, Unavailable
from falaj.database.errors import translated
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from tests.database.conftest import note, notes, read_notes, schema

MEGABYTE = 1 << 20


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="falaj-disk-", dir="/tmp") as folder:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", folder], check=True, capture_output=True
        )
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def may_mount() -> bool:
    with contextlib.suppress(subprocess.CalledProcessError, OSError), small_disk(1):
        return True
    return False


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def big_note(work):
    work.execute(insert(notes), [{"text": "x" * 10_000} for _ in range(200)])


def goes_through_a_full_disk(database, disk):
    database.write(note("before"))
    filler = fill(disk)
    for _ in range(3):
        with pytest.raises(OutOfSpace):
            database.write(big_note)
        assert database.read(read_notes) == ["before"]
    filler.unlink()
    database.write(note("after"))
    database.write(big_note)
    assert database.read(read_notes)[:2] == ["before", "after"]


def test_sqlite_on_a_full_disk_refuses_writes_reads_on_and_recovers(tmp_path):
    if not may_mount():
        pytest.skip("only root may mount the small disk this needs; the test with the file limit runs anyway")
    with small_disk(8) as disk:
        database = SqliteDatabase(disk / "falaj.db")
        database.write(lambda work: schema.create_all(work.connection))
        goes_through_a_full_disk(database, disk)
        database.close()


def goes_through_a_file_limit(tmp_path):
    """Where no small disk can be mounted: the kernel's limit on a file's size fails the same writes."""
    database = SqliteDatabase(tmp_path / "falaj.db")
    database.write(lambda work: schema.create_all(work.connection))
    database.write(note("before"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE, hard))
    try:
        with pytest.raises(OutOfSpace):
            database.write(big_note)
        assert database.read(read_notes) == ["before"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    database.write(big_note)
    database.close()


def test_sqlite_hits_a_file_limit_and_recovers(tmp_path):
    goes_through_a_file_limit(tmp_path)


def test_an_input_output_error_on_a_disk_with_room_is_not_called_a_full_disk(tmp_path):
    broken = sqlite3.OperationalError("disk I/O error")
    broken.sqlite_errorname = "SQLITE_IOERR_READ"
    with pytest.raises(Unavailable, match="disk i/o error"), translated(tmp_path / "falaj.db"):
        raise OperationalError("select", {}, broken)


def test_postgres_on_a_full_disk_refuses_writes_reads_on_and_recovers(postgres_server):
    if not may_mount():
        pytest.skip("only root may mount the small disk this needs")
    with small_disk(40) as disk:
        space = disk / "tablespace"
        space.mkdir(mode=0o700)
        postgres_server.give(space)
        name = f"small_{os.getpid()}"
        postgres_server.execute(f"create tablespace {name} location '{space}'")
        url = postgres_server.create_database(options=f"tablespace {name}")
        database = PostgresDatabase(url)
        try:
            database.write(lambda work: schema.create_all(work.connection))
            goes_through_a_full_disk(database, disk)
        finally:
            database.close()
            postgres_server.drop_database(url)
            postgres_server.execute(f"drop tablespace {name}")


def test_postgres_gone_is_unavailable_and_back_is_back(postgres_server, postgres_url):
    database = PostgresDatabase(postgres_url)
    database.write(lambda work: schema.create_all(work.connection))
    database.write(note("before"))
    postgres_server.stop()
    try:
        with pytest.raises(Unavailable):
            database.write(note("lost"))
        with pytest.raises(Unavailable):
            database.read(read_notes)
    finally:
        postgres_server.start()
    database.write(note("after"))
    assert database.read(read_notes) == ["before", "after"]
    database.close()


def test_postgres_going_in_the_middle_of_a_write_leaves_nothing(postgres_server, postgres_url):
    database = PostgresDatabase(postgres_url)
    database.write(lambda work: schema.create_all(work.connection))

    def interrupted(work):
        note("half")(work)
        postgres_server.stop()
        note("other half")(work)

    try:
        with pytest.raises(Unavailable):
            database.write(interrupted)
    finally:
        postgres_server.start()
    assert database.read(read_notes) == []
    database.close()
