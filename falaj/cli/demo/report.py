"""What the demo showed, as one HTML file with its plots: the pieces are those of every report, and nothing in it runs. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.cli.demo.ground import MODEL, Version
from falaj.cli.demo.playing import Shown
from falaj.cli.demo.year import Month, Year
from falaj.cli.pipeline_looks import in_few_words
from falaj.statistics.intervals import Interval
from falaj.web.drawing.bands import Point, bands
from falaj.web.drawing.courses import Course, Place, courses
from falaj.web.drawing.svg import element, picture
from falaj.web.reports.parts import Cell, document, heat_map, paragraph, plot, section, table
from falaj.web.reports.style import STYLE

_MOST_COLUMNS: Final = 8
_BAR: Final = 58.0
_HIGH: Final = 130.0
_WORDS: Final = 20.0
_DRAWN: Final = """
.courses-frame line { stroke: var(--line); } .courses-zero { stroke: var(--ink); stroke-width: 1.5; }
.courses-line { fill: none; stroke: var(--first); stroke-width: 1.8; }
.courses-band { fill: var(--first); fill-opacity: .16; } .course circle, .bar { fill: var(--first); }
"""


@value
class Lived:
    """A month, and its last window: by then it is known best how far away it is."""

    month: Month
    window: dict[str, Any] | None


def report(shown: Sequence[Shown], versions: Sequence[Version], year: Year | None) -> str:
    seconds = sum(one.seconds for one in shown)
    parts = [
        element(
            "header",
            element("h1", "Falaj's demo"),
            paragraph(f"{len(shown)} things were shown in {seconds:.0f} seconds, on this machine.", "lead"),
        ),
        _shown(shown),
    ]
    if year is not None and year.months:
        lived = [Lived(month=month, window=_window_of(month, year)) for month in year.months]
        drift, quality = _drift(lived, year.floor), _quality(year.months)
        parts += [drift, _pipeline(year.brought_out), _gates(year.evidence), quality, _verdict(year), _traffic(year.months)]
    if versions:
        parts.append(_versions(versions))
    return document("Falaj's demo", STYLE + _DRAWN, element("main", *parts))


def _shown(shown: Sequence[Shown]) -> Markup:
    rows = [(one.title, one.part, one.result, f"{one.seconds:.1f}") for one in shown]
    return section("What was shown", table(("what", "part", "result", "seconds"), rows), id="shown")


def _window_of(month: Month, year: Year) -> dict[str, Any] | None:
    own = [one for one in year.windows if month.began - 1 <= _seconds(one["at"]) <= month.ended]
    return max(own, key=lambda one: str(one["at"]), default=None)


def _drift(lived: Sequence[Lived], floor: float) -> Markup:
    known = [(one.month, {it["column"]: it for it in one.window["columns"]}, one.window["at"]) for one in lived if one.window]
    most: dict[str, float] = {}
    for _, columns, _ in known:
        for name, told in columns.items():
            most[name] = max(most.get(name, 0.0), told["effect"])
    names = sorted(most, key=lambda name: (-most[name], name))[:_MOST_COLUMNS]
    cells = [(name, [_cell(columns.get(name), floor) for _, columns, _ in known]) for name in names]
    label = f"How far {', '.join(names)} were from what the model learnt from, by month."
    months = ", ".join(month.name for month, _, _ in known)
    rows = [
        (month.name, *(f"{columns[name]['effect']:.2f}" if name in columns else "" for name in names))
        for month, columns, _ in known
    ]
    drawn = plot(
        heat_map(cells, [_moment(at) for _, _, at in known], label=label),
        f"From left to right: {months}. Amber is {floor:g}, the distance from which on a change matters; dots mark drift. "
        "After the test another model answers, which has learnt from the half year.",
        heads=("month", *names),
        rows=rows,
    )
    return section("What was asked, against what was learnt from", drawn, id="drift")


def _cell(told: dict[str, Any] | None, floor: float) -> Cell | None:
    return None if told is None else Cell(far=told["effect"] / floor, drifts=told["drifting"])


def _pipeline(steps: Sequence[dict[str, Any]]) -> Markup:
    rows = [
        (one["name"], _came_of(one["result"]), f"{_seconds(one['ended']) - _seconds(one['started']):.1f}")
        for one in steps
        if one["state"] == "done"
    ]
    told = table(("step", "what came of it", "seconds"), rows)
    return section("What the alert's pipeline did", told, id="pipeline") if rows else Markup("")


def _came_of(made: Any) -> str:
    if isinstance(made, dict) and "sentence" in made:
        return str(made["sentence"])
    if isinstance(made, dict) and "agreed" in made:
        return f"agreed to by {made['by']}"
    return in_few_words(made) if made else ""


def _gates(evidence: Sequence[dict[str, Any]]) -> Markup:
    rows = [(one["gate"], "passed" if one["passed"] else "not passed", one["words"]) for one in evidence]
    told = table(("gate", "outcome", "evidence"), rows)
    return section("What it had to show first", told, id="gates") if rows else Markup("")


def _quality(months: Sequence[Month]) -> Markup:
    revisions = sorted({revision for month in months for revision in month.revisions})
    keys = [element("li", element("span", "", class_=f"key series-{one % 10}"), f"revision {one}") for one in revisions]
    drawn = [
        _figure(months, "Right answers", [{one: month.accuracy(one) for one in month.revisions} for month in months]),
        _figure(months, "Area under the curve", [{one: month.auc(one) for one in month.revisions} for month in months]),
    ]
    return section("How good it was", element("ul", *keys, class_="legend"), *drawn, id="quality")


def _figure(months: Sequence[Month], name: str, told: Sequence[dict[int, Interval]]) -> Markup:
    found = [(place, revision, one) for place, known in enumerate(told) for revision, one in known.items()]
    points = [
        Point(
            at=float(place),
            middle=one.at,
            low=one.low,
            high=one.high,
            series=revision % 10,
            words=f"{months[place].name}, revision {revision}: {one.at:.3f}, between {one.low:.3f} and {one.high:.3f}",
        )
        for place, revision, one in found
    ]
    rows = [
        (months[place].name, revision, f"{one.at:.3f}", f"{one.low:.3f}", f"{one.high:.3f}") for place, revision, one in found
    ]
    return plot(
        bands(points, label=f"{name} by month and revision.", ends=(months[0].name, months[-1].name)),
        f"{name}, of each month's flights, with intervals of 95 %.",
        heads=("month", "revision", name.lower(), "at least", "at most"),
        rows=rows,
    )


def _verdict(year: Year) -> Markup:
    if year.test is None:
        return Markup("")
    places = [
        Place(units=point.units, at=one.at, low=one.low, high=one.high)
        for point in year.points
        for one in point.differences[:1]
    ]
    rows = [(f"{one.units:,}", f"{one.at:+.4f}", f"{one.low:+.4f}", f"{one.high:+.4f}") for one in places]
    drawn = plot(
        courses([Course(name="revision 2", places=tuple(places))], least=0.0, label=year.test.sentence),
        "The difference in right predictions, and where it lies with 95 % confidence at every look, as flights landed.",
        heads=("flights", "difference", "at least", "at most"),
        rows=rows,
    )
    return section("The verdict", paragraph(year.test.sentence), drawn, id="verdict")


def _traffic(months: Sequence[Month]) -> Markup:
    rows = [(month.name, f"{len(month.answers):,}", f"{_late(month):.0%}") for month in months]
    drawn = plot(
        _bars(months), "Flights that were asked about, by month.", heads=("month", "flights", "of them late"), rows=rows
    )
    return section("Traffic", drawn, id="traffic")


def _bars(months: Sequence[Month]) -> Markup:
    most = max(len(month.answers) for month in months)
    drawn: list[Markup] = []
    for place, month in enumerate(months):
        high, x = len(month.answers) / most * _HIGH, place * _BAR
        words = element("title", f"{month.name}: {len(month.answers):,} flights, {_late(month):.0%} of them late")
        drawn.append(element("rect", words, x=x, y=_HIGH - high, width=_BAR - 8, height=high, class_="bar"))
        drawn.append(element("text", month.name[:6], x=x, y=_HIGH + 14))
    return picture(*drawn, width=_BAR * len(months), height=_HIGH + _WORDS, label="Flights by month.")


def _late(month: Month) -> float:
    return sum(answer.question.late for answer in month.answers) / len(month.answers)


def _versions(versions: Sequence[Version]) -> Markup:
    rows = [
        (f"{MODEL} {one.number}", one.trained.name, f"{one.trained.rows:,}", f"{one.trained.auc:.3f}", one.trained.digest)
        for one in versions
    ]
    told = table(("version", "training", "rows", "area under the curve", "SHA-256 of the model"), rows)
    same = paragraph("Played again, the same rows and seeds give the same files, to the byte.", "soft")
    return section("The models", told, same, id="models")


def _moment(text: str) -> Moment:
    return Moment.parse(text)


def _seconds(text: str) -> float:
    return int(_moment(text)) / 1e6
