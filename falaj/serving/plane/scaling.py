"""How many workers a host should have: decided from what they were seen to do, applied by the supervisor."""

from typing import Final

from falaj.base.values import value

BUSY: Final = 0.7  # of a core: above it one more worker helps, if there is a core for it
IDLE: Final = 0.3
PATIENCE: Final = 60.0  # seconds of idleness before a worker is let go


@value
class Load:
    """What was seen since the last decision. `busy` is the share of a core that the workers used on average; `shed` counts
    calls that were refused because they would have waited too long; `idle_for` is how long `busy` has been low, in seconds."""

    workers: int
    busy: float
    shed: int
    idle_for: float


def wanted_workers(load: Load, *, least: int, most: int) -> int:
    """One up at once, one down after a while: a worker more costs a second and some memory, one too few costs callers."""
    if load.busy > BUSY or load.shed:
        wanted = load.workers + 1
    elif load.idle_for > PATIENCE:
        wanted = load.workers - 1
    else:
        wanted = load.workers
    return max(least, min(most, wanted))
