"""A report on one endpoint: how it is, what was alarming, what drifts, how good it was, whether it keeps its promises. Pure."""

import math
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from falaj.base.clock import HOUR, Moment
from falaj.monitoring.operations.abtests import Abtest, ArmShown
from falaj.monitoring.operations.alerts import Alert
from falaj.monitoring.operations.labels import Bucket
from falaj.monitoring.operations.monitors import Spread, Window
from falaj.monitoring.operations.objectives import ObjectiveStanding
from falaj.web.drawing.bands import Point, bands
from falaj.web.drawing.overlays import Pair, overlay
from falaj.web.drawing.svg import element
from falaj.web.monitoring.words import DISTANCES, foremost, objective_words, part, sentence, source_words
from falaj.web.reports.gathering import Gathered
from falaj.web.reports.parts import Cell, document, heat_map, moment, paragraph, plot, section, table
from falaj.web.reports.style import STYLE

_MOST_ROWS: Final = 25
_MOST_FIGURES: Final = 4
_TONES: Final = {"well": "good", "drifting": "bad", "fast burn": "bad", "spent": "bad", "slow burn": "warn", "quiet": "warn"}


def report(found: Gathered, made: Moment) -> str:
    parts = (
        _head(found, made),
        _alerts(found),
        _drift(found),
        _quality(found),
        _objectives(found),
        _tests(found),
        _stated(found),
    )
    title = f"{found.project}/{found.endpoint}, {moment(made)}"
    return document(title, STYLE, element("main", *parts))


def _head(found: Gathered, made: Moment) -> Markup:
    monitor, of = found.monitor, foremost(found.monitor)
    health = element("span", monitor.health, class_=f"word {_TONES.get(monitor.health, '')}".strip())
    return element(
        "header",
        element("h1", found.endpoint),
        element("p", health, ". ", sentence(monitor, of), class_="lead"),
        paragraph(f"Project {found.project}; written {moment(made)} by what its reader may see.", "soft"),
    )


def _alerts(found: Gathered) -> Markup:
    open_ones = [one for one in found.alerts if one.resolved is None]
    over = [one for one in found.alerts if one.resolved is not None]
    content = [_alert(one) for one in open_ones] or [paragraph("No alert is open.")]
    if over:
        rows = [(one.title, one.severity, one.raised, one.resolved) for one in over]
        content += [element("h3", "Over"), table(("what", "severity", "raised", "over"), rows)]
    return section("Alerts", *content, id="alerts")


def _alert(one: Alert) -> Markup:
    seen_to = f", {one.acknowledged_by.name} sees to it" if one.acknowledged_by is not None else ", nobody sees to it yet"
    told = [paragraph(text) for text in one.sentences]
    told += [paragraph(f"{act.kind}: {act.state}. {act.words}") for act in one.actions]
    return element(
        "div",
        element("h3", one.title),
        paragraph(f"{one.severity}; raised {moment(one.raised)}, seen {one.sightings:,} times{seen_to}.", "soft"),
        *told,
        class_=f"alert {one.severity}",
    )


def _drift(found: Gathered) -> Markup:
    of, floor = foremost(found.monitor), found.monitor.wishes.floor or 0.1
    if of is None or found.windows is None or not found.windows.items:
        return section("Drift", paragraph("No window of traffic is complete yet."), id="drift")
    windows = list(reversed(found.windows.items))
    rows = _furthest(windows)
    content = [
        paragraph(
            f"Revision {found.windows.revision}, held against {source_words(of.source)}. A column drifts where it is at least "
            f"{floor:g} away and chance explains that less than once in {found.monitor.wishes.one_in:,} windows."
        ),
        plot(
            _map(rows, windows, floor),
            f"How far the {len(rows)} furthest were, by window; amber is {floor:g}, red four times that; dots mark drift.",
            heads=("column", "furthest", "drifted in windows", "missing in the last"),
            rows=[_row(name, windows) for name in rows],
        ),
        *(_spread(one) for one in found.spreads),
        *_distances(found.spreads),
    ]
    return section("Drift", *content, id="drift")


def _furthest(windows: Sequence[Window]) -> list[str]:
    most: dict[str, float] = {}
    for window in windows:
        for one in window.columns:
            most[one.column] = max(most.get(one.column, 0.0), one.effect + one.drifting)
    return sorted(most, key=lambda name: (-most[name], name))[:_MOST_ROWS]


def _map(names: Sequence[str], windows: Sequence[Window], floor: float) -> Markup:
    known = [{one.column: Cell(far=one.effect / floor, drifts=one.drifting) for one in window.columns} for window in windows]
    rows = [(name, [cells.get(name) for cells in known]) for name in names]
    drifted = [name for name, cells in rows if any(cell is not None and cell.drifts for cell in cells)]
    label = f"{len(windows)} windows of {len(names)} columns; drifted: {', '.join(drifted) or 'none'}."
    return heat_map(rows, [window.at for window in windows], label=label)


def _row(name: str, windows: Sequence[Window]) -> tuple[str, str, str, str]:
    told = [one for window in windows for one in window.columns if one.column == name]
    drifted = sum(one.drifting for one in told)
    return name, f"{max(one.effect for one in told):.3f}", f"{drifted} of {len(told)}", part(told[-1].missing)


def _spread(one: Spread) -> Markup:
    pairs = [Pair(name=it.name, before=it.reference, now=it.seen) for it in one.bins]
    far = ", ".join(f"{name} {distance:.3g}" for name, distance in one.distances.items())
    drawn = plot(
        overlay(pairs, label=f"{one.column}: reference in grey behind, lately in front. {one.sentence}"),
        f"{one.sentence} {one.rows:,} rows lately, in front; the reference behind. {far}.",
        heads=("values", "reference", "lately"),
        rows=[(it.name, f"{it.reference:.1%}", f"{it.seen:.1%}") for it in one.bins],
    )
    return element("div", element("h3", one.column), drawn)


def _distances(spreads: Sequence[Spread]) -> list[Markup]:
    """What the distances that were told mean, a line for each."""
    told = [name for name in DISTANCES if any(name in one.distances for one in spreads)]
    lines = [element("li", f"{name} ({DISTANCES[name][0]}): {DISTANCES[name][1]}.") for name in told]
    return [element("ul", *lines, class_="soft")] if lines else []


def _quality(found: Gathered) -> Markup:
    quality = found.quality
    buckets = [] if quality is None else [one for one in reversed(quality.items) if one.figures]
    if quality is None or not buckets:
        return section("Quality", paragraph("What became of predictions is not known: no labels came."), id="quality")
    names = list(dict.fromkeys(figure.name for bucket in buckets for figure in bucket.figures))
    said = f"{quality.labels:,} labels came; {quality.unknown:,} times a label came whose prediction was not known (yet)."
    content = [paragraph(said), *(paragraph(one, "soft") for one in quality.remarks)]
    content += [_figure(name, buckets) for name in names[:_MOST_FIGURES]]
    if more := names[_MOST_FIGURES:]:
        content.append(paragraph(f"Not drawn: {', '.join(more)}.", "soft"))
    return section("Quality", *content, id="quality")


def _figure(name: str, buckets: Sequence[Bucket]) -> Markup:
    told = [(bucket, figure) for bucket in buckets for figure in bucket.figures if figure.name == name]
    points = [
        Point(
            at=bucket.at / HOUR,
            middle=one.at,
            low=one.low,
            high=one.high,
            series=bucket.revision % 10,
            words=f"Revision {bucket.revision}, {moment(bucket.at)}: {one.at:.4g}, between {one.low:.4g} and {one.high:.4g}",
        )
        for bucket, one in told
    ]
    rows = [
        (moment(bucket.at), bucket.revision, f"{one.at:.4g}", f"{one.low:.4g}", f"{one.high:.4g}", f"{one.rows:,}")
        for bucket, one in told
    ]
    drawn = plot(
        bands(
            points,
            label=f"{name} over time, with intervals that hold in 19 of 20 cases.",
            ends=(moment(told[0][0].at)[:10], moment(told[-1][0].at)[:10]),
        ),
        f"{name}, with intervals that hold in 19 of 20 cases.",
        heads=("from", "revision", name, "at least", "at most", "rows"),
        rows=rows,
    )
    return element("div", element("h3", name), _legend(sorted({bucket.revision for bucket, _ in told})), drawn)


def _legend(revisions: Sequence[int]) -> Markup:
    keys = [element("li", element("span", "", class_=f"key series-{one % 10}"), f"revision {one}") for one in revisions]
    return element("ul", *keys, class_="legend")


def _objectives(found: Gathered) -> Markup:
    held = found.objectives
    if held is None or not held.items:
        content = [paragraph("It is held to no objective.")]
    else:
        content = [_objective(one) for one in held.items]
    if held is not None:
        content.append(paragraph(held.traffic, "warn" if held.unusual else None))
    return section("Service levels", *content, id="objectives")


def _objective(one: ObjectiveStanding) -> Markup:
    state = element("span", one.state, class_=f"word {_TONES.get(one.state, '')}".strip())
    rows = [(it.window, f"{it.good + it.bad:,}", f"{it.bad:,}", f"{it.rate:.2f}") for it in one.windows]
    return element(
        "div",
        element("h3", f"{one.objective.kind.capitalize()}: {objective_words(one.objective)}"),
        element("p", state, ". ", one.sentence),
        table(("window", "calls", "bad", "times the budget"), rows, caption=one.budget_words),
    )


def _tests(found: Gathered) -> Markup:
    if not found.abtests:
        return Markup("")
    return section("A/B tests", *(_test(one) for one in found.abtests), id="abtests")


def _test(one: Abtest) -> Markup:
    rows = [
        (
            f"revision {arm.revision} ({arm.model} v{arm.version}){', incumbent' if arm.incumbent else ''}",
            _concluded(one, arm),
            f"{arm.units:,}",
            f"{arm.mean:.4g}" if math.isfinite(arm.mean) else "not known",
            _difference(arm),
        )
        for arm in one.arms
    ]
    caption = f"{one.metric}; the intervals hold at every look, with {one.design.confidence:.0%} confidence."
    return element(
        "div",
        element("h3", one.name),
        element("p", element("span", one.state, class_="word"), ". ", one.sentence),
        *(paragraph(remark, "soft") for remark in one.remarks),
        table(("arm", "verdict", "units", "mean", "difference to the incumbent"), rows, caption=caption),
    )


def _concluded(test: Abtest, arm: ArmShown) -> str:
    if arm.incumbent:
        return ""
    return arm.word if arm.word != "open" else "undecided" if test.ended is not None else "open"


def _difference(arm: ArmShown) -> str:
    found = arm.difference
    if found is None:
        return ""
    if not math.isfinite(found.at) or not arm.units:
        return "not known"
    return f"{found.at:.4g} ({found.low:.4g} to {found.high:.4g})"


def _stated(found: Gathered) -> Markup:
    """What was looked at, and what was not."""
    told = []
    if found.windows is not None and found.windows.items:
        seen, missed = (sum(getattr(one, name) for one in found.windows.items) for name in ("rows", "missed"))
        share = missed / (seen + missed) if seen + missed else 0.0
        told.append(
            f"In the last {len(found.windows.items):,} windows {seen:,} rows were looked at, and {missed:,} ({share:.1%}) were "
            "answered without being looked at."
        )
    for one in found.monitor.watching:
        if one.late:
            told.append(f"{one.late:,} rows of revision {one.revision} came at a wrong time, and are in no window.")
        if one.learning:
            named, rows = ", ".join(one.learning[:10]), f"{one.learnt:,} of {found.monitor.wishes.learn_rows:,} rows so far"
            told.append(f"Of revision {one.revision} nothing is known yet of {named}: {rows}.")
    if found.objectives is not None and found.objectives.since is not None:
        told.append(f"Calls are known since {moment(found.objectives.since)}; shadows do not count, for they answer nobody.")
    if found.monitor.wishes.ignore:
        told.append(f"Not watched: {', '.join(found.monitor.wishes.ignore)}.")
    told += [f"Not in this report: {one}" for one in found.withheld]
    told.append("The bins of columns are those of the reference; distances are of counts in them, and are exact to that.")
    return section("What this rests on", element("ul", *(element("li", one) for one in told)), id="stated")
