"""Which project a request means: MLflow calls it the workspace, and most clients leave it unsaid.

A choice is only a name. Whether the caller may do there what it asks is for the dispatcher to say, at every call.
"""

import hashlib
import re
import time
from collections.abc import Callable
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import NAME_PATTERN
from falaj.governance.cache import Bounded
from falaj.governance.gate import no_such_project
from falaj.governance.projects.operations import ListProjects, Projects

DEFAULT: Final = "default"
REMEMBERED: Final = 4096
SECONDS: Final = 10.0
_NAME: Final = re.compile(NAME_PATTERN)


def said_project(prefix: str, header: str) -> str:
    """The project that the address or the header names; empty where neither does."""
    if prefix and header and prefix != header:
        raise Invalid(f"The address says project {prefix!r} and X-MLFLOW-WORKSPACE says {header!r}; leave one of them out.")
    said = prefix or header
    if said and not _NAME.fullmatch(said):
        raise no_such_project(said[:100])
    return said


def only_project(mine: Projects) -> str:
    """The one that goes without saying, among those the caller has a role in and its token reaches."""
    names = [project.name for project in mine.items if project.roles]
    if len(names) == 1 and not mine.next:
        return names[0]
    if DEFAULT in names:
        return DEFAULT
    if not names:
        raise Invalid("You have a role in no project yet: ask an admin, or make one with `falaj project create`.")
    few = ", ".join(names[:10]) + (", ..." if len(names) > 10 or mine.next else "")
    raise Invalid(
        f"Say which project is meant, for you are in several ({few}): set MLFLOW_WORKSPACE=PROJECT, "
        "or MLFLOW_TRACKING_URI=https://HOST/mlflow/PROJECT for clients that know no workspaces."
    )


class Choices:
    """What went without saying, remembered for a while: else every metric would ask for a list of projects. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: Bounded[bytes, tuple[str, float]] = Bounded(REMEMBERED)

    def known(self, credentials: str | None) -> str:
        """What was chosen for these credentials a moment ago, or nothing."""
        chosen, until = self._known.get(_caller(credentials)) or ("", 0.0)
        return chosen if self._clock() < until else ""

    def choose(self, credentials: str | None, mine: Callable[[ListProjects], Projects]) -> str:
        """`mine` asks the platform; it raises for strangers, who have no projects."""
        if known := self.known(credentials):
            return known
        chosen = only_project(mine(ListProjects(limit=1000)))
        self._known.put(_caller(credentials), (chosen, self._clock() + SECONDS))
        return chosen


def _caller(credentials: str | None) -> bytes:
    return hashlib.sha256((credentials or "").encode()).digest()
