"""A real platform, started by the real command, and the command run against it as people run it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.processes import ALONE
from tests.servers.warm import run_falaj, start_falaj

COMMAND = [sys.executable, "-m", "falaj.cli.main"]
# Pieces of the environment that would lead the command elsewhere.
LEADING = ("FALAJ_HOME", "FALAJ_URL", "FALAJ_TOKEN", "FALAJ_PROJECT", "FALAJ_DEBUG")


class Falaj:
    """Runs `falaj` in a shell of its own: its home, its configuration directory, its environment."""

    def __init__(self, home: Path, config: Path, **environment: str) -> None:
        self.home = home
        kept = {name: text for name, text in os.environ.items() if name not in LEADING}
        self.environment = kept | ALONE | {"FALAJ_HOME": str(home), "XDG_CONFIG_HOME": str(config)} | environment

    def __call__(self, *arguments: str, status: int = 0, input: bytes | str = "", **environment: str) -> str:
        """What it printed; the exit status must be the one expected."""
        return self.both(*arguments, status=status, input=input, **environment)[0]

    def json(self, *arguments: str, status: int = 0, **options: Any) -> Any:
        return json.loads(self(*arguments, "--json", status=status, **options))

    def fails(self, *arguments: str, status: int = 1, **options: Any) -> str:
        """The one line that says why."""
        output, error = self.both(*arguments, status=status, **options)
        assert output == ""
        assert error.startswith("falaj: ")
        assert error.count("\n") == 1, error
        return error

    def both(self, *arguments: str, status: int = 0, input: bytes | str = "", **environment: str) -> tuple[str, str]:
        done = self.raw(*arguments, input=input, **environment)
        said = done.stderr.decode()
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout.decode()}\n{said}"
        assert "Traceback" not in said
        return done.stdout.decode(), said

    def raw(self, *arguments: str, input: bytes | str = "", **environment: str) -> "subprocess.CompletedProcess[bytes]":
        given = input.encode() if isinstance(input, str) else input
        return run_falaj(*arguments, input=given, env=self.environment | environment)

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return start_falaj(
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | environment,
            text=True,
        )


class Running(Falaj):
    """A platform under way, and what it announced."""

    def __init__(self, home: Path, config: Path, *arguments: str, **environment: str) -> None:
        super().__init__(home, config, **environment)
        self.process = self.start("up", "--port", "0", "--json", *arguments)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"falaj up failed: {self.process.communicate()[1]}")
        self.announced = json.loads(line)
        self.url: str = self.announced["url"]

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(with_signal)
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture
def falaj(tmp_path: Path) -> Falaj:
    """A shell in which no platform was ever started."""
    return Falaj(tmp_path / "home", tmp_path / "config")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("platform")
    running = Running(place / "home", place / "config")
    try:
        yield running
    finally:
        running.stop()
