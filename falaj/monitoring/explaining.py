"""The sentences of an alert: which columns, how far, since when, for whom, and what changed upstream. Pure.

They are kept in a table and sent on, so no value of a text stands in them; of what is kept from people, no number either.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.monitoring import moving
from falaj.monitoring.checking import Apart
from falaj.monitoring.deciding import Outcome
from falaj.monitoring.operations.checks import ChangedColumn
from falaj.monitoring.references import Column

MOST_NAMED: Final = 5  # columns that have a sentence each
_MOST_EVENTS: Final = 6
_LONGEST_NAME: Final = 80


@value
class Moved:
    """A column that is not what it was: what came out of it, and its counts then and now."""

    column: Column
    outcome: Outcome
    usual: tuple[int, ...]
    seen: tuple[int, ...]


@value
class Happened:
    """Something that changed upstream: a dataset has a new version, a split is another."""

    at: Moment
    what: str


@value
class Where:
    """What the alert is about. `share` is that of the endpoint's answers which this revision gives, from 0 to 1; `skewed` says
    that it drifted from the first windows on that were ever held against this reference."""

    revision: int
    source: str
    share: float
    rows: int
    missed: int
    since: Moment
    skewed: bool = False


def drift_sentences(
    where: Where,
    inputs: Sequence[Moved],
    outputs: Sequence[Moved],
    *,
    private: Collection[str] = (),
    estimate: str = "",
    happened: Sequence[Happened] = (),
) -> tuple[str, ...]:
    """The first stands by itself."""
    told = [_first(where, inputs, outputs)]
    told += [moved_words(one, hidden=one.column.name in private) for one in (*inputs[:MOST_NAMED], *outputs[:MOST_NAMED])]
    if where.skewed and inputs:
        told.append(
            f"It was so from the first windows on: what the model is asked is not what {where.source} holds (training-serving "
            "skew), rather than something that changed."
        )
    told += [reach(where, (*inputs, *outputs)), seen_words(where)]
    if estimate:
        told.append(estimate)
    return (*told, *upstream(happened))


def together_sentences(where: Where, apart: Apart, happened: Sequence[Happened] = ()) -> tuple[str, ...]:
    named = listed([name for name, _ in apart.named]) or "no column in particular"
    first = f"No column drifts by itself, but all together they tell rows from those of {_of(where)}: most of all {named}."
    how = (
        f"Of a row of each, the right one is picked {percent(apart.area)} of the time, where half would be by chance; "
        f"{apart.rows} rows were looked at."
    )
    return (first, how, seen_words(where), *upstream(happened))


def missing_sentences(
    where: Where,
    missing: Sequence[Moved],
    gone: Collection[str] = (),
    happened: Sequence[Happened] = (),
    *,
    private: Collection[str] = (),
) -> tuple[str, ...]:
    """`gone` are labels of those that no row has a value of any more."""

    def often(one: Moved) -> str:
        if one.column.name in private:
            return f"{one.column.label} is missing more often than it was"
        now = "all rows of late" if one.column.label in gone else f"{percent(one.outcome.missing)} of the rows"
        return f"{one.column.label} is missing in {now}, was in {percent(one.usual[-1] / max(1, sum(one.usual)))}"

    named = [often(one) for one in missing[:MOST_NAMED]]
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    first = (
        f"Values are missing in what revision {where.revision} is asked since {_clock(where.since)}: {'; '.join(named)}{more}."
    )
    return (first, reach(where, missing), seen_words(where), *upstream(happened))


def schema_sentences(
    where: Where,
    unseen: Sequence[Moved],
    texts: Sequence[tuple[str, float]],
    changed: Sequence[ChangedColumn],
    newest: str = "",
    happened: Sequence[Happened] = (),
    *,
    private: Collection[str] = (),
) -> tuple[str, ...]:
    """`texts` are columns of numbers, and the share of sampled rows that had a text there; `changed` is what became of columns
    in `newest`, the reference's newest version."""
    told = [
        f"{'More' if one.column.name in private else percent(one.outcome.outside)} of the rows have a value of "
        f"{one.column.label} that {_of(where)} does not have."
        for one in unseen[:MOST_NAMED]
    ]
    told += [
        f"{name} was numbers, and is text in {'some' if name in private else percent(share)} of the sampled rows."
        for name, share in texts[:MOST_NAMED]
    ]
    told += [
        f"{one.column} is gone from {newest}; it was {one.before}."
        if not one.after
        else f"{one.column} is {one.after} in {newest}; it was {one.before}."
        for one in changed[:MOST_NAMED]
    ]
    return (*told, seen_words(where), *upstream(happened))


def moved_words(one: Moved, *, hidden: bool = False) -> str:
    """How far, in words and in the column's own unit."""
    by = f"{_short(one.column.label)}: distance {one.outcome.effect:.2f}"
    if hidden:
        return f"{by}."
    if not one.column.ordered:
        return f"{by}; {_kinds_words(one)}."
    if not sum(one.usual[: one.column.ordered]) or not sum(one.seen[: one.column.ordered]):
        return f"{by}; no value of it was seen {'in the reference' if sum(one.seen[: one.column.ordered]) else 'lately'}."
    beyond = (one.seen[0] + one.seen[one.column.ordered - 1]) / sum(one.seen)
    told = (
        moving.median_words(one.column, one.usual, one.seen),
        moving.mean_words(one.column, one.usual, one.seen),
        f"{percent(beyond)} of the rows lie beyond anything seen before" if beyond >= 0.01 else "",
    )
    return f"{'; '.join((by, ', '.join(words for words in told if words)))}." if any(told) else f"{by}."


def _kinds_words(one: Moved) -> str:
    """Of the kind whose share changed most, without its name."""
    first, second = (np.asarray(some, dtype=np.float64) / max(1, sum(some)) for some in (one.usual, one.seen))
    place = int(np.abs(second - first)[:-1].argmax())
    kinds = len(one.column.kinds)
    rank = int((first[:kinds] > first[place]).sum()) + 1 if place < kinds else 0
    which = "kinds that the reference does not have" if not rank else f"the kind that was the {_ordinal(rank)} most frequent"
    return f"the share of {which} went from {percent(first[place])} to {percent(second[place])}"


def reach(where: Where, moved: Sequence[Moved]) -> str:
    """Which share of the predictions is affected."""
    far = max((_changed(one) for one in moved), default=0.0)
    return (
        f"About {percent(far * where.share)} of the endpoint's predictions see what they would not have seen before "
        f"(revision {where.revision} gives {percent(where.share)} of its answers)."
    )


def seen_words(where: Where) -> str:
    """From how many rows this is said, and of which it is not."""
    if not where.missed:
        return f"All {where.rows} rows of the window were counted."
    whole = where.rows + where.missed
    return f"Counted were {where.rows} of {whole} rows of the window; {percent(where.missed / whole)} were not looked at."


def upstream(happened: Sequence[Happened]) -> tuple[str, ...]:
    if not happened:
        return ()
    latest = sorted(happened, key=lambda one: -one.at)[:_MOST_EVENTS]
    return (f"What changed around that time: {'; '.join(f'{one.what} ({_clock(one.at)})' for one in reversed(latest))}.",)


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if 0 < share < 0.095 else f"{100 * share:.0f} %"


def _first(where: Where, inputs: Sequence[Moved], outputs: Sequence[Moved]) -> str:
    when = "" if where.skewed else f" since {_clock(where.since)}"
    asked, answered = listed([one.column.label for one in inputs]), listed([one.column.name for one in outputs])
    if inputs and outputs:
        return (
            f"What revision {where.revision} is asked is not what it was in {_of(where)}{when} ({asked}), and neither is what "
            f"it answers ({answered})."
        )
    if inputs:
        return f"What revision {where.revision} is asked is not what it was in {_of(where)}{when}: {asked}."
    return f"What revision {where.revision} answers is not what it was{when} ({answered}), though what it is asked is."


def _of(where: Where) -> str:
    return where.source if "@" in where.source else "the traffic it learnt from"


def _changed(one: Moved) -> float:
    """The share of rows that are elsewhere than they would have been."""
    first, second = (np.asarray(some, dtype=np.float64) / max(1, sum(some)) for some in (one.usual, one.seen))
    return float(np.abs(first - second).sum() / 2)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(map(_short, names[:MOST_NAMED]))}{more}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


def _clock(at: Moment) -> str:
    return f"{str(at)[:10]} {str(at)[11:16]} UTC"


def _ordinal(rank: int) -> str:
    return f"{rank}{'th' if 10 <= rank % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th')}"
