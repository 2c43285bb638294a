"""Starting servers for tests, ending them, and making sure that no test leaves a process behind."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

# Inherited by everything the tests start, so that a process is found even after its parent has gone.
MARK = "FALAJ_TEST_SESSION"
# A platform without a serving plane, which would outlive it; tests that want one say so.
ALONE = {"FALAJ_SERVING_ENABLED": "false"}
# Below the range from which the kernel hands out ports to outgoing connections.
PORTS = range(10_240, 32_000)
# What a client of a plain HTTP server verifies. Otherwise it would read the world's certificates first, which takes longer than
# most calls do.
NO_TLS = False


class Missing(Exception):
    """A server that the tests need is not installed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not installed. `make test` installs it, or run scripts/install_test_servers.sh yourself.")


def program(name: str, *places: str) -> str:
    found = next((place for place in places if Path(place).exists()), None) or shutil.which(name)
    if found is None:
        raise Missing(name)
    return found


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until all are found, so they differ."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.choice(PORTS)
            candidate = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


class Server:
    """A process that ends with the tests, even when they are killed: the kernel then sends it `end` itself."""

    def __init__(
        self, command: list[str], *, log: Path, end: signal.Signals = signal.SIGTERM, user: str | None = None, **options: object
    ) -> None:
        guard = [program("setpriv"), "--pdeathsig", end.name.removeprefix("SIG")]
        if user is not None:
            guard += ["--reuid", user, "--regid", user, "--clear-groups"]
        self.log = log
        self._end = end
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*guard, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **options,  # type: ignore[call-overload]
            )

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    def wait_until(self, ready: Callable[[], bool], *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(
                    f"{self._process.args[-1]} did not become ready:\n" + self.log.read_text(errors="replace")[-4000:]
                )
            time.sleep(0.05)

    def stop(self, *, seconds: float = 20) -> None:
        self._process.send_signal(self._end)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def survivors() -> list[psutil.Process]:
    """Processes that this test process, or anything it started, left running."""
    mark = os.environ[MARK]
    found = {child.pid: child for child in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found[process.pid] = process
    return [process for process in found.values() if _counts(process)]


def _counts(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        # Python's resource tracker ends with its parent, by design not before.
        tracker = any("multiprocessing.resource_tracker" in part for part in process.cmdline())
        return process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE and not tracker
    return False


def _is_half_a_sandbox(process: psutil.Process) -> bool:
    """Bubblewrap's second process, where a test killed a keeper, and with it the first, before the walls stood: the next engine
    on its folder would end it, and the test needed none."""
    return process.name() == "bwrap" and not process.children()


@pytest.fixture(scope="session", autouse=True)
def no_process_survives() -> Iterator[None]:
    """Set up first, so torn down last: by then every server has been stopped."""
    os.environ[MARK] = uuid.uuid4().hex
    yield
    deadline = time.monotonic() + 10
    while (left := survivors()) and time.monotonic() < deadline:
        time.sleep(0.1)
    names = []
    for process in left:
        with contextlib.suppress(psutil.Error):
            if _is_half_a_sandbox(process):
                process.kill()
                continue
            names.append(f"{process.pid}: {' '.join(process.cmdline())[:3000]}")
            process.kill()
    assert not names, "the tests left processes behind:\n" + "\n".join(names)
