"""Control groups of either version, where the host lets us make them: limits on memory, cores and processes that hold
by themselves.

Where it does not, `measures` and a watchful keeper do.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

MIB: Final = 1 << 20
_PERIOD: Final = 100_000  # microseconds
_PREFIX: Final = "falaj-"
_WANTED: Final = ("memory", "cpu", "cpuacct", "pids")


class Most(NamedTuple):
    """0 is no limit."""

    cpu_milli: int
    memory_bytes: int
    processes: int


class Group:
    """The control groups of one sandbox, one per controller, or one for all of them where the host has version 2."""

    def __init__(self, places: dict[str, Path]) -> None:
        self._places = places

    @classmethod
    def make(cls, name: str, most: Most) -> "Group":
        """As many as can be had: `holds_memory` says whether the one that counts most is among them."""
        places: dict[str, Path] = {}
        for controllers, parents in _homes():
            made = _make_below(parents, f"{_PREFIX}{name}", controllers)
            if made is not None:
                places |= dict.fromkeys(controllers, made)
        group = cls(places)
        group._hold(most)
        return group

    @classmethod
    def found(cls, places: list[str]) -> "Group":
        """One that a keeper left behind."""
        return cls({str(number): Path(place) for number, place in enumerate(places)})

    @property
    def places(self) -> list[str]:
        return sorted({str(place) for place in self._places.values()})

    @property
    def holds_memory(self) -> bool:
        return "memory" in self._places

    def add(self, pids: list[int]) -> None:
        """A group that does not take them is given up: it would hold nothing."""
        for place in set(self._places.values()):
            if not all(_put(place / "cgroup.procs", pid) or not Path(f"/proc/{pid}").exists() for pid in pids):
                self._places = {name: other for name, other in self._places.items() if other != place}
                Group({"": place}).remove()

    def pids(self) -> list[int]:
        return _pids(next(iter(self._places.values())))

    def ended_for_memory(self) -> int:
        """How many of its processes were ended for want of memory."""
        if place := self._places.get("memory"):
            for name in ("memory.events", "memory.oom_control"):
                if (count := _field(place / name, "oom_kill")) is not None:
                    return count
        return 0

    def memory(self) -> int | None:
        """Bytes that only ending a process would give back: the kernel drops what it has cached of files by itself."""
        place = self._places.get("memory")
        if place is None:
            return None
        for own, shared in (("anon", "shmem"), ("rss", "shmem")):
            if (found := _field(place / "memory.stat", own)) is not None:
                return found + (_field(place / "memory.stat", shared) or 0)
        return None

    def cpu_seconds(self) -> float | None:
        if (place := self._places.get("cpu")) and (used := _field(place / "cpu.stat", "usage_usec")) is not None:
            return used / 1e6
        if (place := self._places.get("cpuacct")) and (nanoseconds := _number(place / "cpuacct.usage")) is not None:
            return nanoseconds / 1e9
        return None

    def remove(self, patience: float = 2.0) -> None:
        """With whatever is still in it."""
        deadline = time.monotonic() + patience
        for place in set(self._places.values()):
            while place.exists():
                for pid in _pids(place):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, 9)
                try:
                    place.rmdir()
                except OSError:
                    if time.monotonic() > deadline:
                        break  # somebody who cannot be ended yet; an empty group takes nothing
                    time.sleep(0.02)

    def _hold(self, most: Most) -> None:
        if (place := self._places.get("memory")) and most.memory_bytes:
            held = _put(place / "memory.max", most.memory_bytes) or _put(place / "memory.limit_in_bytes", most.memory_bytes)
            if not held:
                del self._places["memory"]
            _put(place / "memory.swap.max", 0)
            _put(place / "memory.memsw.limit_in_bytes", most.memory_bytes)
        if (place := self._places.get("cpu")) and most.cpu_milli:
            share = max(1000, most.cpu_milli * _PERIOD // 1000)
            _put(place / "cpu.max", f"{share} {_PERIOD}")
            _put(place / "cpu.cfs_period_us", _PERIOD)
            _put(place / "cpu.cfs_quota_us", share)
        if (place := self._places.get("pids")) and most.processes:
            _put(place / "pids.max", most.processes)


def group_of(pid: int, most: Most) -> Group | None:
    """What somebody else has put a process into; None where it does not bound memory as it should."""
    places: dict[str, Path] = {}
    bounds: set[int | None] = {0}
    for several, root, own in _groups(str(pid)):
        held = own / "cgroup.controllers"  # of version 2, which may be there beside the other and hold nothing
        controllers = [one for one in several if one in held.read_text().split()] if held.exists() else several
        places |= dict.fromkeys(controllers, own)
        if "memory" in controllers and own.is_relative_to(root):  # the bound may be on the group above
            files = [place / name for place in (own, own.parent) for name in ("memory.max", "memory.limit_in_bytes")]
            bounds |= {_number(file) for file in files}
    return Group(places) if most.memory_bytes in bounds and "memory" in places else None


def _homes() -> list[tuple[tuple[str, ...], list[Path]]]:
    """Which controllers can be had together, and below which groups one may try: our own, the one above, the root."""
    homes = []
    for controllers, root, own in _groups("self"):
        parents = [place for place in dict.fromkeys([own, own.parent, root]) if place.is_relative_to(root)]
        homes.append((controllers, parents))
    return homes


def _groups(process: str) -> list[tuple[tuple[str, ...], Path, Path]]:
    """Controllers, the root of their groups, and the group that a process is in."""
    mounted: dict[str, Path] = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            mounted |= dict.fromkeys(options.split(",") if kind == "cgroup" else ["unified"], Path(place))
    found: list[tuple[tuple[str, ...], Path, Path]] = []
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        number, names, within = line.split(":", 2)
        controllers = ("unified",) if number == "0" else tuple(name for name in names.split(",") if name in _WANTED)
        if not controllers or (root := mounted.get(controllers[0])) is None:
            continue
        if number == "0":
            controllers = ("memory", "cpu", "pids")
        found.append((controllers, root, root / within.lstrip("/")))
    return found


def _make_below(parents: list[Path], name: str, controllers: tuple[str, ...]) -> Path | None:
    for parent in parents:
        unified = parent / "cgroup.subtree_control"
        if unified.exists():
            there = unified.read_text().split()
            missing = [one for one in controllers if one not in there]
            # A group with processes of its own may not give controllers to those below it; the one above may.
            if missing and not _put(unified, " ".join(f"+{one}" for one in missing)):
                continue
        try:
            (parent / name).mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(parent / name / "cgroup.procs", os.W_OK):
            return parent / name
        (parent / name).rmdir()
    return None


def _put(file: Path, what: object) -> bool:
    try:
        with open(file, "w") as opened:  # not `write_text`: it would make the file where there is none
            opened.write(str(what))
    except OSError:
        return False
    return True


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _field(file: Path, name: str) -> int | None:
    try:
        with open(file) as lines:
            return next((int(line.split()[1]) for line in lines if line.split()[0] == name), None)
    except (OSError, ValueError, IndexError):
        return None


def _pids(place: Path) -> list[int]:
    try:
        return [int(line) for line in (place / "cgroup.procs").read_text().split()]
    except OSError:
        return []
