"""A/B tests for people who decide: the verdict in a sentence, how sure it is, and what it rests on."""

import math
from typing import Any, Final

from falaj.base.clock import DAY, HOUR, MINUTE, Moment
from falaj.base.values import value
from falaj.monitoring.operations.abtests import LIST_ABTESTS, Abtest, Design, GuardrailShown, Points
from falaj.web.drawing.courses import Course, Place, courses
from falaj.web.forms import checked
from falaj.web.visits import Visit

AT_ONCE: Final = 20
EVERY: Final = 5  # seconds, while one goes on
TONES: Final = {
    "running": "accent",
    "won": "good",
    "lost": "bad",
    "same": "",
    "broken": "bad",
    "over": "warn",
    "mismatch": "warn",
    "overtaken": "warn",
    "stopped": "",
}
STATES: Final = {
    "running": "running",
    "won": "a winner",
    "lost": "lost",
    "same": "no difference",
    "broken": "guardrail broken",
    "over": "undecided",
    "mismatch": "no verdict",
    "overtaken": "overtaken",
    "stopped": "stopped",
}
WORDS: Final = {
    "open": ("undecided", ""),
    "winner": ("winner", "good"),
    "loser": ("loses", "bad"),
    "same": ("no difference that matters", ""),
    "broken": ("guardrail broken", "bad"),
    "mismatch": ("units do not fit", "warn"),
}
NOTHING: Final = "\N{EN DASH}"
_MOST_ROWS: Final = 12


@value
class Arm:
    """As the table tells it."""

    revision: int
    model: str
    incumbent: bool
    share: str
    units: int
    expected: str
    mean: str
    difference: str
    between: str
    word: str
    tone: str
    calls: int


@value
class Moved:
    """A point of the chart in words."""

    at: Moment
    units: int
    told: tuple[str, ...]


# The list


def abtests(visit: Visit) -> Any:
    asked = {name: visit.query[name] for name in ("endpoint", "cursor") if visit.query.get(name)}
    return checked(LIST_ABTESTS, {"project": visit.project, "limit": AT_ONCE, **asked})


def listing(visit: Visit) -> dict[str, Any]:
    return {"tones": TONES, "states": STATES, "chosen": visit.query.get("endpoint", "")}


# One of them


def story(visit: Visit) -> dict[str, Any]:
    found: Abtest = visit.loaded["abtest"]
    points: Points | None = visit.loaded["points"]
    return {
        "tones": TONES,
        "states": STATES,
        "arms": [_arm(found, one) for one in found.arms],
        "guardrails": [_guardrail(one) for one in found.guardrails],
        "chart": _chart(found, points),
        "moved": _moved(found, points),
        "unit": "percentage points" if found.unit == "share" else found.metric,
        "least": _amount(found, found.design.least_effect) if found.design.least_effect else "",
        "sure": f"{found.design.confidence * 100:g} %",
        "left": max(0.0, (found.ends - visit.now) / DAY),
        "took": _took((found.ended or visit.now) - found.started),
        "plan": _plan(found),
        "rules": _rules(found.design),
        "every": EVERY if found.ended is None else 0,
    }


def _took(length: int) -> str:
    if length < 2 * MINUTE:
        return "less than two minutes"
    if length < 2 * HOUR:
        return f"{length // MINUTE} minutes"
    return f"{length // HOUR} hours" if length < 2 * DAY else f"{length / DAY:.1f} days"


def _arm(found: Abtest, one: Any) -> Arm:
    word, tone = WORDS[one.word]
    difference = one.difference
    return Arm(
        revision=one.revision,
        model=f"{one.model} v{one.version}" if one.model else "",
        incumbent=one.incumbent,
        share=f"{one.share / 100:g} %",
        units=one.units,
        expected=f"{one.expected_units:,.0f}",
        mean=_level(found, one.mean),
        difference="" if difference is None else _amount(found, difference.at, signed=True),
        between="" if difference is None else _between(found, difference.low, difference.high),
        word="incumbent" if one.incumbent else word,
        tone=tone,
        calls=one.calls,
    )


def _guardrail(one: GuardrailShown) -> dict[str, Any]:
    numbers = {name: _told(one, getattr(one, name)) for name in ("incumbent", "candidate", "harm", "low", "worst")}
    return {"name": one.name, "revision": one.revision, "broken": one.broken, "known": one.known, **numbers}


def _chart(found: Abtest, points: Points | None) -> Any:
    if points is None:
        return ""
    scale = 100 if found.unit == "share" else 1
    several = []
    for place, revision in enumerate(points.candidates):
        places = []
        for point in points.items:
            one = point.differences[place]
            places.append(Place(units=point.units, at=one.at * scale, low=one.low * scale, high=one.high * scale))
        several.append(Course(name=f"Revision {revision}", places=tuple(places)))
    told = f"How the difference in {found.metric} and its interval went as units came to be known; zero is no difference"
    return courses(several, least=found.design.least_effect * scale, label=told)


def _moved(found: Abtest, points: Points | None) -> list[Moved]:
    """The chart as a table: some of its points, the last one always."""
    items = points.items if points is not None else ()
    step = max(1, -(-len(items) // _MOST_ROWS))
    kept = items[::-1][::step][::-1]
    return [
        Moved(
            at=one.at,
            units=one.units,
            told=tuple(
                f"{_amount(found, each.at, signed=True)} ({_between(found, each.low, each.high)})" for each in one.differences
            ),
        )
        for one in kept
    ]


def _plan(found: Abtest) -> list[tuple[str, str, str]]:
    """What was said beforehand, and what came."""
    expected, took = found.expected, ((found.ended or found.ends) - found.started) / DAY
    units = f"{expected.units_needed:,.0f}" if math.isfinite(expected.units_needed) else "not said"
    days = f"{expected.days_needed:,.1f}" if math.isfinite(expected.days_needed) else "not said"
    incumbent = next((one.mean for one in found.arms if one.incumbent), math.nan)
    return [
        ("Units", units, f"{found.units:,}"),
        ("Days", days, f"{took:,.1f}" if found.ended else f"at most {found.design.days}"),
        (f"{found.metric.capitalize()} of the incumbent", _level(found, expected.mean), _level(found, incumbent)),
        ("Least effect that shows", _amount(found, expected.least_effect), NOTHING),
    ]


def _rules(design: Design) -> list[str]:
    won = "is promoted: it gets all traffic" if design.on_win == "promote" else "is told of; the split stays as it is"
    back = "goes back to the split before" if design.on_loss == "back" else "leaves the split as it is"
    several = len(design.candidates) > 1
    return [
        f"A winner {won}.",
        f"Whatever ends without a winner {back}.",
        "The chance of a false verdict holds however often anybody looks"
        + (f", and is shared by {len(design.candidates)} candidates." if several else "."),
    ]


def _level(found: Abtest, mean: float) -> str:
    if not math.isfinite(mean):
        return NOTHING
    return f"{mean:.2%}" if found.unit == "share" else f"{mean:.4g}"


def _amount(found: Abtest, difference: float, *, signed: bool = False) -> str:
    if not math.isfinite(difference):
        return NOTHING
    sign = "+" if signed else ""
    return f"{difference * 100:{sign}.3g} points" if found.unit == "share" else f"{difference:{sign}.4g}"


def _between(found: Abtest, low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "not known yet"
    return f"{_amount(found, low, signed=True)} to {_amount(found, high, signed=True)}"


def _told(one: GuardrailShown, number: float) -> str:
    if not math.isfinite(number):
        return NOTHING
    return f"{number:.2%}" if one.unit == "share" else f"{number:.4g}"
