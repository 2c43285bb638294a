"""Running a program where users' code may be loaded: inside `walls`, and no longer or larger than it may."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final, cast

from falaj.base.errors import Conflict
from falaj.runtimes.processes import proportional, resident, tree
from falaj.runtimes.walls import Bounds, Program, command, sandboxed_program

_TOLD: Final = 4000
_LOOKS: Final = 0.1
_BLOCK: Final = 512


def packed(name: str, size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A file as it goes in: one entry of a tar, so that nothing touches a disk in clear."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    yield entry.tobuf(tarfile.PAX_FORMAT)
    yield from chunks
    yield bytes(-size % _BLOCK)


END_OF_FILES: Final = bytes(2 * _BLOCK)


class Sandbox:
    """Thread-safe; each run is a process tree of its own, which ends with this one, or once nobody holds this object.
    `interpreter` is a Python with whatever libraries the program needs; empty is our own."""

    def __init__(self, interpreter: str = "") -> None:
        self._interpreter = str(Path(shutil.which(interpreter) or interpreter).absolute()) if interpreter else sys.executable
        # What is to end with its parent ends with the very thread that started it, so that one has to stay.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="starting sandboxes")

    def start(self, program: str | Program, bounds: Bounds) -> "Walled":
        """One of `sandboxed` by its name, or any. Raises `Misconfigured` where there is no sandbox."""
        if isinstance(program, str):
            program = sandboxed_program(program)
        arguments = command(self._interpreter, program, bounds)
        return self._starter.submit(Walled, arguments, bounds, program.files).result()

    def run(self, program: str, given: Iterable[bytes], bounds: Bounds) -> bytes:
        """What the program wrote to standard output. Raises `Conflict` with its last words where it failed or went too far,
        `Misconfigured` where there is no sandbox."""
        with self.start(program, bounds) as process:
            timer = threading.Timer(bounds.seconds, process.end, [f"It took more than {bounds.seconds:.0f} seconds"])
            feeding = threading.Thread(target=_feed, args=(process.given, given), daemon=True)
            timer.start()
            feeding.start()
            try:
                answer = process.told.read(bounds.output_bytes + 1)
                if len(answer) > bounds.output_bytes:
                    process.end(f"It wrote more than {bounds.output_bytes >> 20} MiB")
                problem = process.outcome()
            finally:
                timer.cancel()
        if problem:
            raise Conflict(problem)
        return answer


class Walled:
    """A process inside the walls, with its pipes: `given` is what it reads, `told` what it says. What it says on standard
    error is read beside, and the last of it kept. As a context it is ended at the end, whatever it does then."""

    def __init__(self, arguments: list[str], bounds: Bounds, files: Sequence[int] = ()) -> None:
        pipe = subprocess.PIPE
        # No environment for bubblewrap either: its first process stays inside the walls, where others may look into it.
        self._process = subprocess.Popen(
            arguments, stdin=pipe, stdout=pipe, stderr=pipe, env={}, start_new_session=True, pass_fds=files
        )
        self.given, self.told = (cast("IO[bytes]", one) for one in (self._process.stdin, self._process.stdout))
        self._words = _Tail(cast("IO[bytes]", self._process.stderr))
        self._most = bounds.memory_bytes
        self._ended_for = ""
        threading.Thread(target=self._watch, name="watching a sandbox", daemon=True).start()

    def __enter__(self) -> "Walled":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self, why: str) -> None:
        """From any thread. The whole tree goes with the first of its processes; while it is built, bubblewrap's second would
        wait for the first for ever, were it not killed along with it."""
        if self.is_alive:
            self._ended_for = self._ended_for or why
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def outcome(self, patience: float = 10.0) -> str:
        """Once it ended, or when it does not within `patience`: why it did not end well, or nothing where it did."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.end("It said everything and did not end")
            code = self._process.wait()
        if self._ended_for:
            return f"{self._ended_for} and was ended."
        last = self._words.last()
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return f"It was killed, perhaps for want of memory. {last}".strip()
        return f"It ended with {code}. {last}".strip() if code else ""

    def close(self) -> None:
        self.end("It was not needed any more")
        self._process.wait()
        for pipe in (self.given, self.told):
            with contextlib.suppress(OSError):  # what it did not read is lost, as is whoever should have
                pipe.close()

    def _watch(self) -> None:
        """A process is bounded by a limit of its own; all together are by being looked at."""
        while self.is_alive:
            pids = tree(self._process.pid)
            # What processes share counts for each of them, unless one looks closely, which takes longer.
            if all(measured(pids) > self._most for measured in (resident, proportional)):
                self.end(f"It took more than {self._most >> 20} MiB of memory")
            time.sleep(_LOOKS)


class _Tail:
    """Reads a pipe to its end in a thread, keeping the last of it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name="listening to a sandbox", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := self._pipe.read1(65_536):  # type: ignore[attr-defined]
                self._kept = (self._kept + chunk)[-_TOLD:]

    def last(self) -> str:
        self._thread.join(timeout=5)
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else ""


def _feed(pipe: IO[bytes], given: Iterable[bytes]) -> None:
    try:
        with pipe:
            for chunk in given:
                pipe.write(chunk)
    except (OSError, ValueError):
        pass  # it ended without reading everything; its exit says why
