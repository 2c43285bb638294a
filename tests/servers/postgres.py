"""A real Postgres, reached through a socket file, so that no port can be taken from it."""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from tests.servers.places import quick_folder
from tests.servers.processes import Server, program

# The data is thrown away, so durability is not paid for.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "autovacuum": "off",
}


class PostgresServer:
    """`stop` and `start` may be used by a test that wants to see it gone; it must leave it running."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS) -> None:
        self._settings = settings
        places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        self._initdb = program("initdb", *(f"{place}/initdb" for place in places))
        self._postgres = program("postgres", *(f"{place}/postgres" for place in places))
        # Postgres refuses to run as root. The path is short, for the name of a socket has a limit.
        self.user = "postgres" if os.getuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="falaj-pg-", dir=quick_folder()))
        self._server: Server | None = None
        self.give(self.folder)
        self._run_initdb()

    def give(self, folder: Path) -> None:
        """Make the folder Postgres's own."""
        if self.user is not None:
            shutil.chown(folder, self.user, self.user)

    def _run_initdb(self) -> None:
        options = ["--username=falaj", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        account = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        command = [self._initdb, "-D", str(self.folder / "data"), *options]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, **account)  # type: ignore[call-overload]
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def start(self) -> None:
        settings = [part for name, setting in self._settings.items() for part in ("-c", f"{name}={setting}")]
        command = [self._postgres, "-D", str(self.folder / "data"), "-k", str(self.folder), *settings]
        # SIGINT is the fast shutdown: it does not wait for clients.
        self._server = Server(command, log=self.folder / "log", end=signal.SIGINT, user=self.user, cwd=self.folder)
        self._server.wait_until(self._answers)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _answers(self) -> bool:
        try:
            self.execute("select 1")
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement: str) -> None:
        with psycopg.connect(host=str(self.folder), user="falaj", dbname="postgres", autocommit=True) as connection:
            connection.execute(statement.encode())

    def create_database(self, *, template: str = "template1", options: str = "") -> str:
        """A fresh database, as empty as its template; its URL."""
        name = f"test_{uuid.uuid4().hex}"
        # Copying files takes half of what copying through the log does, and nothing here needs the log.
        self.execute(f"create database {name} template {template} strategy file_copy {options}")
        return f"postgresql+psycopg://falaj@/{name}?host={self.folder}"

    def drop_database(self, url: str) -> None:
        self.execute(f"drop database if exists {self.name_of(url)} with (force)")

    def name_of(self, url: str) -> str:
        return url.partition("@/")[2].partition("?")[0]


@pytest.fixture(scope="session")
def postgres_server(no_process_survives: None) -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh empty database for each test."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)
