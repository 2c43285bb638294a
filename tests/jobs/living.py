"""What lives of a platform's jobs on this machine, as the kernel says, whatever the platform believes; and a way to kill it."""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["keeper", "command", "ray driver", "ray worker", ""]
LOOKS = 0.1  # seconds between two looks
YOUNG = 1.0  # seconds in which a process may still become another program
_KEEPER, _DRIVER, _WORKER = b"falaj.jobs.running.keeper", b"falaj.jobs.engines.ray_driver", b"ray::Host"


class Process(NamedTuple):
    pid: int
    began: bytes  # with its number, no other process has the same
    kind: Kind
    job: str = ""  # of a command that a job runs
    number: int = 0  # of its try


class Living:
    """Looks again and again, in a thread of its own. Processes of other platforms are nobody to it: `folders` are where those
    of this one lie, `mark` is in the environment of what its Ray runs, and `jobs` (which may grow) are the ids of its jobs."""

    def __init__(self, folders: tuple[Path, ...], mark: str, jobs: set[str]) -> None:
        self.at_once: list[str] = []  # two tries of one job that lived at the same moment: there must be none
        self.seen: set[tuple[str, int]] = set()  # every try that was seen to run
        self.killed: Counter[str] = Counter()
        self._folders, self._mark, self._jobs = tuple(os.fsencode(folder) for folder in folders), mark.encode(), jobs
        self._known: dict[int, tuple[float, Process]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def now(self) -> list[Process]:
        """Those of ours that live at this moment. Workers of Ray become what they are long after they began."""
        found = (self._read(pid) for pid in _pids())
        return [process for process in found if process is not None and process.kind]

    def kill_one(self, kind: Kind, chance: random.Random, *, seconds: float = 30.0) -> bool:
        """Kill -9 of any of them; waits for one to come up. Whether one did."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = [process for process in self.now() if process.kind == kind]
            if found and _kill(chance.choice(found)):
                self.killed[kind] += 1
                return True
            time.sleep(LOOKS)
        return False

    def _look_on(self) -> None:
        while not self._stopping.wait(LOOKS):
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        pids = _pids()
        known = {pid: about for pid, about in self._known.items() if pid in pids}
        for pid in pids:
            first, _ = known.get(pid, (now, None))
            if now - first <= YOUNG and (read := self._read(pid)) is not None:
                known[pid] = (first, read)
        self._known = known
        self._compare([process for _, process in known.values() if process.job])

    def _compare(self, commands: list[Process]) -> None:
        tries: dict[str, set[int]] = {}
        for process in commands:
            self.seen.add((process.job, process.number))
            tries.setdefault(process.job, set()).add(process.number)
        for job, numbers in tries.items():
            if len(numbers) > 1:  # one of them may have ended since it was read
                living = {one.number for one in commands if one.job == job and self._read(one.pid) == one}
                if len(living) > 1:
                    self.at_once.append(f"{job}: tries {sorted(living)}")

    def _read(self, pid: int) -> Process | None:
        """None where it has gone, or only its parent has not heard of it yet."""
        place = Path(f"/proc/{pid}")
        try:
            state, parent, *fields = place.joinpath("stat").read_bytes().rpartition(b")")[2].split()
            if state in b"ZX":
                return None
            began, line = fields[17], place.joinpath("cmdline").read_bytes()
            if _KEEPER in line and self._is_ours(line):
                return Process(pid, began, "keeper")
            if line.startswith(_WORKER):  # of whose Ray, its parent says
                parents = Path(f"/proc/{int(parent)}/cmdline").read_bytes()
                return Process(pid, began, "ray worker" if self._is_ours(parents) else "")
            environment = place.joinpath("environ").read_bytes()
            if _DRIVER in line and line.startswith(b"/"):  # not the shell that starts it
                return Process(pid, began, "ray driver" if self._mark in environment else "")
            job, number = _carried(environment)
        except (OSError, ValueError):
            return None
        return Process(pid, began, "command", job, number) if job in self._jobs else Process(pid, began, "")

    def _is_ours(self, line: bytes) -> bool:
        return any(folder in line for folder in self._folders)


def _pids() -> set[int]:
    return {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()}


def _carried(environment: bytes) -> tuple[str, int]:
    """The job and the number of its try, where a process was given them."""
    found = dict(part.split(b"=", 1) for part in environment.split(b"\0") if part.startswith((b"FALAJ_JOB=", b"FALAJ_TRY=")))
    return found.get(b"FALAJ_JOB", b"").decode(), int(found.get(b"FALAJ_TRY", b"0"))


def _kill(process: Process) -> bool:
    with contextlib.suppress(OSError):
        os.kill(process.pid, signal.SIGKILL)
        return True
    return False
