"""A throw-away platform, the `falaj` command run on it as people run it, and what is shown of that."""

import contextlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from falaj.base.errors import FalajError
from falaj.cli.main import run
from falaj.client.http import Client
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from falaj.jobs.operations.jobs import CANCEL_JOB, LIST_JOBS, SHOW_JOB, Cancel, ListJobs, OneJob

T = TypeVar("T")
PATIENCE = 120.0
WAITING = 3  # the exit status that says that somebody has to approve first
ZONES = ("abu-dhabi", "frankfurt")
# Of what is shipped only this is otherwise: zones have disks of their own, and what was lent comes back at once.
SETTINGS = """\
[jobs]
least_run_seconds = 1

[storage.abu-dhabi]
kind = "folder"
directory = "{folder}/disk-in-abu-dhabi"

[storage.frankfurt]
kind = "folder"
directory = "{folder}/disk-in-frankfurt"
"""
_PLATFORM = (sys.executable, "-m", "falaj.cli.main")


class Unexpected(Exception):
    """The platform did something else than the demo promised."""


def expect(condition: object, otherwise: str) -> None:
    if not condition:
        raise Unexpected(otherwise)


class Stage:
    """One platform in one folder; leaving the stage stops the platform. Whoever gave the folder removes it."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder, self.console = folder, console
        self.home = folder / "home"
        self.url = ""
        self._platform: subprocess.Popen[str] | None = None
        self._busy: list[tuple[str, str]] = []  # projects in which jobs were submitted, and by whose token
        self._kept = dict(os.environ)

    def __enter__(self) -> Self:
        self.home.mkdir(mode=0o700)
        (self.home / "falaj.toml").write_text(SETTINGS.format(folder=self.folder))
        for name in [name for name in os.environ if name.startswith("FALAJ_")]:
            del os.environ[name]
        os.environ |= {"FALAJ_HOME": str(self.home), "XDG_CONFIG_HOME": str(self.folder / "config")}
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.environ.clear()
        os.environ |= self._kept

    # The platform

    def start(self) -> float:
        """Start it and wait until it says that it is ready; how long that took. It comes back under the address that it had."""
        began = time.perf_counter()
        port = str(urlsplit(self.url).port or 0)
        self._show(("up", "--port", port))
        with (self.folder / "platform.err").open("a") as errors:
            self._platform = subprocess.Popen(
                [*_PLATFORM, "up", "--port", port, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        announced = self._platform.stdout.readline() if self._platform.stdout else ""
        expect(announced, f"The platform did not start: {(self.folder / 'platform.err').read_text().strip()[-800:]}")
        self.url = json.loads(announced)["url"]
        return time.perf_counter() - began

    def kill(self) -> None:
        """What a power cut does to it."""
        if self._platform is not None:
            self._platform.kill()
            self._platform.communicate()

    def stop(self) -> None:
        """End jobs and the serving plane, too: they outlive the platform. The last where no second Ctrl-C reaches."""
        if self._platform is None:
            return
        if self._platform.poll() is None:
            with contextlib.suppress(FalajError, Unexpected):  # whatever went wrong before, the rest is ended
                self._cancel_jobs()
            self._platform.send_signal(signal.SIGTERM)
            try:
                self._platform.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        subprocess.run([*_PLATFORM, "down"], capture_output=True, start_new_session=True, check=False)

    def _cancel_jobs(self) -> None:
        for project, token in dict.fromkeys(self._busy):
            with self.client(token) as client:
                live = ListJobs(project=project, state="live")
                for job in client.call(LIST_JOBS, live).items:
                    client.call(CANCEL_JOB, Cancel(project=project, job=job.id))
                self.until(lambda: not client.call(LIST_JOBS, live).items, "jobs to end")  # noqa: B023

    # The command, and the client

    def falaj(self, *words: str, token: str = "", fails: bool = False, may_wait: bool = False, quietly: bool = False) -> Any:
        """Run `falaj WORDS --json` as the owner, or with a token of somebody else; its answer, or why it was refused.

        It runs in this process: starting Python for each would take longer than what is shown. `may_wait`: it may end with 3,
        which says that somebody has to approve first. `quietly`: it is asked again and again, or only to say the next thing.
        """
        if not quietly:
            self._show(words)
        at = words.index("--") if "--" in words else len(words)  # what follows is somebody else's
        status, out, err = _run([*words[:at], "--json", *words[at:]], token)
        if fails:
            expect(status == 1, f"`falaj {shlex.join(words)}` should have failed, and ended with {status}.")
            return json.loads(out) if out else err
        ended_well = status == 0 or (may_wait and status == WAITING)
        expect(ended_well, f"`falaj {shlex.join(words)}` failed: {err or out}")
        return json.loads(out)

    def client(self, token: str = "") -> Client:  # nosec B107 - the owner's, by default
        """The typed client, of the owner or of whose token it is."""
        if not token:
            token = json.loads((self.home / "credentials.json").read_text())["token"]
        return Client(self.url, token)

    def signed_in(self, code: str) -> str:
        """A one-time code, as a person is handed it, becomes a session's token."""
        with Client(self.url, None) as client:
            return client.call(OPEN_SESSION, OpenSession(code=code)).token

    def person(self, name: str, project: str, role: str) -> str:
        """Somebody who was invited, has a role in the project, and is signed in."""
        invited = self.falaj("user", "create", name)
        self.falaj("project", "member", "add", project, name, role)
        return self.signed_in(invited["code"])

    def submitted(self, project: str, *words: str, after: Sequence[str] = (), token: str = "") -> str:  # nosec B107
        """The id of the job that this command submits; whatever happens, it does not outlive the stage. `after` follows --."""
        self._busy.append((project, token))
        given = ("--", *after) if after else ()
        return str(self.falaj(*words, "--project", project, *given, token=token)["job"]["id"])

    def state(self, project: str, job: str, token: str = "") -> str:  # nosec B107 - the owner's, by default
        with self.client(token) as client:
            found = client.call(SHOW_JOB, OneJob(project=project, job=job))
        expect(found.state not in ("failed", "cancelled"), f"The job {found.name} is {found.state}: {found.words}")
        return str(found.state)

    def ended(self, project: str, job: str, token: str = "") -> None:  # nosec B107 - the owner's, by default
        self.until(lambda: self.state(project, job, token) == "done", "a job to end", every=0.1)

    def until(self, look: Callable[[], T], what: str, *, every: float = 0.2) -> T:
        """What it sees, as soon as it sees something."""
        deadline = time.monotonic() + PATIENCE
        while not (found := look()):
            expect(time.monotonic() < deadline, f"Waited {PATIENCE:g} s for {what}.")
            time.sleep(every)
        return found

    def written(self, name: str, content: str) -> str:
        file = self.folder / name
        file.write_text(content)
        return str(file)

    # What is shown

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(f"   {text}", style=style), soft_wrap=True)

    def title(self, text: str, style: str = "bold") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def working(self, words: str) -> AbstractContextManager[Any]:
        """A sign of life while something takes its time; nothing where nobody watches."""
        return self.console.status(words)

    def _show(self, words: Sequence[str]) -> None:
        shown = shlex.join(words).replace(f"{self.folder}/", "")
        self.say(f"$ falaj {shown}", "dim")


def _run(words: list[str], token: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with _token(token), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(words)
    if status == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    return status, out.getvalue(), err.getvalue().strip()


@contextlib.contextmanager
def _token(token: str) -> Iterator[None]:
    if token:
        os.environ["FALAJ_TOKEN"] = token
    try:
        yield
    finally:
        os.environ.pop("FALAJ_TOKEN", None)


def copied(file: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(file, folder))
