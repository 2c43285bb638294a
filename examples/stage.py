"""The stage of the demo: a throw-away platform, the `falaj` command run on it as people run it, and what is shown of that.

The story itself is in `demo.py`.
"""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from falaj.base.errors import FalajError
from falaj.client.http import Client
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession

PATIENCE = 60.0
# Where `make demo` puts what is the user's, and not part of the platform: the stock client, and packages for trainings.
CLIENTS = Path(os.environ.get("FALAJ_CLIENTS", Path(__file__).parents[1] / ".clients"))
WAITING = 3
SETTINGS = """\
[jobs]
packages = ["{clients}/training"]
least_run_seconds = 1

[storage.abu-dhabi]
kind = "folder"
directory = "{folder}/disk-in-abu-dhabi"

[storage.frankfurt]
kind = "folder"
directory = "{folder}/disk-in-frankfurt"
"""


class Unexpected(Exception):
    """The platform did something else than the demo promised."""


def expect(condition: object, otherwise: str) -> None:
    if not condition:
        raise Unexpected(otherwise)


class Stage:
    """One platform in one folder; leaving the stage stops the platform. Whoever gave the folder removes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.url = ""
        self.before_stopping: Callable[[], None] = lambda: None
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._platform: subprocess.Popen[str] | None = None
        kept = {name: text for name, text in os.environ.items() if not name.startswith("FALAJ_")}
        self._environment = kept | {"FALAJ_HOME": str(self.home), "XDG_CONFIG_HOME": str(folder / "config")}
        self.home.mkdir(mode=0o700)
        (self.home / "falaj.toml").write_text(SETTINGS.format(folder=folder, clients=CLIENTS.resolve()))

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # The platform

    def start(self) -> float:
        """Start it and wait until it says that it is ready; how long that took."""
        began = time.perf_counter()
        self._show_command(["up", "--port", "0"])
        with (self.folder / "platform.err").open("w") as errors:
            self._platform = subprocess.Popen(
                [*_COMMAND, "up", "--port", "0", "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment,
                text=True,
            )
        assert self._platform.stdout is not None
        announced = self._platform.stdout.readline()
        expect(announced, f"The platform did not start: {(self.folder / 'platform.err').read_text().strip()}")
        self.url = json.loads(announced)["url"]
        return time.perf_counter() - began

    def kill(self) -> None:
        """What a power cut does to it."""
        assert self._platform is not None
        self._platform.kill()
        self._platform.communicate()

    def stop(self) -> None:
        """End the platform, then the serving plane, which would outlive it; the latter where no second Ctrl-C reaches."""
        if self._platform is None:
            return
        if self._platform.poll() is None:
            with contextlib.suppress(FalajError, Unexpected):  # whatever went wrong before, the rest is ended
                self.before_stopping()
            self._platform.terminate()
            try:
                self._platform.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        subprocess.run([*_COMMAND, "down"], capture_output=True, env=self._environment, start_new_session=True, check=False)

    # The command

    def falaj(
        self, *words: str, token: str = "", fails: bool = False, may_wait: bool = False, patience: float = PATIENCE
    ) -> Any:
        """Run `falaj WORDS --json` as the owner, or with a token of somebody else; its answer, or why it was refused.

        `may_wait`: it may end with 3, which says that somebody has to approve first.
        """
        self._show_command(words)
        environment = self._environment | ({"FALAJ_TOKEN": token} if token else {})
        at = words.index("--") if "--" in words else len(words)  # what follows is somebody else's
        done = subprocess.run(
            [*_COMMAND, *words[:at], "--json", *words[at:]],
            capture_output=True,
            text=True,
            env=environment,
            timeout=patience,
            check=False,
        )
        if fails:
            expect(done.returncode == 1, f"`falaj {shlex.join(words)}` should have failed, and ended with {done.returncode}.")
            return json.loads(done.stdout) if done.stdout else done.stderr.strip()
        ended_well = done.returncode == 0 or (may_wait and done.returncode == WAITING)
        expect(ended_well, f"`falaj {shlex.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}")
        return json.loads(done.stdout)

    def signed_in(self, code: str) -> str:
        """A one-time code, as a person is handed it, becomes a session's token."""
        with Client(self.url, None) as client:
            return client.call(OPEN_SESSION, OpenSession(code=code)).token

    # What is shown

    def say(self, text: str, style: str = "") -> None:
        self._console.print(Text(f"   {text}", style=style), soft_wrap=True)

    def title(self, text: str, style: str = "bold") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    def working(self, words: str) -> AbstractContextManager[Any]:
        """A sign of life while something takes its time; nothing where nobody watches."""
        return self._console.status(words)

    def play(self, steps: Sequence[tuple[str, Callable[[], str]]]) -> None:
        """Play every step, then say what was shown. The first one that goes wrong ends it."""
        table = Table("what was shown", "result", "seconds", box=None, header_style="bold", pad_edge=False)
        table.columns[2].justify = "right"
        began = time.perf_counter()
        for number, (name, step) in enumerate(steps, start=1):
            self.title(f"\n{number}. {name}", "bold cyan")
            step_began = time.perf_counter()
            with self.working("working"):
                result = step()
            self.say(result, "green")
            table.add_row(Text(name), Text(result, style="green"), f"{time.perf_counter() - step_began:.1f}")
        table.add_row(Text("everything", style="bold"), "", f"{time.perf_counter() - began:.1f}")
        self._console.print()
        self._console.print(table)

    def _show_command(self, words: Sequence[str]) -> None:
        shown = shlex.join(words).replace(f"{self.folder}/", "")
        self.say(f"$ falaj {shown}", "dim")


_COMMAND = (sys.executable, "-m", "falaj.cli.main")
