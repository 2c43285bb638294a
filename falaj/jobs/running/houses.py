"""What the sandboxes of this host are made of: found out once by the engine, told to every keeper."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

import falaj
from falaj.jobs.running.orders import House
from falaj.runtimes import bubblewrap

_FIRST_USER: Final = 1_900_000_000  # far from anybody's
SHARED_USER: Final = _FIRST_USER - 1  # who all are that share a card: its MPS daemon serves one user
_CAP_CHOWN: Final = 1 << 0  # folders of a job are its user's


def user_of(job: str) -> int:
    """Whom all tries of a job are, on every host, where they share a folder."""
    return _FIRST_USER + int.from_bytes(hashlib.sha256(job.encode()).digest()[:8]) % bubblewrap.USERS


def house(hidden: tuple[Path, ...], *, groups: bool, own_user: bool) -> House:
    """With the interpreter that runs us. `own_user`: where we may, the job is a user that nobody else is."""
    return House(
        bubblewrap=bubblewrap.program("Jobs run"),
        interpreter=sys.executable,
        readable=tuple(dict.fromkeys([sys.prefix, sys.base_prefix, os.path.realpath(sys.executable)])),
        libraries=tuple(dict.fromkeys([*bubblewrap.libraries(sys.path), str(Path(falaj.__file__).parent)])),
        hidden=tuple(str(place.resolve()) for place in hidden),
        user=bubblewrap.own_user(_FIRST_USER, _CAP_CHOWN) if own_user else 0,
        groups=groups,
        is_shared=False,
    )
