"""What processes use, read from /proc; how much lies in a folder; what energy that takes."""

import contextlib
import os
import stat
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from falaj.jobs.running import trees
from falaj.runtimes.processes import proportional, resident

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_BLOCK: Final = 512
_ENTRY: Final = 1024  # what a file takes even if it is empty
UNMEASURED: Final = "what it filled cannot be measured"
_DEEPEST: Final = 256  # folders in folders, each held open on the way down; no path leads much deeper
_WATTS_PER_CORE: Final = 8.0  # of a busy one, with its share of memory: a middle of what servers of the last years take
_CLOSELY: Final = 0.5  # seconds between two close looks at what is shared
_CLOSELY_SHARE: Final = 20  # which take at most one part in so many of the time
_MORE: Final = 1.1
_RAPL: Final = Path("/sys/class/powercap")


def began(pid: int) -> int | None:
    """When a process began, in ticks since the machine did: with it, a number that was given again is told apart."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def cpu_seconds(pids: list[int]) -> float:
    """Of processes and of those that ended below them."""
    return sum(sum(int(ticks) for ticks in fields[11:15]) for pid in pids if (fields := _stat(pid))) / _TICKS


class Memory:
    """What processes take together. What they share counts once where one looks closely, which takes longer and is therefore
    done now and then, and whenever they seem to take more than ever; in between, as much is taken to be shared as was then."""

    def __init__(self) -> None:
        self._part = 1.0
        self._closely_at = 0.0
        self._most = 0.0

    def taken(self, pids: list[int], most: int) -> int:
        """Bytes; told exactly where that is more than `most`, which is 0 for no bound."""
        each = resident(pids)
        if len(pids) < 2 or not each:
            return each
        began = time.monotonic()
        if began >= self._closely_at or each * self._part > _MORE * self._most or (most and each > most):
            self._part = min(1.0, proportional(pids) / each)
            self._most = max(self._most, each * self._part)
            self._closely_at = time.monotonic() + max(_CLOSELY, (time.monotonic() - began) * _CLOSELY_SHARE)
        return int(each * self._part)


class Held(NamedTuple):
    """Bytes in files without a name, which no folder shows: those on a `disk`, and those in memory."""

    disk: int
    memory: int


def held_open(pids: list[int], devices: Collection[int]) -> Held:
    files: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    found = descriptor.stat()
                    if not found.st_nlink and stat.S_ISREG(found.st_mode):
                        files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    disk = sum(size for (place, _), size in files.items() if place in devices)
    return Held(disk, sum(files.values()) - disk)


def shared_memory(pid: int) -> int:
    """Bytes in the /dev/shm that a process sees."""
    with contextlib.suppress(OSError):
        about = os.statvfs(f"/proc/{pid}/root/dev/shm")
        return (about.f_blocks - about.f_bfree) * about.f_frsize
    return 0


class Unmeasured(Exception):
    """What lies in a folder cannot be told; why, in words for whoever reads how the try ended."""


class _Level(NamedTuple):
    """A folder on the way down. `names` are the folders in it that were not entered yet."""

    descriptor: int
    had: int | None  # the rights to it, where we changed them
    names: list[str]

    def leave(self) -> None:
        if self.had is not None:
            with contextlib.suppress(OSError):
                os.fchmod(self.descriptor, self.had)
        os.close(self.descriptor)


def lying_in(folder: str) -> int:
    """Bytes on the disk; many empty files are not nothing. What goes away meanwhile does not count; what cannot be looked into
    raises `Unmeasured`, for anything may be hidden there."""
    total = 0
    way: list[_Level] = []
    name, above = folder, None
    try:
        while True:
            if len(way) == _DEEPEST:
                raise Unmeasured(f"folders lie in folders more than {_DEEPEST} deep")
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                way.append(_Level(*trees.entered(name, above, stat.S_IRUSR | stat.S_IXUSR), []))
                total += _looked_over(way[-1])
            while way and not way[-1].names:
                way.pop().leave()
            if not way:
                return total
            name, above = way[-1].names.pop(), way[-1].descriptor
    except OSError as error:
        raise Unmeasured(f"a folder cannot be looked into: {error.strerror}") from error
    finally:
        while way:
            way.pop().leave()


def _looked_over(level: _Level) -> int:
    """Bytes of what lies in one folder itself."""
    total = 0
    with os.scandir(level.descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                is_folder = stat.S_ISDIR(found.st_mode)
                total += _ENTRY + found.st_blocks * _BLOCK // (1 if is_folder else max(1, found.st_nlink))
                if is_folder:
                    level.names.append(entry.name)
    return total


class Energy:
    """Joules of the cores a job keeps busy: its share of what the host's meters count, or an estimate where there are none."""

    def __init__(self) -> None:
        self._meters = [meter for meter in _meters() if _counted(meter) is not None]
        self._counts = [_counted(meter) or 0 for meter in self._meters]
        self._busy = _busy_seconds()
        self._cpu_seconds = 0.0
        self.joules = 0.0

    @property
    def is_measured(self) -> bool:
        return bool(self._meters)

    def add(self, cpu_seconds: float) -> None:
        """`cpu_seconds` is what the job has used until now."""
        used, self._cpu_seconds = max(0.0, cpu_seconds - self._cpu_seconds), max(cpu_seconds, self._cpu_seconds)
        if not self._meters:
            self.joules += used * _WATTS_PER_CORE
            return
        counts, busy = [_counted(meter) or 0 for meter in self._meters], _busy_seconds()
        # A meter that ran over begins at nothing again.
        taken = sum(now - then if now >= then else now for now, then in zip(counts, self._counts, strict=True)) / 1e6
        if busy > self._busy:
            self.joules += taken * min(1.0, used / (busy - self._busy))
        self._counts, self._busy = counts, busy


def _meters() -> Iterator[Path]:
    """One per socket; those within are parts of it."""
    if _RAPL.is_dir():
        for zone in sorted(_RAPL.glob("intel-rapl:*")):
            if zone.name.count(":") == 1:
                yield zone / "energy_uj"


def _counted(meter: Path) -> int | None:
    try:
        return int(meter.read_text())
    except (OSError, ValueError):
        return None


def _busy_seconds() -> float:
    with open("/proc/stat") as file:
        fields = [int(ticks) for ticks in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS  # without what was idle or waiting for disks


def _stat(pid: int) -> list[str] | None:
    """The fields after the name, which may hold anything."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
