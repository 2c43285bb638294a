"""What runs measured: logged one by one or a thousand at once, read as histories and as curves."""

from dataclasses import replace
from typing import Annotated, Final

from falaj.api.mlflow.adapters import Document, Visit, adapt, nothing
from falaj.api.mlflow.bodies import body
from falaj.api.mlflow.quick_points import plain_batch
from falaj.api.mlflow.words import (
    DatasetDigest,
    DatasetName,
    Ids,
    ParamBodies,
    TagBodies,
    logged_model_of,
    params_of,
    run_of,
    tags_of,
)
from falaj.base.errors import Invalid
from falaj.base.pages import Cursor
from falaj.base.values import Items, Range, value
from falaj.tracking.operations import runs as ops
from falaj.tracking.operations.words import MOST_METRICS, Key, Metric, Milliseconds

LONGEST_CURVE: Final = 25_000
MOST_RUNS: Final = 100
LONGEST_INTERVAL: Final = 2500


@value
class Point(Metric):
    """A metric as clients send it: it may say which model it is about, and on which data."""

    model_id: str = ""
    dataset_name: DatasetName = ""
    dataset_digest: DatasetDigest = ""


@body
class LogMetric:
    run_id: str = ""
    run_uuid: str = ""
    key: Key
    value: float
    timestamp: Milliseconds
    step: Milliseconds = 0
    model_id: str = ""
    dataset_name: DatasetName = ""
    dataset_digest: DatasetDigest = ""


@body
class LogBatch:
    run_id: str = ""
    metrics: Annotated[tuple[Point, ...], Items(most=MOST_METRICS)] = ()
    params: ParamBodies = ()
    tags: TagBodies = ()


@body
class History:
    run_id: str = ""
    run_uuid: str = ""
    metric_key: Key
    page_token: Cursor = ""
    max_results: Annotated[int, Range(least=1, most=2**31)] = LONGEST_CURVE


@body
class Bulk:
    run_id: Ids = ()
    metric_key: Key
    max_results: Annotated[int, Range(least=1, most=2**31)] = LONGEST_CURVE


@body
class Interval:
    run_ids: Ids = ()
    metric_key: Key
    start_step: Milliseconds | None = None
    end_step: Milliseconds | None = None
    max_results: Annotated[int, Range(least=1, most=LONGEST_INTERVAL)] = LONGEST_INTERVAL


def _log_metric(sent: LogMetric, visit: Visit) -> ops.LogToRun:
    return ops.LogToRun(
        project=visit.project,
        run=run_of(sent.run_id or sent.run_uuid),
        metrics=(Metric(key=sent.key, value=sent.value, timestamp=sent.timestamp, step=sent.step),),
        model=logged_model_of(sent.model_id) if sent.model_id else "",
        dataset_name=sent.dataset_name,
        dataset_digest=sent.dataset_digest,
    )


def _log_batch(sent: LogBatch, visit: Visit) -> ops.LogToRun:
    """With the metrics about one thing, or nothing in particular; those about other things follow in `_log_more`."""
    run, params, tags = run_of(sent.run_id), params_of(sent.params), tags_of(sent.tags)
    points = _groups(sent.metrics)[0]
    if not points or not (points[0].model_id or points[0].dataset_name):
        return ops.LogToRun(project=visit.project, run=run, metrics=points, params=params, tags=tags)
    return replace(_about(points, run, visit.project), params=params, tags=tags)


def _log_more(sent: LogBatch, visit: Visit) -> tuple[ops.LogToRun, ...]:
    return tuple(_about(points, sent.run_id, visit.project) for points in _groups(sent.metrics)[1:])


def _groups(points: tuple[Point, ...]) -> list[tuple[Point, ...]]:
    """By what they are about; nearly always one."""
    if not any(point.model_id or point.dataset_name for point in points):
        return [points]
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.model_id, point.dataset_name, point.dataset_digest), []).append(point)
    return [tuple(group) for group in groups.values()]


def _about(points: tuple[Point, ...], run: str, project: str) -> ops.LogToRun:
    first = points[0]
    return ops.LogToRun(
        project=project,
        run=run,
        metrics=points,
        model=logged_model_of(first.model_id) if first.model_id else "",
        dataset_name=first.dataset_name,
        dataset_digest=first.dataset_digest,
    )


def _history(sent: History, visit: Visit) -> ops.ReadHistory:
    return ops.ReadHistory(
        project=visit.project,
        run=run_of(sent.run_id or sent.run_uuid),
        key=sent.metric_key,
        limit=min(sent.max_results, LONGEST_CURVE),
        cursor=sent.page_token,
    )


def _points(page: ops.History) -> Document:
    document: Document = {
        "metrics": [
            {"key": point.key, "value": point.value, "timestamp": point.timestamp, "step": point.step} for point in page.items
        ]
    }
    return document | ({"next_page_token": page.next} if page.next else {})


def _bulk(sent: Bulk, visit: Visit) -> ops.ReadCurves:
    points = max(2, min(sent.max_results, LONGEST_CURVE))
    return ops.ReadCurves(project=visit.project, runs=_runs(sent.run_id, "run_id"), keys=(sent.metric_key,), points=points)


def _interval(sent: Interval, visit: Visit) -> ops.ReadCurves:
    first, last = sent.start_step, sent.end_step
    if (first is None) != (last is None):
        raise Invalid("Give both start_step and end_step, or neither.")
    if first is not None and last is not None and first > last:
        raise Invalid(f"start_step {first} must not be greater than end_step {last}.")
    return ops.ReadCurves(
        project=visit.project,
        runs=_runs(sent.run_ids, "run_ids"),
        keys=(sent.metric_key,),
        points=max(2, sent.max_results),
        first_step=first,
        last_step=last,
    )


def _runs(ids: tuple[str, ...], name: str) -> tuple[str, ...]:
    if not 1 <= len(ids) <= MOST_RUNS:
        raise Invalid(f"{name} must name from 1 to {MOST_RUNS} runs, not {len(ids)}.")
    return tuple(run_of(id, name) for id in ids)


def _curves(found: ops.Curves) -> Document:
    return {
        "metrics": [
            {"key": curve.key, "value": point, "timestamp": timestamp, "step": step, "run_id": curve.run}
            for curve in found.items
            for step, timestamp, point in zip(curve.steps, curve.timestamps, curve.values, strict=True)
        ]
    }


_RUNS: Final = "/api/2.0/mlflow/runs"
_METRICS: Final = "/api/2.0/mlflow/metrics"
ROUTES: Final = (
    ("POST", f"{_RUNS}/log-metric", adapt(ops.LOG_TO_RUN, LogMetric, _log_metric, nothing)),
    ("POST", f"{_RUNS}/log-batch", adapt(ops.LOG_TO_RUN, LogBatch, _log_batch, nothing, more=_log_more, quick=plain_batch)),
    ("GET", f"{_METRICS}/get-history", adapt(ops.READ_HISTORY, History, _history, _points)),
    ("GET", f"{_METRICS}/get-history-bulk", adapt(ops.READ_CURVES, Bulk, _bulk, _curves)),
    ("GET", f"{_METRICS}/get-history-bulk-interval", adapt(ops.READ_CURVES, Interval, _interval, _curves)),
)
