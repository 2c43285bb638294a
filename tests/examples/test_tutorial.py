"""The tutorial, typed as it stands: in an empty folder and a home of its own, by one shell; each command says what it should.

What installs is held against what is installed here, and not done. The three stopwatches are printed; nothing is timed.
"""

import contextlib
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
from packaging.requirements import Requirement

from tests.examples.documents import File, Meanings, Typed, read
from tests.mlflow.clients import ROOT, python_of

TUTORIAL = ROOT / "docs" / "tutorial.md"
CLIENT = "mlflow3"
PATIENCE = 300.0
OVER = "-- over:"
# What would lead commands elsewhere.
LEADING = ("FALAJ_HOME", "FALAJ_URL", "FALAJ_TOKEN", "FALAJ_PROJECT", "XDG_CONFIG_HOME")


class Shell:
    """One bash, from the first command to the last. Packages are those of this checkout and of the stock client."""

    def __init__(self, folder: Path) -> None:
        self.home, self.place = folder / "home", folder / "empty"
        for made in (self.home, self.place):
            made.mkdir()
        (self.home / ".curlrc").write_text("silent\nshow-error\n")  # as on a terminal, where it draws nothing
        kept = {name: text for name, text in os.environ.items() if name not in LEADING}
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.place,
            env=kept | {"HOME": str(self.home), "FALAJ_SERVER_PORT": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, command: str) -> tuple[str, int]:
        """What it said, and how it ended. One that installs makes what it would have made, out of what is here."""
        if command.startswith("pip install "):
            return check_that_it_would_install(command), 0
        if command == "python3 -m venv .venv":
            return self._make_environment(), 0
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n{OVER}%d\\n' $?\n")
        self._bash.stdin.flush()
        said = []
        for line in self._bash.stdout:
            if line.startswith(OVER):
                return "".join(said), int(line.removeprefix(OVER))
            said.append(line)
        raise AssertionError(f"The shell ended at {command}: {''.join(said)}")

    def write(self, file: File) -> None:
        (self.place / "cells" / file.name).write_text(file.text, encoding="utf-8")

    def _make_environment(self) -> str:
        programs = self.place / "cells" / ".venv" / "bin"
        programs.mkdir(parents=True)
        (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
        for name, command in {"python": f'"{python_of(CLIENT)}"', "falaj": f'"{sys.executable}" -m falaj.cli.main'}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (programs / name).chmod(0o755)
        return ""

    def running(self) -> list[psutil.Process]:
        """What was started in this home, and has not ended."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def close(self) -> None:
        """End the shell, and whatever runs because something went wrong."""
        if self.running():
            down = [sys.executable, "-m", "falaj.cli.main", "down", "--home", str(self.home / ".falaj")]
            subprocess.run(down, capture_output=True, check=False)
        for process in self.running():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._bash.kill()
        self._bash.communicate()

    def _is_ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            return process.pid != self._bash.pid and process.environ().get("HOME") == str(self.home)
        return False


def check_that_it_would_install(command: str) -> str:
    """The checkout with extras that it has, and packages as they are installed where the scripts run."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True)
    falaj, *others = done.stdout.splitlines()[2:]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = Requirement(falaj.removeprefix("../"))
    assert wanted.name == project["name"]
    assert wanted.extras <= set(project["optional-dependencies"])
    for extra in wanted.extras:
        for text in project["optional-dependencies"][extra]:
            needed = Requirement(text)
            assert version(needed.name) in needed.specifier
    for text in others:
        needed = Requirement(text)
        asked = f"from importlib.metadata import version; print(version({needed.name!r}))"
        told = subprocess.run([python_of(CLIENT), "-c", asked], capture_output=True, text=True, check=True)
        assert told.stdout.strip() in needed.specifier
    return ""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.timeout(900)  # all of it, beside other tests
def test_whoever_types_the_tutorial_sees_what_it_says(shell: Shell, capsys: pytest.CaptureFixture[str]):
    meanings, started, told = Meanings(), dict[str, float](), list[str]()
    for item in read(TUTORIAL):
        if isinstance(item, File):
            shell.write(item)
        elif isinstance(item, Typed):
            follow(shell, item, meanings)
        elif item.starts:
            started |= dict.fromkeys(item.names, time.monotonic())
        else:
            told += [f"{name} after {time.monotonic() - started[name]:.1f} s" for name in item.names]
    with capsys.disabled():
        print(f"\nThe tutorial: {'; '.join(told)}.")
    assert len(told) == len(started) == 3
    assert shell.running() == []


def follow(shell: Shell, typed: Typed, meanings: Meanings) -> None:
    deadline = time.monotonic() + PATIENCE
    while wrong := first_that_is_wrong(shell, typed, meanings):
        assert typed.until_it_says_so, wrong
        assert time.monotonic() < deadline, wrong
        time.sleep(0.5)


def first_that_is_wrong(shell: Shell, typed: Typed, meanings: Meanings) -> str:
    for command in typed.commands:
        text = meanings.here(command.text)
        said, status = shell.type(text)
        if (status != 0) is not command.fails or (command.says and not meanings.agrees(command.says, said)):
            return f"$ {text}\n{said}(status {status})\nThe tutorial says:\n" + "\n".join(command.says)
    return ""
