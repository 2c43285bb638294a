"""What an endpoint's revisions did of late, as points that can be drawn."""

from typing import Final

from falaj.base.clock import HOUR, SECOND, Moment
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.serving.counts import Counts, counts_of, total
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.endpoints import Traffic, TrafficPoint
from falaj.serving.store import windows as store
from falaj.serving.store.windows import COARSE, FINE
from falaj.serving.views import required_endpoint

MOST_POINTS: Final = 200
FINE_FOR: Final = HOUR
COARSE_FOR: Final = 30 * 24 * HOUR
AT_ONCE: Final = 2000


class TrafficService:
    def bindings(self) -> list[Bound]:
        return [bind(declared.READ_TRAFFIC, self.read)]

    def read(self, context: Context, request: declared.ReadTraffic) -> Traffic:
        endpoint = required_endpoint(context, request.endpoint)
        since = context.now - request.seconds * SECOND
        span = FINE if request.seconds <= FINE_FOR // SECOND else COARSE
        rows = store.since(context.work, endpoint.id, span, since // (span * SECOND) * span * SECOND)
        revisions = max(len({row.revision for row in rows}), 1)
        width = _width(request.seconds, span, MOST_POINTS // min(revisions, MOST_POINTS)) * SECOND
        gathered: dict[tuple[int, int], list[Counts]] = {}
        for row in rows:
            gathered.setdefault((row.at // width * width, row.revision), []).append(counts_of(row))
        points = [_point(at, width, revision, total(parts)) for (at, revision), parts in sorted(gathered.items())]
        return Traffic(points=tuple(points[-MOST_POINTS:]))


def forget(work: UnitOfWork, now: Moment) -> bool:
    """Windows that are too old; whether there are more of them."""
    fine = store.forget_before(work, FINE, Moment(now - FINE_FOR), AT_ONCE)
    coarse = store.forget_before(work, COARSE, Moment(now - COARSE_FOR), AT_ONCE)
    return AT_ONCE in (fine, coarse)


def _width(seconds: int, span: int, points: int) -> int:
    """The seconds that one point stands for: whole spans, so that so many points are enough."""
    spans = -(-seconds // span) + 1  # one more, because time does not begin with a span
    return -(-spans // max(points, 1)) * span


def _point(at: int, width: int, revision: int, counts: Counts) -> TrafficPoint:
    return TrafficPoint(
        at=Moment(at),
        seconds=width / SECOND,
        revision=revision,
        requests=counts.requests,
        errors=counts.errors,
        shed=counts.shed,
        rows=counts.rows,
        batches=counts.batches,
        p50=counts.milliseconds(0.5),
        p90=counts.milliseconds(0.9),
        p99=counts.milliseconds(0.99),
        compared=counts.compared,
        differed=counts.differed,
    )
