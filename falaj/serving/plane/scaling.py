"""How many workers a host should have: decided from what they were seen to do, applied by the supervisor."""

from math import ceil
from typing import Final

from falaj.base.values import value

BUSY: Final = 0.7  # of a core: above it one more worker helps, if there is a core for it
IDLE: Final = 0.3
SPARE: Final = 0.5  # of what calls a worker one more: below it, one worker fewer would do
PATIENCE: Final = 60.0  # seconds of calm before a worker is let go


@value
class Load:
    """What was seen since the last decision.

    `busy` is the share of a core that the workers used on average, `calls` how many were under way on each of them. `shed`
    counts calls that were refused because they would have waited too long. `late` is the p99 of the endpoint that does worst by
    its objective, over that objective. `calm_for` is how long `is_calm` has been true, in seconds.
    """

    workers: int
    busy: float
    calls: float
    shed: int
    late: float
    calm_for: float


def wanted_workers(load: Load, *, least: int, most: int, calls: int) -> int:
    """`calls` is how many may be under way on one worker before there should be another.

    Up at once, by as many as the calls want; one down after a while: a worker more costs a second and some memory, one too few
    costs callers.
    """
    if _are_too_few(load, calls):
        wanted = max(load.workers + 1, ceil(load.workers * load.calls / calls))
    elif load.calm_for > PATIENCE:
        wanted = load.workers - 1
    else:
        wanted = load.workers
    return max(least, min(most, wanted))


def is_calm(load: Load, *, calls: int) -> bool:
    """One worker fewer would do, and not be too few at once."""
    each = load.calls * load.workers / max(1, load.workers - 1)
    return not load.shed and load.busy <= IDLE and each <= calls * SPARE and _lateness(load.late, each) <= SPARE


def _are_too_few(load: Load, calls: int) -> bool:
    return load.busy > BUSY or bool(load.shed) or load.calls > calls or _lateness(load.late, load.calls) > 1


def _lateness(late: float, calls: float) -> float:
    """Calls that never wait for each other are late by their model alone: a worker more makes none of them faster."""
    return late if calls > 1 else 0.0
