"""How monitoring is told: health as a word, a tone and a shape; severities, actions and distances in words."""

import math
from collections.abc import Sequence
from typing import Any, Final

from falaj.base.clock import SECOND
from falaj.base.values import value
from falaj.monitoring.operations.monitors import Monitor, Watching
from falaj.monitoring.operations.words import Objective, Told

UNWATCHED: Final = "not watched"
_LATELY: Final = 6  # windows: who was not asked for longer is not told of first
_NAMED: Final = 3  # columns that a sentence names


@value
class Health:
    """`tone` is a colour and `shape` an icon: neither is alone, and the word is always there."""

    word: str
    tone: str
    shape: str
    rank: int


HEALTH: Final = {
    "drifting": Health(word="drifting", tone="bad", shape="alert", rank=0),
    "quiet": Health(word="quiet", tone="warn", shape="quiet", rank=2),
    "learning": Health(word="learning", tone="accent", shape="learning", rank=3),
    "well": Health(word="well", tone="good", shape="check", rank=4),
    UNWATCHED: Health(word=UNWATCHED, tone="", shape="unwatched", rank=5),
}
SEVERITIES: Final = {"critical": ("bad", "alert"), "warning": ("warn", "alert"), "info": ("", "info")}
KINDS: Final = {
    "drift": "drift",
    "missing": "missing values",
    "schema": "another schema",
    "quality": "quality",
    "service": "service level",
    "verdict": "verdict",
}
ACTIONS: Final = {
    "roll-back": "Roll back to the split before",
    "pause-canary": "Keep the canary from growing",
    "fall-back": "Serve a certified variant instead",
    "retrain": "Train once more",
}
STATES: Final = {"waiting": "warn", "ready": "accent", "done": "good", "refused": "", "failed": "bad"}
TOLD: Final = {
    "raised": "that it was raised",
    "worse": "that it got worse",
    "escalated": "that nobody saw to it",
    "reminded": "once more",
    "resolved": "that it is over",
    "reopened": "that it came back",
    "told": "what was decided",
}
DISTANCES: Final = {
    "ks": (
        "Kolmogorov-Smirnov",
        "the furthest that the cumulated distributions are apart; 0 is the same, 1 is nothing in common",
    ),
    "psi": ("Population stability index", "below 0.1 little changed, above 0.25 much did"),
    "jensen-shannon": ("Jensen-Shannon", "0 is the same, 1 is nothing in common"),
    "cramers-v": ("Cramér's V", "0 is the same, 1 is nothing in common"),
    "wasserstein": ("Wasserstein", "how far values moved on average, in the column's own unit"),
}
BURNS: Final = {"quiet": "", "well": "good", "slow burn": "warn", "fast burn": "bad", "spent": "bad"}
PARTS: Final = {
    "kinds": KINDS,
    "actions": ACTIONS,
    "states": STATES,
    "severities": SEVERITIES,
    "told_words": TOLD,
    "burns": BURNS,
}


def health_of(monitor: Monitor | None) -> Health:
    """One that the room learnt to tell later is shown as it is called."""
    word = UNWATCHED if monitor is None else monitor.health
    return HEALTH.get(word) or Health(word=word, tone="warn", shape="info", rank=1)


def foremost(monitor: Monitor) -> Watching | None:
    """The revision that people should hear of first: of those asked lately one that drifts, or else the one whose windows are
    the newest, and of those the one with most rows; where none has any, the last."""
    ordered = sorted(monitor.watching, key=lambda one: (one.last or 0, one.rows, one.revision), reverse=True)
    return next(iter((*_drifting_lately(monitor), *ordered)), None)


def drifts(one: Watching) -> bool:
    return any(told.drifting for told in one.columns) or (one.together is not None and one.together.drifting)


def _drifting_lately(monitor: Monitor) -> list[Watching]:
    """The one with most rows first."""
    newest = max((one.last or 0 for one in monitor.watching), default=0)
    lately = [one for one in monitor.watching if (one.last or 0) >= newest - _LATELY * monitor.wishes.window * SECOND]
    return sorted((one for one in lately if drifts(one)), key=lambda one: (-one.rows, -one.revision))


def sentence(monitor: Monitor, of: Watching | None) -> str:
    """What the whole page comes to."""
    if of is None or of.last is None:
        learning = f", of {of.learnt:,} rows so far" if of is not None and of.learnt else ""
        return f"Nothing can be said yet: no window of traffic is complete{learning}."
    drifting = [one for one in of.columns if one.drifting]
    held = f"against {source_words(of.source)}"
    if monitor.health == "quiet":
        last = (
            f"in the last window {_drift_words(drifting, of)} {held}" if of.columns else "it was still learning what is usual"
        )
        return f"Nobody called it for a while; {last}."
    which = f"Revision {of.revision}: " if len(monitor.watching) > 1 else ""
    if drifting:
        return f"{which}{_drift_words(drifting, of)} {held}: {_named(drifting)}."
    if of.together is not None and of.together.drifting:
        most = ", ".join(of.together.columns[:_NAMED])
        return f"{which}No column drifts by itself, but rows as a whole are not what they were {held}; it takes {most} to tell."
    if not of.columns:
        return f"It is still learning what is usual: {counted(len(of.learning), 'column is', 'columns are')} not known yet."
    more = f" {counted(len(of.learning), 'more is', 'more are')} still being learnt." if of.learning else ""
    others = [one.revision for one in _drifting_lately(monitor)]
    if others:
        theirs = f"{', '.join(map(str, sorted(others)))} {'drift' if others[1:] else 'drifts'}"
        return f"Revision {of.revision} is as it was {held}, but revision{'s' if others[1:] else ''} {theirs}."
    return f"All is as it was: none of {counted(len(of.columns), 'column', 'columns')} drifts {held}.{more}"


def _drift_words(drifting: Sequence[Told], of: Watching) -> str:
    verb = "drift" if len(drifting) > 1 else "drifts"
    return f"{len(drifting) or 'none'} of {counted(len(of.columns), 'column', 'columns')} {verb}"


def _named(columns: Sequence[Told]) -> str:
    named = ", ".join(f"{one.column} ({one.effect:.2f})" for one in columns[:_NAMED])
    return named + (f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else "")


def source_words(source: str) -> str:
    return "the first rows that it answered" if source in ("", "traffic") else source


def objective_words(one: Objective) -> str:
    what = f"within {one.milliseconds:,} ms" if one.kind == "latency" else "without an error"
    return f"{one.share * 100:g} % {what}, over {counted(one.days, 'day', 'days')}"


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def part(share: Any) -> str:
    """A share of rows, in few digits; of what is kept from people there is none."""
    if math.isnan(share):
        return "not told"
    return (
        "0 %"
        if not share
        else "< 0.1 %"
        if share < 0.001
        else f"{share * 100:.1f} %"
        if share < 0.1
        else f"{share * 100:.0f} %"
    )
