"""What a script logs while it runs, and the curves that come of it."""

from contextlib import closing
from typing import Final

from falaj.base.errors import Invalid, NotFound, TooLarge
from falaj.base.pages import cursor_after, read_cursor
from falaj.base.values import Nothing
from falaj.database.work import Context
from falaj.tracking.lookups import find_place, run_to_write
from falaj.tracking.models.store import find_model
from falaj.tracking.operations import runs as declared
from falaj.tracking.operations.words import LONGEST_NAME, Metric, Param, Tag
from falaj.tracking.store import curves as reading
from falaj.tracking.store import metrics as store
from falaj.tracking.store.digests import metric_number, scope_of
from falaj.tracking.store.metrics import Point
from falaj.tracking.store.runs import add_params, rename_run, set_tags
from falaj.tracking.thinning import thinned

RUN_NAME: Final = "mlflow.runName"
MOST_POINTS_READ: Final = 5_000_000
MOST_POINTS_SHOWN: Final = 1_000_000
LONGEST_QUOTE: Final = 100
NOTHING: Final = Nothing()


def log(context: Context, request: declared.LogToRun) -> Nothing:
    work, project = context.work, context.required_project.id
    place = run_to_write(context, request.run)
    scope = scope_of(project, place.experiment)
    if request.metrics:
        store.add_metrics(work, place.number, scope, request.metrics)
        if request.model:
            _log_about_model(context, place.number, request)
    if request.params:
        log_params(context, place.number, scope, request.params)
    if request.tags:
        log_tags(context, place.number, scope, request.tags)
    return NOTHING


def log_params(context: Context, run: int, scope: int, given: tuple[Param, ...]) -> None:
    """A param is written once: it says what the run was, and must not say something else later."""
    wanted: dict[str, str] = {}
    for param in given:
        if wanted.setdefault(param.key, param.value) != param.value:
            raise Invalid(
                f"The param {param.key!r} is given twice in one request, as {_quoted(wanted[param.key])} and as "
                f"{_quoted(param.value)}; give it once."
            )
    for key, known in add_params(context.work, run, scope, wanted).items():
        if known != wanted[key]:
            raise Invalid(
                f"The param {key!r} was logged before as {_quoted(known)} and cannot change to {_quoted(wanted[key])}; "
                "log it under another key, use a tag, or begin another run."
            )


def log_tags(context: Context, run: int, scope: int, given: tuple[Tag, ...]) -> None:
    """The run's name and the tag that MLflow's clients keep it in stay the same; an empty name changes neither."""
    wanted = {tag.key: tag.value for tag in given}
    if RUN_NAME in wanted:
        if wanted[RUN_NAME]:
            rename_run(context.work, run, wanted[RUN_NAME][:LONGEST_NAME])
        else:
            del wanted[RUN_NAME]
    set_tags(context.work, run, scope, wanted)


def history(context: Context, request: declared.ReadHistory) -> declared.History:
    place = find_place(context, request.run)
    after = _point_behind(request.cursor) if request.cursor else None
    points = reading.history(context.work, place.number, request.key, after=after, limit=request.limit + 1)
    page = points[: request.limit]
    items = tuple(Metric(key=request.key, value=point.number, timestamp=point.at, step=point.step) for point in page)
    return declared.History(items=items, next=_cursor_behind(page[-1]) if len(points) > len(page) else "")


def curves(context: Context, request: declared.ReadCurves) -> declared.Curves:
    """Curves without points are left out."""
    runs = {find_place(context, run).number: run for run in dict.fromkeys(request.runs)}
    keys = {metric_number(key): key for key in dict.fromkeys(request.keys)}
    bounds = (request.first_step, request.last_step)
    totals = reading.count_points(context.work, list(runs), list(keys.values()), *bounds)
    shown = sum(min(total, request.points) for total in totals.values())
    if shown > MOST_POINTS_SHOWN or sum(totals.values()) > MOST_POINTS_READ:
        raise TooLarge(
            f"These curves have {sum(totals.values()):,} points, of which {shown:,} are asked for, and at most "
            f"{MOST_POINTS_READ:,} and {MOST_POINTS_SHOWN:,} are possible; ask for fewer runs, metrics, steps or points."
        )
    found: dict[tuple[int, int], declared.Curve] = {}
    with closing(reading.points(context.work, list(runs), list(keys.values()), *bounds)) as rows:
        for (run, metric), total in sorted(totals.items()):
            kept = [Point._make(row[2:]) for row in thinned(rows, total, request.points)]
            found[run, metric] = _curve(runs[run], keys[metric], kept, total)
    return declared.Curves(items=tuple(found[at] for run in runs for metric in keys if (at := (run, metric)) in found))


def _curve(run: str, key: str, points: list[Point], total: int) -> declared.Curve:
    return declared.Curve(
        run=run,
        key=key,
        steps=tuple(point.step for point in points),
        timestamps=tuple(point.at for point in points),
        values=tuple(point.number for point in points),
        total=total,
    )


def _log_about_model(context: Context, run: int, request: declared.LogToRun) -> None:
    if find_model(context.work, context.required_project.id, request.model) is None:
        raise NotFound(f"The project has no logged model {request.model}.")
    store.add_model_metrics(
        context.work,
        run,
        request.model,
        dataset_name=request.dataset_name,
        dataset_digest=request.dataset_digest,
        given=request.metrics,
    )


def _quoted(value: str) -> str:
    return repr(value) if len(value) <= LONGEST_QUOTE else f"{value[:LONGEST_QUOTE]!r}… ({len(value)} characters)"


def _cursor_behind(point: Point) -> str:
    return cursor_after(point.step, point.at, point.value.hex(), int(point.nan))


def _point_behind(cursor: str) -> Point:
    step, at, number, nan = read_cursor(cursor, int, int, str, int)
    try:
        value = float.fromhex(str(number))
    except (ValueError, OverflowError):
        value = float("nan")
    if value != value or nan not in (0, 1):
        raise Invalid("This cursor was not given out by this listing; start again without one.")
    return Point(int(step), int(at), value, bool(nan))
