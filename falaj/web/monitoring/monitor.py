"""One endpoint's drift: what its page asks for, the heat map of its features, and how the one that was chosen is spread."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup

from falaj.base.clock import MINUTE, SECOND
from falaj.datasets.operations.datasets import LIST_DATASETS
from falaj.monitoring.operations.alerts import LIST_ALERTS, ListChannels
from falaj.monitoring.operations.monitors import (
    APPLY_MONITOR,
    READ_COLUMN,
    READ_WINDOWS,
    SHOW_MONITOR,
    Monitor,
    OneMonitor,
    Spread,
    Window,
    Wishes,
)
from falaj.monitoring.operations.objectives import READ_OBJECTIVES
from falaj.monitoring.operations.words import Told
from falaj.web.drawing.heatmaps import Cell, Row, heat_map, swatch
from falaj.web.drawing.overlays import Pair, overlay
from falaj.web.forms import checked
from falaj.web.monitoring.fields import rows_shown
from falaj.web.monitoring.words import (
    DISTANCES,
    PARTS,
    counted,
    foremost,
    health_of,
    objective_words,
    part,
    sentence,
    source_words,
)
from falaj.web.visits import Visit

EVERY: Final = 15  # seconds between looks; a cell of several windows changes as much more rarely
MOST_CELLS: Final = 60
MOST_FEATURES: Final = 20
SPANS: Final = ((60, "60 windows"), (300, "300"), (900, "900"))  # windows; more than the cells are put together
USUAL_FLOOR: Final = 0.1  # to colour by, where every distance matters
MOST_ALERTS: Final = 10
LIVE: Final = "now"  # the field of the query by which the page's script asks for what changes alone


# What is asked for


def named(visit: Visit) -> dict[str, Any]:
    return {"project": visit.project, "endpoint": visit.path["endpoint"]}


def is_whole(visit: Visit) -> bool:
    """Not a look for news: those leave out what takes long, what changes rarely, and what leaves a trace."""
    return LIVE not in visit.query


def monitors(visit: Visit) -> list[OneMonitor]:
    """One, or none where nobody watches the endpoint: which is not the same as one that could not be read."""
    return [checked(SHOW_MONITOR, named(visit))]


def monitor_of(visit: Visit) -> Monitor | None:
    found: Monitor | None = next(iter((visit.loaded["watched"] or {}).values()), None)
    return found


def revision(visit: Visit) -> int:
    """The one that was asked for, where it is watched; 0 for the one with most traffic."""
    text = visit.query.get("revision", "")
    found = monitor_of(visit)
    return next((one.revision for one in found.watching if str(one.revision) == text), 0) if found is not None else 0


def span(visit: Visit) -> int:
    text = visit.query.get("windows", "")
    return next((windows for windows, _ in SPANS if str(windows) == text), SPANS[0][0])


def windows(visit: Visit) -> Any:
    if monitor_of(visit) is None:
        return None
    return checked(READ_WINDOWS, named(visit) | {"revision": revision(visit), "limit": span(visit)})


def column(visit: Visit) -> Any:
    """Reading one is put on record, so only the one that somebody chose is read."""
    chosen = visit.query.get("column", "")
    if not chosen or monitor_of(visit) is None or not is_whole(visit):
        return None
    return checked(READ_COLUMN, named(visit) | {"column": chosen, "revision": revision(visit)})


def alerts(visit: Visit) -> Any:
    return checked(LIST_ALERTS, named(visit) | {"which": "open", "limit": MOST_ALERTS})


def objectives(visit: Visit) -> Any:
    found = monitor_of(visit)
    return checked(READ_OBJECTIVES, named(visit)) if found is not None and found.wishes.objectives else None


def datasets(visit: Visit) -> Any:
    return checked(LIST_DATASETS, {"project": visit.project})


def channels(visit: Visit) -> ListChannels:
    return ListChannels(project=visit.project)


# What is made of it


def story(visit: Visit) -> dict[str, Any]:
    monitor = monitor_of(visit)
    told: Sequence[Window] = visit.loaded["windows"].items if visit.loaded["windows"] is not None else ()
    shown = visit.loaded["windows"].revision if visit.loaded["windows"] is not None else 0
    of = next((one for one in monitor.watching if one.revision == shown), foremost(monitor)) if monitor else None
    cells = together(told)
    rows = _rows(visit, monitor.wishes.floor or USUAL_FLOOR, told, cells) if monitor is not None else []
    known = visit.loaded["datasets"]
    ways = visit.loaded["channels"]
    return {
        "monitor": monitor,
        "unwatched": visit.loaded["watched"] == {},
        "health": health_of(monitor),
        "of": of,
        "sentence": sentence(monitor, of) if monitor is not None else "",
        "source": source_words(of.source) if of is not None else "",
        "map_rows": rows,
        "map": heat_map(rows, breaks=breaks([window for window, _ in cells])),
        "swatches": [swatch(level) for level in range(6)] + [swatch(3, alarm=True)],
        "windows_shown": told,
        "rows_seen": sum(one.rows for one in told),
        "rows_missed": sum(one.missed for one in told),
        "window_words": window_words(monitor.wishes.window) if monitor is not None else "",
        "spans": SPANS,
        "span": span(visit),
        "revision": revision(visit),
        "column_links": {one.column: link(visit, column=one.column) for one in of.columns} if of is not None else {},
        "span_links": {windows: link(visit, windows=windows) for windows, _ in SPANS},
        "revision_links": {one.revision: link(visit, revision=one.revision) for one in monitor.watching} if monitor else {},
        "live_address": link(visit, **{LIVE: 1}),
        "chosen": visit.query.get("column", ""),
        "overlay": _overlay(visit.loaded["spread"]),
        "distances": _distances(visit.loaded["spread"]),
        "every": EVERY * span(visit) // MOST_CELLS if monitor is not None else 0,
        "dataset_names": [one.name for one in known.items] if known is not None else [],
        "channel_names": [one.name for one in ways.items] if ways is not None else [],
        "objective_words": objective_words,
        "usual": Wishes(),
        "part": part,
        "counted": counted,
        **_form(visit, monitor),
        **PARTS,
    }


def _form(visit: Visit, monitor: Monitor | None) -> dict[str, Any]:
    form = visit.forms[APPLY_MONITOR.name]
    wishes = monitor.wishes if monitor is not None else None
    return {
        "action_rows": rows_shown(form, "do", len(wishes.actions) if wishes else 0),
        "objective_rows": rows_shown(form, "kind", len(wishes.objectives) if wishes else 0),
    }


def link(visit: Visit, **changed: Any) -> str:
    """To this page as the reader has it, but for what is changed; nothing is kept that is empty."""
    kept = {name: visit.query[name] for name in ("revision", "windows", "column", "span", "figure") if visit.query.get(name)}
    asked = {name: text for name, text in (kept | changed).items() if text}
    base = f"/projects/{visit.project}/endpoints/{visit.path['endpoint']}/monitor"
    return f"{base}?{urlencode(asked)}" if asked else base


def window_words(seconds: int) -> str:
    for size, one in ((86_400, "a day"), (3600, "an hour"), (60, "a minute")):
        if seconds % size == 0:
            return one if seconds == size else f"{seconds // size} {one.split()[1]}s"
    return f"{seconds} seconds"


# The heat map


def _rows(visit: Visit, floor: float, told: Sequence[Window], cells: Sequence[tuple[Window, tuple[Told, ...]]]) -> list[Row]:
    """Furthest first, and those that drift before all others; as many as can be read."""
    by_name = [{one.column: one for one in columns} for _, columns in cells]
    return [
        Row(
            name=name,
            link=f"{link(visit, column=name)}#column",
            words=_row_words([found.get(name) for found in by_name]),
            cells=tuple(_cell(window, found.get(name), floor) for (window, _), found in zip(cells, by_name, strict=True)),
            chosen=name == visit.query.get("column"),
        )
        for name in furthest(told)[:MOST_FEATURES]
    ]


def together(told: Sequence[Window]) -> list[tuple[Window, tuple[Told, ...]]]:
    """Oldest first; where there are more windows than cells, several are one: as far as each column went in any of them."""
    size = max(1, -(-len(told) // MOST_CELLS))
    oldest = list(reversed(told))
    found = []
    for start in range(0, len(oldest), size):
        some = oldest[start : start + size]
        worst: dict[str, Told] = {}
        for one in (one for window in some for one in window.columns):
            known = worst.get(one.column)
            if known is None or (one.drifting, one.effect) > (known.drifting, known.effect):
                worst[one.column] = one
        whole = Window(
            at=some[0].at,
            until=some[-1].until,
            rows=sum(one.rows for one in some),
            missed=sum(one.missed for one in some),
            columns=(),
        )
        found.append((whole, tuple(worst.values())))
    return found


def furthest(told: Sequence[Window]) -> list[str]:
    """By the newest window in which a column drifted, then by how far it went: what is going on stands on top."""
    place: dict[str, tuple[int, float]] = {}
    for age, window in enumerate(told):
        for one in window.columns:
            alarm, far = place.get(one.column, (len(told), 0.0))
            place[one.column] = (min(alarm, age) if one.drifting else alarm, max(far, one.effect))
    return sorted(place, key=lambda name: (place[name][0], -place[name][1], name))


def breaks(cells: Sequence[Window]) -> list[int]:
    """Before which cells time passed without a window."""
    return [at for at in range(1, len(cells)) if cells[at].at - cells[at - 1].until > SECOND]


def _cell(window: Window, one: Told | None, floor: float) -> Cell | None:
    if one is None:
        return None
    alarm = ", an alarm" if one.drifting else ""
    return Cell(
        far=one.effect / floor,
        alarm=one.drifting,
        words=f"{one.column}: {one.effect:.2f} away{alarm}, {_when(window)}, of {window.rows:,} rows",
    )


def _when(window: Window) -> str:
    start, end = str(window.at), str(window.until)
    shown = 19 if (window.until - window.at) % MINUTE else 16
    return f"{start[:10]} {start[11:shown]} to {end[11:shown]} UTC"


def _row_words(cells: Sequence[Told | None]) -> str:
    there = [one for one in cells if one is not None]
    last, alarms = there[-1], sum(one.drifting for one in there)
    furthest = max(one.effect for one in there)
    return f"{last.effect:.2f} away in the last window, {furthest:.2f} at the furthest, {counted(alarms, 'alarm', 'alarms')}"


# The column that was chosen


def _overlay(spread: Spread | None) -> Markup:
    if spread is None:
        return Markup("")
    pairs = [Pair(name=one.name, before=one.reference, now=one.seen) for one in spread.bins]
    return overlay(pairs, label=f"How {spread.column} is spread in the reference and lately, in {len(pairs)} bins")


def _distances(spread: Spread | None) -> list[tuple[str, str, str]]:
    """Name, number and what it means."""
    if spread is None:
        return []
    return [(*DISTANCES.get(name, (name, "")), f"{far:.4g}") for name, far in spread.distances.items()]
