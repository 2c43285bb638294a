"""What Prometheus is told of monitors: read in one go, remembered for a moment, and shown by the project.

Who scrapes is told of those projects whose monitors they may read, and of no others: names of columns belong to a project.
Counts are kept in the database, so that they do not begin anew with a process, and any control plane tells the same.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.governance.projects.store import project_names
from falaj.monitoring import metrics_names as names
from falaj.monitoring.operations.monitors import LIST_MONITORS, ListMonitors
from falaj.monitoring.operations.words import Told
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store import service as store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import QUIET_AFTER, missing_rises, read_wishes, rows_drift, told_of

FRESH_FOR: Final = 10 * SECOND
MOST_COLUMNS: Final = 50  # of a revision, the furthest first
_STANDING_FOR: Final = 10 * MINUTE  # what was looked at longer ago is not told as if it were so


@value
class Sample:
    """`labels` are all but the project, which the metric has first."""

    metric: names.Metric
    project: str
    labels: tuple[str, ...]
    number: float


class MonitorMetrics:
    """Thread-safe."""

    def __init__(self, gate: Gatekeeper) -> None:
        self._gate = gate
        self._lock = Lock()
        self._read: tuple[Moment, tuple[Sample, ...]] | None = None

    def exposition(self, context: Context) -> bytes:
        """In Prometheus' text format; of nothing, each metric with its help alone."""
        samples = self._samples(context.work, context.now)
        allowed = {name for name in {one.project for one in samples} if self._may_read(context, name)}
        return _written(one for one in samples if one.project in allowed)

    def _samples(self, work: UnitOfWork, now: Moment) -> tuple[Sample, ...]:
        with self._lock:  # several that ask at once wait for one reading
            if self._read is None or now - self._read[0] >= FRESH_FOR:
                self._read = now, samples_of(work, now)
            return self._read[1]

    def _may_read(self, context: Context, project: str) -> bool:
        try:
            self._gate.authorise(context.work, context.identity, LIST_MONITORS, ListMonitors(project=project))
        except FalajError:
            return False
        return True


def samples_of(work: UnitOfWork, now: Moment) -> tuple[Sample, ...]:
    """A query for each table, however many monitors there are."""
    monitors, posts = {row.id: row for row in monitor_store.every(work)}, store.all_posts(work)
    projects = project_names(work, {row.project for row in (*monitors.values(), *posts)})
    endpoints = store.endpoint_names(work)
    of = {id: (projects[row.project], endpoints[id]) for id, row in monitors.items() if id in endpoints}
    windows = [row for row in store.last_windows(work) if row.monitor in of]
    found = [
        *_of_windows(windows, monitors, of, now),
        *_ages(windows, monitors, of, now),
        *_totals(store.all_totals(work), of),
        *_alerts(store.open_by_kind(work), of),
        *_posts(posts, projects),
        *_objectives(store.all_standings(work), of, now),
    ]
    return tuple(found)


_Names = Mapping[str, tuple[str, str]]  # of monitors: the names of project and endpoint


def _of_windows(windows: Iterable[Found], monitors: Mapping[str, Found], of: _Names, now: Moment) -> Iterator[Sample]:
    """Of revisions that get traffic: what is long over is not told as if it were so."""
    for row in windows:
        length = read_wishes(monitors[row.monitor].wishes).window * SECOND
        if now - row.until > QUIET_AFTER * length + MINUTE:
            continue
        (project, endpoint), revision, told = of[row.monitor], str(row.revision), told_of(row.found)
        evidence = max((one.evidence for one in told), default=0.0)
        drifting, rises = sum(one.drifting for one in told), missing_rises(row.found)
        yield Sample(metric=names.EVIDENCE_RATIO, project=project, labels=(endpoint, revision), number=evidence)
        yield Sample(metric=names.DRIFTING_COLUMNS, project=project, labels=(endpoint, revision), number=drifting)
        rows = int(rows_drift(row.standing))
        yield Sample(metric=names.ROWS_DRIFTING, project=project, labels=(endpoint, revision), number=rows)
        for one in _furthest(told):
            labels = (endpoint, revision, one.column)
            yield Sample(metric=names.DRIFT_EFFECT, project=project, labels=labels, number=one.effect)
            if math.isnan(one.missing):  # of what is private
                continue
            yield Sample(metric=names.MISSING_SHARE, project=project, labels=labels, number=one.missing)
            yield Sample(metric=names.MISSING_RISE, project=project, labels=labels, number=rises.get(one.column, 0.0))


def _furthest(told: Sequence[Told]) -> Collection[Told]:
    """Half of what there is room for are those that are far, and half those that are missing."""
    if len(told) <= MOST_COLUMNS:
        return told
    missing = sorted(told, key=lambda one: 0.0 if math.isnan(one.missing) else -one.missing)[: MOST_COLUMNS // 2]
    return {one.column: one for one in (*told[: MOST_COLUMNS // 2], *missing)}.values()


def _ages(windows: Iterable[Found], monitors: Mapping[str, Found], of: _Names, now: Moment) -> Iterator[Sample]:
    """Where none was decided on yet, since the monitor was set."""
    ends: dict[str, int] = {}
    for row in windows:
        ends[row.monitor] = max(row.until, ends.get(row.monitor, 0))
    for id, (project, endpoint) in of.items():
        age = max(0, now - ends.get(id, monitors[id].changed)) / SECOND
        yield Sample(metric=names.WINDOW_AGE, project=project, labels=(endpoint,), number=age)


def _totals(totals: Iterable[Found], of: _Names) -> Iterator[Sample]:
    for row in totals:
        if row.monitor in of:
            (project, endpoint), revision = of[row.monitor], str(row.revision)
            yield Sample(metric=names.ROWS, project=project, labels=(endpoint, revision), number=row.rows)
            yield Sample(metric=names.ROWS_MISSED, project=project, labels=(endpoint, revision), number=row.missed)


def _alerts(counts: Iterable[Found], of: _Names) -> Iterator[Sample]:
    """None is told as none, so that an alert that is over is seen to be over."""
    found = {(row.monitor, row.kind, row.severity): int(row.number) for row in counts}
    for id, (project, endpoint) in of.items():
        for kind, severity in product(names.KINDS, names.SEVERITIES):
            number = found.get((id, kind, severity), 0)
            yield Sample(metric=names.ALERTS_OPEN, project=project, labels=(endpoint, kind, severity), number=number)


def _posts(rows: Sequence[Found], projects: Mapping[str, str]) -> Iterator[Sample]:
    """Of a project that sent nothing yet, too: a rate needs a beginning."""
    known = {row.project: {"sent": row.sent, "failed": row.failed, "given-up": row.given_up} for row in rows}
    for id, name in projects.items():
        for outcome in names.OUTCOMES:
            number = known[id][outcome] if id in known else 0
            yield Sample(metric=names.ALERT_POSTS, project=name, labels=(outcome,), number=number)


def _objectives(standings: Iterable[Found], of: _Names, now: Moment) -> Iterator[Sample]:
    for row in standings:
        if row.monitor not in of or now - row.at > _STANDING_FOR:
            continue
        project, endpoint = of[row.monitor]
        for one in json.loads(row.told):
            labels = (endpoint, one["name"])
            yield Sample(metric=names.BUDGET_LEFT, project=project, labels=labels, number=one["left"])
            for seconds, rate in one["rates"].items():
                window = names.WINDOWS[int(seconds)]
                yield Sample(metric=names.BURN_RATE, project=project, labels=(*labels, window), number=rate)


def _written(samples: Iterable[Sample]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Told(list(samples)))
    return generate_latest(registry)


class _Told(Collector):
    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        for metric in names.METRICS:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            for one in self._samples:
                if one.metric is metric:
                    family.add_metric((one.project, *one.labels), one.number)
            yield family
