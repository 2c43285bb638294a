"""How much memory this process may still take: what its control groups leave it, and what the machine has."""

from pathlib import Path
from typing import Final

_SYSTEM: Final = Path("/sys")
_PROCESSES: Final = Path("/proc")
_FILES: Final = (  # of both versions of control groups: the bound, what is taken, and what of that are files to be let go of
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def left(system: Path = _SYSTEM, processes: Path = _PROCESSES) -> int | None:
    """In bytes; None where nobody says."""
    found = [number << 10 for number in (_number(processes / "meminfo", "MemAvailable:"),) if number is not None]
    for line in _text(processes / "self" / "cgroup").splitlines():
        number, names, within = line.split(":", 2)
        if number == "0" or "memory" in names.split(","):
            root = system / "fs" / "cgroup" / (names if number != "0" else "")
            found += _of_groups(root, root / within.lstrip("/"))
    return max(0, min(found)) if found else None


def taken(processes: Path = _PROCESSES) -> int | None:
    """Bytes that this process may write to, as the kernel holds them against RLIMIT_DATA."""
    number = _number(processes / "self" / "status", "VmData:")
    return None if number is None else number << 10


def _of_groups(root: Path, own: Path) -> list[int]:
    """From the process's own up to the root: each bounds it."""
    found = []
    for group in (own, *own.parents):
        if not group.is_relative_to(root):
            break
        for bound, used, files in _FILES:
            most, now = _text(group / bound), _text(group / used)
            if most.isdecimal() and now.isdecimal():
                found.append(int(most) - int(now) + (_number(group / "memory.stat", files) or 0))
    return found


def _number(file: Path, name: str) -> int | None:
    for line in _text(file).splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
