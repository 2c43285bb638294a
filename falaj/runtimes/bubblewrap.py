"""What every sandbox of ours has in common, whatever runs in it: how bubblewrap is found and told whom it runs, and what of
the host can be read inside.

As root, each sandbox gets a user of its own that nobody else is, because limits on processes do not hold for root; as anybody
else, a user namespace does that.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path
from random import SystemRandom
from typing import Final

from falaj.base.errors import Misconfigured

NOBODY: Final = 65_534
USERS: Final = 100_000_000  # too many to meet the same twice
# What root needs to build the walls and to become somebody else: CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN.
_POWERS: Final = (1 << 6) | (1 << 7) | (1 << 21)
_LIBRARIES: Final = ("site-packages", "dist-packages")


def program(what: str) -> str:
    """Raises `Misconfigured` where there is none: then `what` cannot run."""
    found = shutil.which("bwrap")
    if found is None:
        raise Misconfigured(f"{what} only in a sandbox, and there is no bubblewrap: apt-get install bubblewrap")
    return found


def own_user(first: int, powers: int = 0) -> int:
    """Somebody from `first` on whom nobody else is, or 0 where we may not become anybody; `powers` are needed besides."""
    return SystemRandom().randrange(first, first + USERS) if _may_become_anybody(first, _POWERS | powers) else 0


def identity(user: int) -> tuple[str, ...]:
    """What the first process inside is: as root, it keeps what it needs to become `user`."""
    if user:
        return ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    return ("--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL")


def readable(places: Iterable[str]) -> list[str]:
    """The folders above are made, and open to all: bubblewrap would make them as closed as they are outside."""
    told: list[str] = []
    for place in sorted(set(places)):  # what lies within another comes after it
        if Path(place).exists():
            above = [part for folder in reversed(Path(place).parents[:-1]) for part in ("--dir", str(folder))]
            told += [*above, "--ro-bind", place, place]
    return told


def libraries(paths: Iterable[str]) -> list[str]:
    """Of the folders that an interpreter knows, those that hold libraries alone."""
    return [path for path in paths if Path(path).name in _LIBRARIES]


def end_what_is_left(place: str) -> None:
    """Of a sandbox that was told of a place, once whoever kept it is gone: killed before the walls stood, bubblewrap's first
    process leaves a second one behind that waits for it for ever."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, *told = os.fsdecode((process / "cmdline").read_bytes()).split("\0")
            if Path(name).name == "bwrap" and any(one == place or one.startswith(f"{place}/") for one in told):
                os.kill(int(process.name), signal.SIGKILL)


def _may_become_anybody(first: int, needed: int) -> bool:
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text()
    powers = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff")), 16)
    ranges = [[int(part) for part in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    known = any(start < first and start + length >= first + USERS for start, _, length in ranges)
    return known and powers & needed == needed
