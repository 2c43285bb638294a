"""What is told of a window: drift, what is missing, and columns that are not what they were by type. Pure.

Columns that drift together are one alert, and so are those that are missing together: people want one of each. Keys are stable,
so that the next window is the same alert.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.monitoring import explaining
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.checking import Apart
from falaj.monitoring.deciding import Outcome, Pooled, beyond_chance, distance, outside_of
from falaj.monitoring.explaining import Happened, Moved, Where
from falaj.monitoring.operations.checks import ChangedColumn
from falaj.monitoring.operations.words import Severity, Told
from falaj.monitoring.pieces import Merged, rows_of
from falaj.monitoring.references import Column, Reference

_TOO_MUCH: Final = 0.5  # of distance: people should not wait to look
_OUTSIDE: Final = 0.05  # of the rows: beyond that, what labels told of other rows is not told of these
_SELDOM: Final = 10_000
_FEWEST_TEXTS: Final = 5  # sampled rows, before a column is said to be text now
_FEWEST_GONE: Final = 100  # rows in a row without a value, before a column is said to be gone


@value
class Found:
    """All that came out of a window. `gone` are labels of those that are missing in every row now; `texts` are columns of
    numbers and the share of sampled rows with a text there; `changed` are columns of the reference's dataset that are not in
    `newest` as they were."""

    inputs: tuple[Moved, ...] = ()
    outputs: tuple[Moved, ...] = ()
    missing: tuple[Moved, ...] = ()
    gone: tuple[str, ...] = ()
    unseen: tuple[Moved, ...] = ()
    texts: tuple[tuple[str, float], ...] = ()
    changed: tuple[ChangedColumn, ...] = ()
    newest: str = ""
    apart: Apart | None = None

    @property
    def is_any(self) -> bool:
        moved = self.inputs or self.outputs or self.missing or self.unseen
        return bool(moved or self.texts or self.changed or self.apart is not None)

    @property
    def moved(self) -> tuple[Moved, ...]:
        return (*self.inputs, *self.outputs, *self.missing, *self.unseen)


@value
class Around:
    """What the sentences also tell: `private` columns without numbers, `estimate` is a sentence of its own."""

    where: Where
    happened: tuple[Happened, ...] = ()
    private: frozenset[str] = frozenset()
    estimate: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def found(
    reference: Reference,
    outcomes: Sequence[Outcome],
    pooled: Pooled,
    slot: str,
    floor: float,
    window: Merged,
) -> Found:
    """Counts are taken over the windows that a distance was measured over, and so are all shares of rows: a window of one row
    has only none and all of them."""
    columns = {one.label: one for one in reference.columns}
    drifting = sorted((one for one in outcomes if one.drifting), key=lambda one: -one.effect)
    moved = [_moved(columns[one.column], one, slot, pooled(one.column, one.over)) for one in drifting]
    missing = [one for one in moved if missing_rise(one) >= floor]
    unseen = [one for one in moved if not one.column.ordered and _unseen_rise(one) >= floor]
    others = [one for one in moved if one not in missing or _moved_besides(one, floor)]
    return Found(
        inputs=tuple(one for one in others if not one.column.is_output),
        outputs=tuple(one for one in others if one.column.is_output),
        missing=tuple(missing),
        gone=tuple(one.column.label for one in missing if _is_gone(one, pooled)),
        unseen=tuple(unseen),
        texts=_texts(reference, window, floor),
    )


def _moved(column: Column, outcome: Outcome, slot: str, seen: Sequence[int]) -> Moved:
    rows = sum(seen)
    shares = replace(outcome, missing=seen[-1] / rows, outside=outside_of(column, seen) / rows)
    return Moved(column=column, outcome=shares, usual=column.counts[slot], seen=tuple(seen))


def _is_gone(one: Moved, pooled: Pooled) -> bool:
    """Whether the last rows, enough of them to know, are all without a value: those before may have had some."""
    for back in range(1, one.outcome.over + 1):
        seen = pooled(one.column.label, back)
        if seen[-1] < sum(seen):
            return False
        if seen[-1] >= _FEWEST_GONE:
            return True
    return False


def sightings(what: Found, around: Around) -> list[Sighting]:
    return [*_drift(what, around), *_missing(what, around), *_schema(what, around)]


def _drift(what: Found, around: Around) -> list[Sighting]:
    where = around.where
    moved = (*what.inputs, *what.outputs)
    if moved:
        return [
            _sighting(
                "drift",
                around,
                "critical" if max(one.outcome.effect for one in moved) >= _TOO_MUCH else "warning",
                _drift_title(what, where.revision),
                explaining.drift_sentences(
                    where,
                    what.inputs,
                    what.outputs,
                    private=around.private,
                    estimate=around.estimate,
                    happened=around.happened,
                ),
                moved,
            )
        ]
    if what.apart is None or what.moved:  # what a column shows by itself shows in its rows as well
        return []
    return [
        _sighting(
            "drift",
            around,
            "warning",
            f"Revision {where.revision}: what it is asked does not go together as it did",
            explaining.together_sentences(where, what.apart, around.happened),
            (),
            named=tuple(name for name, _ in what.apart.named),
        )
    ]


def _drift_title(what: Found, revision: int) -> str:
    if not what.inputs:
        return f"Revision {revision}: its answers drift ({explaining.listed([one.column.name for one in what.outputs])})"
    verb = "drifts" if len(what.inputs) == 1 else "drift"
    also = ", and so do its answers" if what.outputs else ""
    return f"Revision {revision}: {explaining.listed([one.column.label for one in what.inputs])} {verb}{also}"


def _missing(what: Found, around: Around) -> list[Sighting]:
    if not what.missing:
        return []
    named = explaining.listed(what.gone or [one.column.label for one in what.missing])
    title = f"Revision {around.where.revision}: {named} {'gone altogether' if what.gone else 'missing more often'}"
    sentences = explaining.missing_sentences(around.where, what.missing, what.gone, around.happened, private=around.private)
    return [_sighting("missing", around, "critical" if what.gone else "warning", title, sentences, what.missing)]


def _schema(what: Found, around: Around) -> list[Sighting]:
    names = [
        *(one.column.label for one in what.unseen),
        *(name for name, _ in what.texts),
        *(one.column for one in what.changed),
    ]
    if not names:
        return []
    sentences = explaining.schema_sentences(
        around.where, what.unseen, what.texts, what.changed, what.newest, around.happened, private=around.private
    )
    severity: Severity = "critical" if any(not one.after for one in what.changed) or what.texts else "warning"
    title = f"Revision {around.where.revision}: {explaining.listed(list(dict.fromkeys(names)))} not what it was made for"
    return [_sighting("schema", around, severity, title, sentences, what.unseen)]


def _sighting(
    kind: Any,
    around: Around,
    severity: Severity,
    title: str,
    sentences: tuple[str, ...],
    moved: Sequence[Moved],
    named: tuple[str, ...] = (),
) -> Sighting:
    where = around.where
    facts = {"revision": where.revision, "rows": where.rows, "missed": where.missed, **around.facts}
    return Sighting(
        key=f"{kind}/{where.revision}",
        kind=kind,
        severity=severity,
        title=title,
        sentences=sentences,
        facts=facts | ({"together": list(named)} if named else {}),
        columns=tuple(told(one.outcome, hidden=one.column.name in around.private) for one in moved),
        since=where.since,
    )


def told(outcome: Outcome, *, hidden: bool = False) -> Told:
    return Told(**plain(outcome, hidden=hidden))


def plain(outcome: Outcome, *, hidden: bool = False) -> dict[str, Any]:
    """As a window's row has it; of what is hidden without the shares of rows: they are no numbers then."""
    of_it = {name: one for name, one in asdict(outcome).items() if name not in ("since", "began")}
    shown = {name: round(one, 4) if isinstance(one, float) else one for name, one in of_it.items()}
    return shown | ({"missing": math.nan, "outside": math.nan} if hidden else {})


def began(moved: Sequence[Moved], earlier: Sequence[int], at: int) -> Moment:
    """When the first of them did: `earlier` are the beginnings of the windows before this one in its slot, the newest first."""
    back = max((one.outcome.since for one in moved), default=1)
    starts = [at, *earlier]
    return Moment(starts[min(max(back, 1), len(starts)) - 1])


def is_skewed(reference: Reference, inputs: Sequence[Moved]) -> bool:
    """Whether they drifted from the first windows on that were ever held against a dataset."""
    return bool(reference.drawn_by and inputs) and any(one.outcome.began <= 1 for one in inputs)


def is_unlike(reference: Reference, inputs: Sequence[Moved]) -> bool:
    """Whether rows lie where the model was never seen to be right or wrong: how sure it is tells nothing there."""
    watched = sum(one.settled and not one.is_output for one in reference.columns)
    strong = sum(one.outcome.effect >= _TOO_MUCH for one in inputs)
    return any(_outside_rise(one) > _OUTSIDE for one in inputs) or 2 * strong > watched


def _outside_rise(one: Moved) -> float:
    known = one.usual[-2] + (one.usual[0] if one.column.ordered else 0)
    return one.outcome.outside - known / max(1, sum(one.usual))


def missing_rise(one: Moved) -> float:
    """How many more of the rows are without a value than in the reference, as a share."""
    return one.outcome.missing - one.usual[-1] / max(1, sum(one.usual))


def _unseen_rise(one: Moved) -> float:
    return one.outcome.outside - one.usual[-2] / max(1, sum(one.usual))


def _moved_besides(one: Moved, floor: float) -> bool:
    """Whether what is there is far from what was there, too: the evidence may be of what is missing alone."""
    usual, seen = (*one.usual[:-1], 0), (*one.seen[:-1], 0)
    if not sum(usual) or not sum(seen):
        return False
    return distance(one.column, usual, seen) >= floor and beyond_chance(one.column, usual, seen, _SELDOM) >= 0


def _texts(reference: Reference, window: Merged, floor: float) -> tuple[tuple[str, float], ...]:
    names = [one.name for one in reference.columns if one.settled and one.ordered and not one.is_output]
    rows = rows_of(window, names)
    found = []
    for place, name in enumerate(names):
        texts = sum(isinstance(row[place], str) and not _is_number(str(row[place])) for row in rows)
        if texts >= _FEWEST_TEXTS and texts / len(rows) >= floor:
            found.append((name, texts / len(rows)))
    return tuple(found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
