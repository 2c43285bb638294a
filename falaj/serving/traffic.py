"""What an endpoint's revisions did of late, as points that can be drawn."""

from collections import Counter
from typing import Final

from falaj.base.clock import HOUR, SECOND, Moment
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, UnitOfWork
from falaj.serving.counts import Counts, counts_of, total
from falaj.serving.loads import load_of, sentence
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.endpoints import ServingHost, Traffic, TrafficPoint
from falaj.serving.store import planes as plane_store
from falaj.serving.store import windows as store
from falaj.serving.store.windows import COARSE, FINE, of_pinned
from falaj.serving.views import HEARD_WITHIN, required_endpoint

MOST_POINTS: Final = 200
MOST_HOSTS: Final = 20
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
        begin = since // (span * SECOND) * span * SECOND
        drawn = store.since(context.work, endpoint.id, span, begin)
        pinned = store.since(context.work, endpoint.id, of_pinned(span), begin)
        rows = [*drawn, *pinned]
        revisions = max(len({row.revision for row in rows}), 1)
        width = _width(request.seconds, span, MOST_POINTS // min(revisions, MOST_POINTS)) * SECOND
        gathered: dict[tuple[int, int], list[Counts]] = {}
        chosen: Counter[tuple[int, int]] = Counter()
        for row in rows:
            gathered.setdefault((row.at // width * width, row.revision), []).append(counts_of(row))
        for row in pinned:
            chosen[row.at // width * width, row.revision] += row.requests
        points = [
            _point(at, width, revision, total(parts), chosen[at, revision])
            for (at, revision), parts in sorted(gathered.items())
        ]
        return Traffic(points=tuple(points[-MOST_POINTS:]), hosts=_hosts(context.work, endpoint.zone, context.now))


def _hosts(work: UnitOfWork, zone: str, now: Moment) -> tuple[ServingHost, ...]:
    planes = plane_store.in_zones(work, {zone}, heard_since=Moment(now - HEARD_WITHIN)).get(zone, [])
    told = [(plane, load) for plane in planes if (load := load_of(plane)) is not None]
    busiest = sorted(told, key=lambda one: -one[1].busy)[:MOST_HOSTS]
    return tuple(
        ServingHost(plane=plane.name, workers=plane.workers, load=load, sentence=sentence(plane, load))
        for plane, load in busiest
    )


def forget(work: UnitOfWork, now: Moment) -> bool:
    """Windows that are too old; whether there are more of them."""
    kept = {FINE: FINE_FOR, COARSE: COARSE_FOR}
    spans = [(one, longest) for span, longest in kept.items() for one in (span, of_pinned(span))]
    return AT_ONCE in [store.forget_before(work, span, Moment(now - longest), AT_ONCE) for span, longest in spans]


def _width(seconds: int, span: int, points: int) -> int:
    """The seconds that one point stands for: whole spans, so that so many points are enough."""
    spans = -(-seconds // span) + 1  # one more, because time does not begin with a span
    return -(-spans // max(points, 1)) * span


def _point(at: int, width: int, revision: int, counts: Counts, pinned: int) -> TrafficPoint:
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
        pinned=pinned,
        unlogged=counts.unlogged,
    )
