"""A real platform that is made to be killed: started by the real command, with failpoints armed, and started again."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from falaj.app.home import Home, read_document
from falaj.base.operation import Operation
from falaj.client.http import Client
from tests.servers import warm
from tests.servers.processes import ALONE, MARK, NO_TLS, program

LONGEST_START = 60.0
LONGEST_STOP = 60.0
KILLED = -signal.SIGKILL


def environment_of(**changes: str) -> dict[str, str]:
    """Our environment without anything that would lead the platform elsewhere."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("FALAJ_") or name == MARK}
    return kept | ALONE | changes


def run_falaj(*arguments: str, home: Path, given: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """One command of the command line, to its end."""
    return warm.run_falaj(*arguments, "--home", str(home), input=given, env=environment_of(**environment), text=True)


class DidNotStart(Exception):
    """The process ended, or stayed silent, before it answered."""

    def __init__(self, status: int | None, output: str) -> None:
        super().__init__(f"the platform did not start (status {status}):\n{output}")
        self.status = status
        self.output = output


class MortalPlatform:
    """`falaj up --home HOME --port 0` as a process. Its key ring lies beside the home, in `HOME.keys`.

    `environment` holds for every start; what `start` and `restart` are given, for that start alone. `command` replaces
    `falaj up` by another program, which is given the home as its last argument and must write `server.json` as `up` does.
    """

    def __init__(
        self,
        home: Path,
        *,
        arguments: Sequence[str] = (),
        command: Sequence[str] = (),
        output: Path | None = None,
        **environment: str,
    ) -> None:
        self.home = Home(path=home)
        self.process: subprocess.Popen[bytes] | None = None
        self._arguments = ["up", "--home", str(home), "--port", "0", *arguments]
        self._command = [*command, str(home)] if command else []
        self._environment = environment
        self._output = output or home.with_name(f"{home.name}.output")
        self._clients: list[Client | httpx.Client] = []

    def launch(self, **environment: str) -> None:
        """Start the process and do not wait for anything. The kernel ends it should the tests end without having done so."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("wb") as output:
            whole = environment_of(**(self._environment | environment))
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            if self._command:
                guarded = [program("setpriv"), "--pdeathsig", "KILL", "--", *self._command]
                self.process = subprocess.Popen(guarded, env=whole, **streams)
            else:
                self.process = warm.start_falaj(*self._arguments, env=whole, ends_with_us=True, **streams)

    def start(self, **environment: str) -> Self:
        """Start it and wait until it answers on /healthz."""
        self.launch(**environment)
        self.wait_until_it_answers()
        return self

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + LONGEST_START
        while not self._answers():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise DidNotStart(self.process.returncode, self.output)
            time.sleep(0.02)

    def _answers(self) -> bool:
        """A killed process leaves its `server.json` behind, so the process id must be ours."""
        assert self.process is not None
        told = read_document(self.home.server)
        if told.get("pid") != self.process.pid:
            return False
        try:
            return httpx.get(f"{told['url']}/healthz", timeout=5, trust_env=False, verify=NO_TLS).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def output(self) -> str:
        """What the process printed since its last start."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    @property
    def log(self) -> str:
        return self.home.log.read_text(errors="replace") if self.home.log.exists() else ""

    @property
    def url(self) -> str:
        return str(read_document(self.home.server)["url"])

    @property
    def token(self) -> str:
        """The owner's."""
        return str(read_document(self.home.credentials)["token"])

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def client(self, token: str | None = None, *, timeout: float = 60.0) -> Client:
        """A typed client, of the owner unless a token is given."""
        client = Client(self.url, token or self.token, timeout=timeout, verify=NO_TLS)
        self._clients.append(client)
        return client

    def http(self, token: str | None = None, *, timeout: float = 60.0) -> httpx.Client:
        """A bare client, where a test wants to see statuses and headers. An empty token sends none."""
        token = self.token if token is None else token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False, verify=NO_TLS)
        self._clients.append(client)
        return client

    def call(self, operation: Operation[Any, Any], request: Any, **options: Any) -> Any:
        """One call as the owner."""
        with Client(self.url, self.token, verify=NO_TLS) as client:
            return client.call(operation, request, **options)

    def falaj(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """A command of the command line on this home, with this platform's settings."""
        return run_falaj(*arguments, home=self.home.path, **(self._environment | environment))

    def wait_until_dead(self, *, seconds: float = 60.0) -> int:
        """How it ended; raises `subprocess.TimeoutExpired` where it lives on."""
        assert self.process is not None
        return self.process.wait(seconds)

    def kill(self) -> None:
        """As by `kill -9`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """In order, by SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(LONGEST_STOP)

    def restart(self, **environment: str) -> Self:
        """Start it again; stopped in order first if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        return self.start(**environment)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.kill()
