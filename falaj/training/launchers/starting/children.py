"""Programs that the starter runs: told once that they should end, waited for, and gone when the starter goes."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

from falaj.training.launchers.starting.failures import Failed, Missing

GAVE_BACK: Final = 128 + signal.SIGTERM
_PR_SET_CHILD_SUBREAPER: Final = 36
_LOOKS: Final = 0.1
_MISSES: Final = 3  # looks in a row


def say(words: str) -> None:
    print(f"falaj: {words}", file=sys.stderr, flush=True)


class Children:
    """Each has a group of its own: a signal to the whole task reaches the starter alone, which passes it on exactly once, for
    a training takes the second one as the end of patience. What outlives its parent becomes the starter's, and ends then."""

    def __init__(self) -> None:
        self.asked = False  # to end
        self._stays = False  # something is under way that should end well
        self._hearing: list[subprocess.Popen[bytes]] = []
        self._past: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        end_all()

    def start(
        self,
        command: Sequence[str],
        more: Mapping[str, str] | None = None,
        *,
        hears: bool = True,
        quietly: bool = False,
        heard: bool = False,
    ) -> "subprocess.Popen[bytes]":
        """`hears`: it is told when the job should end; others go when those have ended. `quietly`: what it writes is nobody's
        business; `heard`: it is the caller's to read."""
        try:
            child = subprocess.Popen(
                list(command),
                env=os.environ | dict(more or {}),
                process_group=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if heard else subprocess.DEVNULL if quietly else None,
            )
        except FileNotFoundError:
            raise Missing(f"there is no program {command[0]!r} in the job's environment.") from None
        if hears:
            self.tell(child)
        return child

    def tell_past(self, child: "subprocess.Popen[bytes]") -> None:
        """What it started hears when the job should end, not itself: it would not give them time."""
        self._hearing.append(child)
        self._past.append(child)

    def tell(self, child: "subprocess.Popen[bytes]") -> None:
        """From now on it hears when the job should end."""
        self._hearing.append(child)
        if self.asked:
            child.terminate()

    def end_of(self, child: "subprocess.Popen[bytes]", *needed: "subprocess.Popen[bytes]") -> int:
        """How it ended, as exit codes say it. Where one that it needs goes before it, it is ended, too."""
        self._stays = True
        while (code := child.poll()) is None:
            for one in needed:
                if one.poll() is not None and not self.asked:
                    child.kill()
                    raise Failed(f"{_called(one)} ended with {_shown(one.returncode)}, and the training needs it.")
            time.sleep(_LOOKS)
        return GAVE_BACK if self.asked and code else _shown(code)

    def wait_for(self, address: str, port: int, server: "subprocess.Popen[bytes]") -> None:
        """Until somebody listens there."""
        while not _listens(address, port):
            if server.poll() is not None:
                raise Failed(f"{_called(server)} ended with {_shown(server.returncode)} before it listened.")
            time.sleep(_LOOKS)

    def end_when_gone(self, address: str, port: int, companion: "subprocess.Popen[bytes]") -> int:
        """For as long as the first task listens there: what becomes of the training, that one says."""
        self.wait_for(address, port, companion)
        self._stays, missed = True, 0
        while missed < _MISSES:
            if companion.poll() is not None and _listens(address, port):
                say(f"{_called(companion)} ended with {_shown(companion.returncode)}, and the training needs it.")
                return GAVE_BACK if self.asked else _shown(companion.returncode) or 1
            missed = 0 if _listens(address, port) else missed + 1
            time.sleep(1.0)
        return GAVE_BACK if self.asked else 0

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            return
        self.asked = True
        if not self._stays:
            raise SystemExit(GAVE_BACK)  # nothing to save yet
        for child in self._hearing:
            for pid in _children(child.pid) if child in self._past else [child.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=5.0).close()
    except OSError:
        return False
    return True


def _called(child: "subprocess.Popen[bytes]") -> str:
    """As much of it as says which it is: the rest may be long, or nobody's business."""
    words = [str(word) for word in child.args] if isinstance(child.args, list) else [str(child.args)]
    return " ".join([Path(words[0]).name, *words[1:4]])


def _shown(code: int) -> int:
    return 128 - code if code < 0 else code


def end_all() -> None:
    """Whatever is left below this process."""
    while left := _children():
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children(of: int | str = "self") -> list[int]:
    with contextlib.suppress(OSError):
        told = "".join(file.read_text() for file in Path("/proc", str(of), "task").glob("*/children"))
        return [int(pid) for pid in told.split()]
    return []
