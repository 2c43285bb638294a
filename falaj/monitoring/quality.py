"""How good predictions were, where the truth is known; and how good they probably were, where it is not yet.

Sealed batches are opened before the answer's own transaction, one at a time, the newest first, and no more rows than are
stated. What is told are figures over rows, and groups that have rows enough to be judged: a plain read.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import DAY, Moment
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.mentions import split
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.governance.gate import Gatekeeper
from falaj.governance.projects.store import project_by_id
from falaj.monitoring.choosing import read_by
from falaj.monitoring.estimating import MOST_WINDOWS, Estimating, Unlabelled
from falaj.monitoring.figuring import LEAST_ROWS, begins, buckets_of
from falaj.monitoring.joined import Joined
from falaj.monitoring.keeping import source_read
from falaj.monitoring.labels import LabelService
from falaj.monitoring.operations import labels as declared
from falaj.monitoring.operations.labels import Bucket, Figure, Quality, ReadQuality
from falaj.monitoring.sealing import inside
from falaj.monitoring.store import labels as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.views import required_endpoint
from falaj.statistics.estimation import ASSUMED

MOST_ROWS: Final = 100_000
MOST_BATCHES: Final = 2_000
MOST_BUCKETS: Final = 1_000
ESTIMATED: Final = "estimated accuracy"


@value
class Looked:
    """What there was to be figured: `left_out` rows are in older batches than those that were opened."""

    buckets: tuple[Bucket, ...]
    left_out: int
    remarks: tuple[str, ...]


class QualityService:
    """Thread-safe."""

    def __init__(self, database: Database, labels: LabelService, estimating: Estimating, gate: Gatekeeper) -> None:
        self._database, self._labels, self._estimating, self._sight = database, labels, estimating, Sight(gate)

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.READ_QUALITY, self.look, self.tell)]

    def look(self, context: Context, request: ReadQuality) -> Looked:
        endpoint = self._database.read(lambda work: required_endpoint(replace(context, work=work), request.endpoint))
        since = Moment(max(0, context.now - request.days * DAY))
        rows, left_out = self._database.read(lambda work: self._rows(work, endpoint, since, request, context.now))
        if request.slices:
            revisions = {row.revision for row in rows}
            self._database.read(
                lambda work: refuse_hidden(replace(context, work=work), self._sight, endpoint, revisions, request.slices)
            )
        buckets = buckets_of(rows, request.span, request.slices, request.positive)
        estimates = self._database.read(
            lambda work: self._estimates(replace(context, work=work), endpoint, since, request, buckets)
        )
        ordered = _together(buckets, estimates)
        return Looked(
            buckets=tuple(ordered[:MOST_BUCKETS]),
            left_out=left_out,
            remarks=_remarks(request, rows, buckets, estimates, len(ordered) - MOST_BUCKETS),
        )

    def tell(self, context: Context, request: ReadQuality, looked: Looked) -> Quality:
        endpoint = required_endpoint(context, request.endpoint)
        known = store.labelling(context.work, endpoint.id)
        return Quality(
            items=looked.buckets,
            labels=0 if known is None else known.taken,
            unknown=0 if known is None else known.unknown,
            left_out=looked.left_out,
            remarks=looked.remarks,
        )

    def buckets(self, context: Context, endpoint: Found, request: ReadQuality, confidence: float) -> list[Bucket]:
        """As the platform reads them, with intervals of another confidence: of calls that were drawn alone, as wherever
        revisions are judged."""
        since = Moment(max(0, context.now - request.days * DAY))
        rows, _ = self._rows(context.work, endpoint, since, request, context.now)
        drawn = [row for row in rows if row.drawn]
        found = buckets_of(drawn, request.span, request.slices, request.positive, confidence)
        return _together(found, self._estimates(context, endpoint, since, request, found, confidence))

    def _rows(
        self, work: UnitOfWork, endpoint: Found, since: Moment, request: ReadQuality, now: Moment
    ) -> tuple[list[Joined], int]:
        """On one snapshot, for batches are put together now and then. Without what nobody asked for: groups take most of the
        room."""
        project = project_by_id(work, endpoint.project)
        if project is None:
            return [], 0
        found: list[Joined] = []
        looked = 0
        for batch in store.batches_since(work, endpoint.id, since, MOST_BATCHES):
            if looked + batch.rows > MOST_ROWS:
                break
            looked += batch.rows
            for row in self._labels.rows(inside(work, project, endpoint.zone, now), endpoint, [batch]):
                if row.at >= since and request.revision in (0, row.revision):
                    kept = {name: row.groups[name] for name in request.slices if name in row.groups}
                    found.append(replace(row, groups=kept))
        return found, max(0, store.rows_since(work, endpoint.id, since) - looked)

    def _estimates(
        self,
        context: Context,
        endpoint: Found,
        since: Moment,
        request: ReadQuality,
        buckets: Sequence[Bucket],
        confidence: float = 0.95,
    ) -> list[Bucket]:
        """For spans in which no truth is known."""
        known = {(one.revision, begins(one.at, request.span)) for one in buckets if one.kind}

        def is_wanted(revision: int, at: int) -> bool:
            return request.revision in (0, revision) and (revision, begins(at, request.span)) not in known

        parts: dict[tuple[int, int], list[Unlabelled]] = {}
        for window in self._estimating.windows(context, endpoint, since, is_wanted):
            parts.setdefault((window.revision, begins(window.at, request.span)), []).append(window)
        found = [self._estimate(context, endpoint, request, some, confidence) for some in parts.values()]
        return [one for one in found if one is not None]

    def _estimate(
        self, context: Context, endpoint: Found, request: ReadQuality, windows: Sequence[Unlabelled], confidence: float
    ) -> Bucket | None:
        first = min(windows, key=lambda one: one.at)
        counts = [sum(some) for some in zip(*(one.counts for one in windows), strict=True)]
        estimate = self._estimating.of(context, endpoint, first.revision, first.column, counts, confidence)
        if estimate is None or estimate.rows < LEAST_ROWS:
            return None
        one, at = estimate.accuracy, begins(first.at, request.span) or first.at
        figure = Figure(name=ESTIMATED, at=one.at, low=one.low, high=one.high, rows=estimate.rows)
        return Bucket(revision=first.revision, at=Moment(at), rows=estimate.rows, kind="", figures=(figure,))


def refuse_hidden(context: Context, sight: Sight, endpoint: Found, revisions: Collection[int], slices: Sequence[str]) -> None:
    """Groups are named by what a column holds: what a dataset keeps from the reader, a slice keeps from him too, be it what
    a revision is held against, or was to be, or what its model was made from."""
    work, project = context.work, context.required_project.id
    versions = {row.version_id for row in endpoint_store.revisions_of(work, endpoint.id, revisions).values()}
    names = {name for version in versions for name, _ in read_by(work, project, version)}
    if (monitor := monitor_store.find(work, endpoint.id)) is not None:
        held = monitor_store.references_of(work, [monitor.id]).get(monitor.id, ())
        names |= {source_read(row).rpartition("@")[0] for row in held} | {split(read_wishes(monitor.wishes).reference)[0]}
    for name in sorted(names):
        if (dataset := dataset_store.find(work, project, name)) is not None:
            sight.refuse_keys(context, dataset, slices, "comparing groups")


def _together(buckets: Sequence[Bucket], estimates: Sequence[Bucket]) -> list[Bucket]:
    """The newest first. A span of which only values are known has its estimate beside them."""
    found = {(one.revision, one.at): one for one in buckets}
    for one in estimates:
        there = found.get((one.revision, one.at))
        found[one.revision, one.at] = one if there is None else replace(there, figures=(*there.figures, *one.figures))
    return sorted(found.values(), key=lambda one: (-one.at, -one.revision))


def _remarks(
    request: ReadQuality, rows: Collection[Joined], buckets: Sequence[Bucket], estimates: Sequence[Bucket], over: int
) -> tuple[str, ...]:
    said = []
    if estimates:
        said.append(
            f"Where no truth is known, accuracy is estimated from how sure the model was, in at most {MOST_WINDOWS} windows of "
            f"each revision, assuming that {ASSUMED}."
        )
    told = sum(row.truth is not None and row.said.answer is not None for row in rows)
    if lost := told - sum(one.rows for one in buckets if one.kind):
        said.append(
            f"{lost:,} truths are no numbers where the model answers with numbers, and say nothing of its quality; where those "
            "are how likely a class is, say which with `positive`."
        )
    if any(0 < one.rows < LEAST_ROWS for one in buckets):
        said.append(f"Figures of fewer than {LEAST_ROWS} rows are too few to be told: they would be what single rows have.")
    missing = [name for name in request.slices if rows and not any(name in row.groups for row in rows)]
    if missing:
        said.append(
            f"No logged input tells groups apart by {', '.join(missing)}: it is masked, has another name, or is no class."
        )
    few = [
        name
        for name in request.slices
        if name not in missing and not any(gap.slice == name for one in buckets for gap in one.gaps)
    ]
    if few and any(one.kind for one in buckets):
        said.append(f"By {', '.join(few)} there are no two groups with rows enough to be compared.")
    if over > 0:
        said.append(f"{over} older spans are not told; ask for fewer days, or for longer spans.")
    return tuple(said)
