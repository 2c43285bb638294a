"""The runs table: what it asks for, and its rows. The whole state of the table stands in its address."""

from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.tracking.operations.runs import LIST_KEYS, READ_CURVES, SEARCH_RUNS
from falaj.web.drawing.sparklines import sparkline
from falaj.web.experiments import columns
from falaj.web.experiments.columns import Column
from falaj.web.experiments.numbers import duration_text, moment_of, number_text
from falaj.web.forms import checked
from falaj.web.visits import Visit

AT_ONCE: Final = 100
SPARK_POINTS: Final = 24
MOST_SPARKS: Final = 4
POINTS_READ: Final = 50_000  # about a third of a second
KEPT: Final = ("filter", "order", "state")
TONES: Final = {"RUNNING": "accent", "SCHEDULED": "", "FINISHED": "good", "FAILED": "bad", "KILLED": "warn"}


@value
class Cell:
    """`text` is None where the run has nothing; `title` is the whole of what `text` shortens."""

    column: Column
    text: str | None
    title: str = ""
    spark: Markup = Markup("")


@value
class Row:
    id: str
    name: str
    status: str
    tone: str
    deleted: bool
    nested: bool
    started: Moment
    took: str
    user: str
    cells: tuple[Cell, ...]
    best: str = ""


def goes_on(visit: Visit) -> bool:
    """Whether this is asked by the table itself, for the rows behind those it has."""
    return "hx-request" in visit.http.headers and bool(visit.query.get("cursor"))


def search(visit: Visit) -> Any:
    asked = {name: visit.query[name] for name in ("filter", "state", "cursor") if visit.query.get(name)}
    order = [visit.query["order"]] if visit.query.get("order") else []
    number = visit.path["experiment"]
    return checked(SEARCH_RUNS, {"project": visit.project, "experiments": [number], "order": order, "limit": AT_ONCE, **asked})


def keys(visit: Visit) -> Any:
    return checked(LIST_KEYS, {"project": visit.project, "experiments": [visit.path["experiment"]]})


def curves(visit: Visit) -> Any:
    """A few points of what the metric columns show, or None where there is nothing to show.

    All points of a curve are read to find those few. Where that would take long, the longest runs go without.
    """
    found = visit.loaded["runs"]
    wanted = [column.name for column in _columns(visit) if column.kind == "metrics"][:MOST_SPARKS]
    if found is None or not found.items or not wanted:
        return None
    long = {run.info.id: _length(run, wanted) for run in found.items}
    most = POINTS_READ if sum(long.values()) <= POINTS_READ else POINTS_READ // len(long)
    if not (runs := [run for run, length in long.items() if 0 < length <= most]):
        return None
    return checked(READ_CURVES, {"project": visit.project, "runs": runs, "keys": wanted, "points": SPARK_POINTS})


def _length(run: Any, names: list[str]) -> int:
    """How many points a run has of these metrics, where it logged one at each step, as most do."""
    return sum(max(metric.step, 0) + 1 for metric in run.metrics if metric.key in names)


def drawn(visit: Visit) -> dict[str, Any]:
    """Everything the template shows."""
    found, shown = visit.loaded["runs"], _columns(visit)
    asked = [(name, visit.query[name]) for name in KEPT if visit.query.get(name)]
    state = [*asked, *(("col", column.key) for column in shown)]
    cursor = found.next if found is not None else ""
    fixed = (columns.RUN_NAME, columns.STATUS, columns.STARTED)
    headers = {column.key: columns.header(column, visit.query.get("order", "")) for column in (*fixed, *shown)}
    return {
        "rows": _rows(visit, shown),
        "columns": shown,
        "headers": headers,
        "orders": {key: urlencode(_ordered(state, head.order)) for key, head in headers.items() if head.order},
        "choices": columns.by_kind(visit.loaded["keys"]),
        "following": urlencode([*state, ("cursor", cursor)]) if cursor else "",
        "beginning": urlencode(state),
        "goes_on": goes_on(visit),
        "chosen": {column.key for column in shown},
        "sortable": [column for column in (*fixed, *shown) if column.words],
    }


def _ordered(state: list[tuple[str, str]], order: str) -> list[tuple[str, str]]:
    return [*(pair for pair in state if pair[0] != "order"), ("order", order)]


def _columns(visit: Visit) -> list[Column]:
    if asked := columns.chosen(visit.asked("col")):
        return asked
    found = visit.loaded["runs"]
    return columns.worth_seeing(found.items) if found is not None else []


def _rows(visit: Visit, shown: list[Column]) -> list[Row]:
    found = visit.loaded["runs"]
    if found is None:
        return []
    members = visit.loaded["members"].items if visit.loaded["members"] is not None else ()
    names = {member.id: member.name for member in members}
    sparks = _sparks(visit)
    made = [_row(run, shown, sparks, names) for run in found.items]
    return made if visit.query.get("cursor") else _with_best(made, shown, visit.query.get("order", ""))


def _row(run: Any, shown: list[Column], sparks: dict[tuple[str, str], Markup], names: dict[str, str]) -> Row:
    info = run.info
    held = {
        "metrics": {metric.key: number_text(metric.value) for metric in run.metrics},
        "params": {param.key: param.value for param in run.params},
        "tags": {tag.key: tag.value for tag in run.tags},
    }
    exact = {metric.key: repr(metric.value) for metric in run.metrics}
    cells = []
    for column in shown:
        text = held[column.kind].get(column.name)
        title = exact.get(column.name, "") if column.is_number else (text or "")[:300]
        spark = sparks.get((info.id, column.name), Markup("")) if column.is_number else Markup("")
        cells.append(Cell(column=column, text=None if text is None else text[:80], title=title, spark=spark))
    return Row(
        id=info.id,
        name=info.name or info.id[:12],
        status=info.status,
        tone=TONES[info.status],
        deleted=info.deleted,
        nested="mlflow.parentRunId" in held["tags"],
        started=moment_of(info.started),
        took=duration_text(None if info.ended is None else info.ended - info.started),
        user=info.user or names.get(info.created_by, ""),
        cells=tuple(cells),
    )


def _with_best(made: list[Row], shown: list[Column], order: str) -> list[Row]:
    """Where the table is ordered by a metric, the first run is the best by it, and says so."""
    column = next((each for each in shown if each.is_number and columns.header(each, order).sorted != "none"), None)
    if column is None or not made:
        return made
    has_it = any(cell.column == column and cell.text not in (None, "NaN") for cell in made[0].cells)
    words = "highest" if columns.header(column, order).sorted == "descending" else "lowest"
    return [replace(made[0], best=f"{words} {column.name}"), *made[1:]] if has_it else made


def _sparks(visit: Visit) -> dict[tuple[str, str], Markup]:
    found = visit.loaded["curves"]
    return {(curve.run, curve.key): sparkline(curve.values) for curve in found.items if curve.total > 1} if found else {}
