"""When a model gives way to a faster variant of itself, and when it comes back: pure.

It falls soon and comes back late: what waits must be long for a while, and there must be time to spare for much longer. Who
falls again right after it came back waits twice as long the next time.
"""

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from falaj.base.values import value

BEHIND: Final = 0.7  # of the objective: a wait beyond it, for a while, is an overload; beyond the whole of it calls are refused
CALM: Final = 0.25  # of the objective
SPARE: Final = 0.5  # of its time at most would the slower form be busy, before it is asked again
FALLS_AFTER: Final = 0.5  # seconds
RETURNS_AFTER: Final = 5.0
RETURNS_AT_LAST: Final = 300.0
SMOOTHED: Final = 0.3  # seconds over which what is seen is smoothed: one batch more or less is no news

Step: TypeAlias = Literal["stay", "fall", "rise"]


@value
class Seen:
    """Of the form that answers now: `wait` is how long what waits would take, `rows` how many it has answered so far. A row
    takes `above_s` in the next slower form, 0 where nobody knows. All times are in seconds."""

    wait: float
    objective: float
    rows: int
    above_s: float = 0.0


@value
class Course:
    """How it went since the last step. `wait` is smoothed, and so is `load`, the share of its time that the slower form would
    need for the same calls; `rows` as they were at the last look, None before the first. `calm_for` seconds it has to be calm
    before it rises; `rose` is when the last step was made, where that was up."""

    looked: float = 0.0
    rows: int | None = None
    wait: float = 0.0
    load: float = 0.0
    behind_since: float | None = None
    calm_since: float | None = None
    rose: float | None = None
    calm_for: float = RETURNS_AFTER


def decide(course: Course, seen: Seen, now: float, *, can_fall: bool, can_rise: bool) -> tuple[Course, Step]:
    """One look. `now` never goes back."""
    if course.rows is None:
        return replace(course, looked=now, rows=seen.rows), "stay"
    seconds = max(now - course.looked, 1e-6)
    part = min(1.0, seconds / SMOOTHED)
    wait = course.wait + (seen.wait - course.wait) * part
    load = course.load + ((seen.rows - course.rows) / seconds * seen.above_s - course.load) * part
    is_behind = wait > BEHIND * seen.objective
    is_calm = wait < CALM * seen.objective and load < SPARE
    behind_since = (now if course.behind_since is None else course.behind_since) if is_behind else None
    calm_since = (now if course.calm_since is None else course.calm_since) if is_calm else None
    if can_fall and behind_since is not None and now - behind_since >= FALLS_AFTER:
        return Course(calm_for=_calm_for(course, now)), "fall"
    if can_rise and calm_since is not None and now - calm_since >= course.calm_for:
        return Course(rose=now, calm_for=course.calm_for), "rise"
    watched = Course(
        looked=now,
        rows=seen.rows,
        wait=wait,
        load=load,
        behind_since=behind_since,
        calm_since=calm_since,
        rose=course.rose,
        calm_for=course.calm_for,
    )
    return watched, "stay"


def _calm_for(course: Course, now: float) -> float:
    """After a fall. One that goes further down than the last says nothing new about how long to wait."""
    if course.rose is None:
        return course.calm_for
    return min(2 * course.calm_for, RETURNS_AT_LAST) if now - course.rose < 2 * course.calm_for else RETURNS_AFTER
