"""Running a program where users' code may be loaded: no network, no home, no keys, no disk but memory; bounded.

Bubblewrap does it. Without bubblewrap nothing is run.
"""

import json
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import IO, Final, cast

from falaj.base.errors import Conflict, Misconfigured
from falaj.base.values import value

_SYSTEM: Final = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
_NOBODY: Final = "65534"
_TOLD: Final = 4000


@value
class Bounds:
    seconds: float = 300.0
    memory_bytes: int = 8 << 30
    output_bytes: int = 4 << 30


class Sandbox:
    """Thread-safe; each run is a process tree of its own, which ends with this one. `interpreter` is a Python with whatever
    libraries the program needs; empty is our own."""

    def __init__(self, interpreter: str = "") -> None:
        self._interpreter = interpreter or sys.executable

    def run(self, program: Path, given: Iterable[bytes], bounds: Bounds) -> bytes:
        """What the program wrote to standard output. Raises `Conflict` with its last words where it failed or went too far,
        `Misconfigured` where there is no sandbox."""
        process = subprocess.Popen(
            [*self._walls(program), self._interpreter, "-I", "-B", "/program.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=True,
            start_new_session=True,
            preexec_fn=lambda: _limit(bounds),
        )
        given_to, told_by, moans = (cast("IO[bytes]", pipe) for pipe in (process.stdin, process.stdout, process.stderr))
        timer = threading.Timer(bounds.seconds, process.kill)
        errors = _Tail(moans)
        feeding = threading.Thread(target=_feed, args=(given_to, given), daemon=True)
        timer.start()
        feeding.start()
        with told_by:
            answer = told_by.read(bounds.output_bytes + 1)
        if len(answer) > bounds.output_bytes:
            process.kill()
        code = process.wait()
        late = not timer.is_alive()
        timer.cancel()
        if code == 0 and len(answer) <= bounds.output_bytes:
            return answer
        raise Conflict(_why(code, errors.text(), bounds, late=late))

    def _walls(self, program: Path) -> list[str]:
        bubblewrap = shutil.which("bwrap")
        if bubblewrap is None:
            raise Misconfigured("Users' code runs only in a sandbox, and there is no bubblewrap: apt-get install bubblewrap")
        seen = [*_SYSTEM, *_places_of(self._interpreter)]
        binds = [part for place in dict.fromkeys(seen) if Path(place).exists() for part in ("--ro-bind", place, place)]
        return [
            bubblewrap,
            *("--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
            *("--uid", _NOBODY, "--gid", _NOBODY, "--cap-drop", "ALL"),
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *binds,
            *("--ro-bind", str(program), "/program.py", "--chdir", "/tmp"),
            *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8"),
            *("--setenv", "OMP_NUM_THREADS", "2"),
            "--",
        ]


class _Tail:
    """Reads a pipe to its end in a thread, keeping the last of it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := self._pipe.read1(65_536):  # type: ignore[attr-defined]
                self._kept = (self._kept + chunk)[-_TOLD:]

    def text(self) -> str:
        self._thread.join(timeout=5)
        return self._kept.decode(errors="replace").strip()


def _feed(pipe: IO[bytes], given: Iterable[bytes]) -> None:
    try:
        with pipe:
            for chunk in given:
                pipe.write(chunk)
    except BrokenPipeError:
        pass  # it ended without reading everything; its exit says why


def _limit(bounds: Bounds) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (bounds.memory_bytes, bounds.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@lru_cache(maxsize=8)
def _places_of(interpreter: str) -> tuple[str, ...]:
    """Where an interpreter and its libraries lie."""
    ask = "import os, sys, json; print(json.dumps([sys.prefix, sys.base_prefix, os.path.realpath(sys.executable)]))"
    try:
        told = subprocess.run([interpreter, "-I", "-c", ask], capture_output=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Misconfigured(f"{interpreter} is no Python that can be run: {error}") from None
    return tuple(dict.fromkeys(json.loads(told)))


def _why(code: int, words: str, bounds: Bounds, *, late: bool) -> str:
    last = words.splitlines()[-1] if words else ""
    if late:
        return f"It took more than {bounds.seconds:.0f} seconds and was ended."
    if code == 0:
        return f"It wrote more than {bounds.output_bytes >> 20} MiB and was ended."
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return f"It was ended: more than {bounds.memory_bytes >> 20} MiB of memory, or killed. {last}".strip()
    return f"It ended with {code}. {last}".strip()
