"""What an endpoint did of late: from points by revision to courses and the few numbers that are read at a glance."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.base.clock import SECOND, Moment
from falaj.base.values import value
from falaj.web.drawing.sparklines import sparkline

LATE: Final = 300  # seconds that "now" stands for
_TOO_YOUNG: Final = 0.25  # of a step: one that is younger says too little by itself, and belongs to the one before
_GAP: Final = float("nan")


@value
class Course:
    """Equal steps of time, oldest first; a gap is not a number. `seconds` is what each step stands for."""

    seconds: tuple[float, ...] = ()
    requests: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    shed: tuple[int, ...] = ()
    p50: tuple[float, ...] = ()
    p90: tuple[float, ...] = ()
    p99: tuple[float, ...] = ()
    batch: tuple[float, ...] = ()

    @property
    def rate(self) -> tuple[float, ...]:
        return tuple(count / span for count, span in zip(self.requests, self.seconds, strict=True))

    @property
    def failed(self) -> tuple[float, ...]:
        """Errors and refused calls, of one second."""
        counts = zip(self.errors, self.shed, self.seconds, strict=True)
        return tuple((errors + shed) / span for errors, shed, span in counts)


@value
class Figures:
    """Of the last minutes. Latencies are the worst of these minutes; they are None where nobody called."""

    rate: float
    p50: float | None
    p99: float | None
    errors: float  # share of the calls
    shed: float  # refused calls, of one second
    calls: int


def course(points: Sequence[Any], seconds: int, now: Moment, *, shadows: Collection[int] = ()) -> Course:
    """Of all revisions that answered; a shadow's calls are copies, and not counted."""
    counted = [point for point in points if point.revision not in shadows]
    if not points:
        return Course()
    width = round(points[0].seconds * SECOND)
    first, last = (now - seconds * SECOND) // width, now // width
    if now - last * width < width * _TOO_YOUNG:
        last -= 1
    slots: dict[int, list[Any]] = {}
    for point in counted:
        slots.setdefault(min(point.at // width, last), []).append(point)
    steps = [slots.get(slot, []) for slot in range(first, last + 1)]
    spans = [(now - slot * width if slot == last else width) / SECOND for slot in range(first, last + 1)]
    return Course(
        seconds=tuple(spans),
        requests=tuple(sum(point.requests for point in step) for step in steps),
        errors=tuple(sum(point.errors for point in step) for step in steps),
        shed=tuple(sum(point.shed for point in step) for step in steps),
        p50=tuple(_worst(step, "p50") for step in steps),
        p90=tuple(_worst(step, "p90") for step in steps),
        p99=tuple(_worst(step, "p99") for step in steps),
        batch=tuple(_batch(step) for step in steps),
    )


def figures(of: Course) -> Figures:
    count, span = 0, 0.0
    while count < len(of.seconds) and (span < LATE or count == 0):
        count += 1
        span += of.seconds[-count]
    if not count:
        return Figures(rate=0.0, p50=None, p99=None, errors=0.0, shed=0.0, calls=0)
    calls = sum(of.requests[-count:])
    return Figures(
        rate=calls / span,
        p50=_most(of.p50[-count:]),
        p99=_most(of.p99[-count:]),
        errors=sum(of.errors[-count:]) / calls if calls else 0.0,
        shed=sum(of.shed[-count:]) / span,
        calls=calls,
    )


def sparks(of: Course, *, width: float = 300, height: float = 150) -> dict[str, Markup]:
    """The courses in small, for those without a script, under the names of the charts."""
    drawn = {"rate": of.rate, "latency": of.p99, "errors": of.failed, "batch": of.batch}
    return {name: sparkline(values, width=width, height=height, class_="spark spark-large") for name, values in drawn.items()}


def _worst(points: Iterable[Any], name: str) -> float:
    return max((getattr(point, name) for point in points if point.requests), default=_GAP)


def _batch(points: Sequence[Any]) -> float:
    batches = sum(point.batches for point in points)
    return sum(point.rows for point in points) / batches if batches else _GAP


def _most(values: Iterable[float]) -> float | None:
    return max((value for value in values if not math.isnan(value)), default=None)
