"""Running the commands that add hosts and give them back: never through a shell, never waited for, never for longer than said.

What they write goes to a file, for what they start may live on and hold on to it. They do not see the platform's own settings.
One that outlives the platform that ran it is known by a note in a folder: the next one waits until it has ended.
"""

import contextlib
import os
import signal
import subprocess  # nosec B404 - the operator's own commands, from the settings
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from falaj.base.clock import SECOND
from falaj.base.values import value

OURS: Final = "FALAJ_"  # how settings in the environment begin, secrets among them
LONGEST_WORDS: Final = 300
_TAIL: Final = 4096


@value
class Ended:
    """`doing` is what it was run for; `said` the last line that it wrote; `trouble` is empty where all went well."""

    doing: str
    said: str = ""
    trouble: str = ""


class Commands:
    """Those under way, by the host they are about. Belongs to one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, _Running] = {}

    def begin(self, host: str, doing: str, command: Sequence[str], within: int, places: Mapping[str, str]) -> None:
        """One at a time for each host. `within` is in microseconds; `places` is what stands for what in the command."""
        self._folder.mkdir(parents=True, exist_ok=True)
        words = [_filled(word, places) for word in command]
        running = self._running[host] = _Running(doing, words, within / SECOND)
        if running.pid:
            self._note(host).write_text(f"{running.pid} {_born(running.pid)} {time.time() + within / SECOND}")

    def are_about(self, host: str) -> bool:
        return host in self._running or self._is_left_behind(host)

    def ended(self) -> dict[str, Ended]:
        """By host. Told again until it is forgotten."""
        return {host: ended for host, one in self._running.items() if (ended := one.ended()) is not None}

    def forget(self, host: str) -> None:
        self._running.pop(host).close()
        self._note(host).unlink(missing_ok=True)

    def close(self) -> None:
        """What is under way is ended; whoever comes next runs it again."""
        for host in list(self._running):
            self._running[host].kill("the platform ended")
            self.forget(host)

    def _note(self, host: str) -> Path:
        return self._folder / f"{host}.command"

    def _is_left_behind(self, host: str) -> bool:
        """Whether one still runs whose platform was killed."""
        try:
            pid, born, until = self._note(host).read_text().split()
        except (OSError, ValueError):
            return False  # there is none, or its platform died before it could say which
        if not born or _born(int(pid)) != born:
            self._note(host).unlink(missing_ok=True)
            return False
        if time.time() > float(until):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)
        return True


class _Running:
    def __init__(self, doing: str, words: Sequence[str], within: float) -> None:
        self._doing = doing
        self._words = words
        self._until = time.monotonic() + within
        self._trouble = ""
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process: subprocess.Popen[bytes] | None = None
        environment = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
        try:
            self._process = subprocess.Popen(  # nosec B603 - a list of words, as the operator wrote it
                words,
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self._trouble = f"{words[0]} cannot be run: {error.strerror}"

    @property
    def pid(self) -> int:
        """0 where it could not be run."""
        return 0 if self._process is None else self._process.pid

    def ended(self) -> Ended | None:
        if self._process is None:
            return Ended(doing=self._doing, trouble=self._trouble)
        if self._process.poll() is None:
            if time.monotonic() < self._until:
                return None
            self.kill("it did not end in time")
        said = _last_line(self._out)
        code = self._process.returncode
        if not self._trouble and code:
            self._trouble = f"it ended with {code}" if code > 0 else f"it was ended by {signal.Signals(-code).name}"
        words = f"{self._trouble}: {said}" if self._trouble and said else self._trouble
        return Ended(doing=self._doing, said=said, trouble=words and f"{Path(self._words[0]).name}: {words}"[:LONGEST_WORDS])

    def kill(self, why: str) -> None:
        """It, and what it started and did not let go."""
        if self._process is None or self._process.poll() is not None:
            return
        self._trouble = self._trouble or why
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self._out.close()


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, text in places.items():
        word = word.replace(f"{{{place}}}", text)
    return word


def _born(pid: int) -> str:
    """When a process began, as the kernel counts, which tells it from a later one of that number; empty where it has ended."""
    try:
        about = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if about[0] == "Z" else about[19]


def _last_line(out: IO[bytes]) -> str:
    size = out.seek(0, os.SEEK_END)
    out.seek(max(0, size - _TAIL))
    lines = [line.strip() for line in out.read(_TAIL).decode(errors="replace").splitlines()]
    shown = next((line for line in reversed(lines) if line), "")
    return "".join(letter if letter.isprintable() else " " for letter in shown)[:LONGEST_WORDS]
