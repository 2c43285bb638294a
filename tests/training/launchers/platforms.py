"""Platforms that run by the interpreter of a client's environment: their jobs see its libraries, and nothing of Falaj's but
what travels with them."""

import os
import re
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.conftest import Running
from tests.servers.warm import run_falaj

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent / "scripts"
IN = ("--project", "default")
LARGE = ("--cpus", "2", "--memory", "4GiB", *IN)


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


@contextmanager
def equipped(place: Path, client: str, **environment: str) -> Iterator[Equipped]:
    running = Equipped(place, client, **environment)
    try:
        yield running
    finally:
        running.stop()


def trained(platform: Equipped, script: str, options: tuple[str, ...], *arguments: str) -> str:
    """What the job wrote."""
    done = platform.patiently("train", str(SCRIPTS / script), *options, "--", *arguments)
    written, said = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, written + said
    return written


def steps(written: str, word: str = "step") -> dict[int, str]:
    """The last figure that was told of each step."""
    return {int(step): figure for step, figure in re.findall(rf"^{word} (\d+) (\S+)$", written, re.MULTILINE)}


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def until_it_wrote(platform: Equipped, words: str) -> None:
    """Of the one job that is running."""

    def wrote() -> bool:
        running = platform.json("job", "list", *IN, "--state", "running")["items"]
        return bool(running) and words in platform.raw("job", "logs", running[0]["id"], *IN).stdout.decode()

    until(wrote)


def until(holds: Callable[[], object], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)
