"""What the sandboxes of this host are made of: found out once by the engine, told to every keeper."""

import os
import shutil
import sys
from pathlib import Path
from random import SystemRandom
from typing import Final

import falaj
from falaj.base.errors import Misconfigured
from falaj.jobs.running.orders import House

_FIRST_USER, _USERS = 1_900_000_000, 100_000_000  # far from anybody's, and too many to meet the same twice
SHARED_USER: Final = _FIRST_USER - 1  # who all are that share a card: its MPS daemon serves one user
# What root needs to build the walls and to become somebody else: CAP_CHOWN, CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN.
_POWERS: Final = (1 << 0) | (1 << 6) | (1 << 7) | (1 << 21)
_LIBRARIES: Final = ("site-packages", "dist-packages")


def house(hidden: tuple[Path, ...], *, groups: bool, own_user: bool) -> House:
    """With the interpreter that runs us. `own_user`: where we may, the job is a user that nobody else is."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise Misconfigured("Jobs run only in a sandbox, and there is no bubblewrap: apt-get install bubblewrap")
    libraries = [path for path in sys.path if Path(path).name in _LIBRARIES]
    return House(
        bubblewrap=bubblewrap,
        interpreter=sys.executable,
        readable=tuple(dict.fromkeys([sys.prefix, sys.base_prefix, os.path.realpath(sys.executable)])),
        libraries=tuple(dict.fromkeys([*libraries, str(Path(falaj.__file__).parent)])),
        hidden=tuple(str(place.resolve()) for place in hidden),
        user=SystemRandom().randrange(_FIRST_USER, _FIRST_USER + _USERS) if own_user and _may_become_anybody() else 0,
        groups=groups,
        is_shared=False,
    )


def _may_become_anybody() -> bool:
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text()
    powers = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff")), 16)
    ranges = [[int(part) for part in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    known = any(first <= _FIRST_USER - 1 and first + length >= _FIRST_USER + _USERS for first, _, length in ranges)
    return known and powers & _POWERS == _POWERS
