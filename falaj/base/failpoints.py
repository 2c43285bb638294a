"""Named points where a process may die. Tests enumerate them from the source and kill the process at each in turn."""

import os
import signal
from itertools import count
from typing import Final

_name, _, _visit = os.environ.get("FALAJ_FAILPOINT", "").partition("@")
_armed: Final = _name
_deadly_visit: Final = int(_visit or 1)
_visits: Final = count(1)


def failpoint(name: str) -> None:
    """Die here, as by `kill -9`, at the visit that the environment chose before the process started: `name` or `name@3`."""
    if _armed == name and next(_visits) == _deadly_visit:
        os.kill(os.getpid(), signal.SIGKILL)
