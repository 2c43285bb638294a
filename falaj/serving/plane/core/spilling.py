"""When requests go to a second place that has the same model, because the first is behind: pure."""

from typing import Final

CALM: Final = 0.5  # of the objective: a wait below it ends what a wait beyond the objective began


def is_behind(before: bool, wait: float, objective: float) -> bool:
    """Whether requests may go elsewhere. It takes a wait beyond the objective to begin and a much shorter one to end, so that
    they do not go to and fro. `wait` is what is estimated for those who wait already, in seconds."""
    return wait > objective or (before and wait >= objective * CALM)


def is_free(wait: float, objective: float) -> bool:
    """Whether the other place would answer in time; `wait` is with the request's own rows. One that is behind itself, or too
    slow for this request, is no help."""
    return wait <= objective
