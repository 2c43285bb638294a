"""Who changes a split is told of the A/B test that ends by it: the platform ends it moments later, in silence."""

from collections.abc import Iterator
from contextlib import contextmanager

from falaj.base.errors import FalajError
from falaj.cli.terminal import Terminal
from falaj.monitoring.operations.abtests import LIST_ABTESTS, ListAbtests


@contextmanager
def overtaking(terminal: Terminal, project: str, endpoint: str) -> Iterator[None]:
    """Around the change of a split. Nothing is said where the change fails."""
    name = _running(terminal, project, endpoint)
    yield
    if name:
        terminal.say(f"The A/B test {name} ended by this: overtaken.")


def _running(terminal: Terminal, project: str, endpoint: str) -> str:
    """There is one at a time, and it is the newest. Whoever may not see tests changes splits all the same."""
    try:
        found = terminal.call(LIST_ABTESTS, ListAbtests(project=project, endpoint=endpoint, limit=1)).items
    except FalajError:
        return ""
    return found[0].name if found and found[0].state == "running" else ""
