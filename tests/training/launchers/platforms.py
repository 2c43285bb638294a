"""Platforms that run by the interpreter of a client's environment: their jobs see its libraries, and nothing of Falaj's but
what travels with them."""

import os
import subprocess
import sysconfig
from pathlib import Path

from tests.cli.conftest import Running
from tests.servers.warm import run_falaj

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent / "scripts"
IN = ("--project", "default")


class Equipped(Running):
    """A running platform of the environment `client` below .clients; its own libraries it finds where the tests have them."""

    def __init__(self, place: Path, client: str, **environment: str) -> None:
        self._python = Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients")) / client / "bin" / "python"
        super().__init__(place / "home", place / "config", FALAJ_JOBS_LEAST_RUN_SECONDS="0", **environment)

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        if arguments[0] != "up":
            return super().start(*arguments, **environment)
        paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])}
        return subprocess.Popen(
            [self._python, "-m", "falaj.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | environment | paths,
            text=True,
        )

    def patiently(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        """What takes as long as a training does."""
        return run_falaj(*arguments, input=b"", env=self.environment, timeout=800)
