"""A real Redis, reached through a socket file, so that no port can be taken from it."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis

from tests.servers.places import quick_folder
from tests.servers.processes import Server, program

# The data is thrown away, so durability is not paid for.
SETTINGS = {"save": "", "appendonly": "no"}
DURABLE = {"save": "", "appendonly": "yes", "appendfsync": "always"}


class RedisServer:
    """`stop`, `signal` and `start` may be used by a test that wants to see it gone; it must leave it running."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS) -> None:
        self._settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="falaj-redis-", dir=quick_folder()))
        self.url = f"unix://{self.folder}/socket"
        self._server: Server | None = None

    def start(self) -> None:
        settings = {"port": "0", "unixsocket": f"{self.folder}/socket", "dir": str(self.folder), **self._settings}
        command = [program("redis-server", "/usr/bin/redis-server", "/usr/bin/valkey-server")]
        command += [part for name, setting in settings.items() for part in (f"--{name}", setting)]
        self._server = Server(command, log=self.folder / "log", cwd=self.folder)
        self._server.wait_until(self._answers)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def signal(self, number: signal.Signals) -> None:
        assert self._server is not None
        os.kill(self._server.pid, number)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_server(no_process_survives: None) -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> Iterator[str]:
    """Empty for each test."""
    yield redis_server.url
    with redis_server.client() as client:
        client.flushall()
