"""How monitors and what came out of them look at the terminal."""

from collections.abc import Sequence

from falaj.base.clock import Moment
from falaj.cli.amounts import share_told, span_told
from falaj.cli.layout import Layout, brief, tell_of_more
from falaj.cli.monitor_wishes import TIMES, in_few_words
from falaj.monitoring.operations import monitors as declared
from falaj.monitoring.operations.checks import Check
from falaj.monitoring.operations.objectives import Objectives
from falaj.monitoring.operations.words import Told
from falaj.web.monitoring.words import foremost, objective_words, sentence

_BAR = 30
_TOLD = ("column", "effect", "evidence", "missing", "outside", "drifts")


def monitors(layout: Layout, page: declared.Monitors) -> None:
    rows = []
    for one in sorted(page.items, key=lambda monitor: (monitor.health != "drifting", -monitor.open_alerts, monitor.endpoint)):
        of = foremost(one)
        far = [told.column for told in of.columns if told.drifting] if of is not None else []
        last = None if of is None else brief(of.last)
        rows.append((one.endpoint, one.health, one.open_alerts or None, _few(far), of.rows if of else None, last))
    layout.table(("endpoint", "health", "alerts", "drifting", "rows", "last window"), rows)
    tell_of_more(page)


def monitor(layout: Layout, one: declared.Monitor) -> None:
    of = foremost(one)
    layout.line(f"{one.endpoint}: {sentence(one, of)}", style="bold")
    layout.pairs(
        [
            ("health", one.health),
            ("open alerts", one.open_alerts),
            ("changed", f"{str(one.changed)[:19]}Z by {one.changed_by.name}"),
            *((name.replace("_", " "), _wish(name, getattr(one.wishes, name))) for name in _wished(one.wishes)),
        ]
    )
    for watching in sorted(one.watching, key=lambda it: it is not of):
        layout.line()
        _watching(layout, watching, one.wishes)


def windows(layout: Layout, page: declared.Windows) -> None:
    layout.line(f"Revision {page.revision}")
    rows = []
    for one in page.items:
        far = [told.column for told in one.columns if told.drifting]
        first = max(one.columns, key=lambda told: told.effect, default=None)
        furthest = None if first is None else f"{first.column} {first.effect:.3f}"
        rows.append((one.at, one.rows, one.missed or None, furthest, _few(far)))
    layout.table(("window", "rows", "not looked at", "furthest", "drifting"), rows)
    tell_of_more(page)


def spread(layout: Layout, one: declared.Spread) -> None:
    layout.line(one.sentence, style="bold")
    most = max((max(it.reference, it.seen) for it in one.bins), default=0.0) or 1.0
    layout.table(
        ("values", "reference", "lately", "lately #, reference |"),
        [(it.name, f"{it.reference:.1%}", f"{it.seen:.1%}", _bar(it.seen / most, it.reference / most)) for it in one.bins],
    )
    layout.line()
    layout.pairs(
        [
            ("revision", one.revision),
            ("rows", f"{one.rows:,}"),
            ("distinct", f"about {one.distinct:,}" if one.distinct else None),
            *((name, f"{far:.4g}") for name, far in one.distances.items()),
            *((f"quantile {name}", f"{at:.6g}") for name, at in one.quantiles.items()),
        ]
    )


def check(layout: Layout, one: Check) -> None:
    layout.line(one.sentence, style="bold")
    names = list(dict.fromkeys(name for it in one.columns for name in it.distances))
    layout.table(
        (*_TOLD[:2], "drifts", *names),
        [
            (
                it.told.column,
                f"{it.told.effect:.3f}",
                it.told.drifting or None,
                *(f"{it.distances[name]:.4g}" if name in it.distances else None for name in names),
            )
            for it in one.columns
        ],
    )
    if one.changed:
        layout.line()
        layout.table(("column", "was", "is"), [(it.column, it.before or "not there", it.after or "gone") for it in one.changed])
    if one.uncounted:
        layout.line(f"Not counted: {', '.join(one.uncounted)}.")
    if one.together is not None:
        named = ", ".join(f"{it.column} ({it.weight:.2f})" for it in one.together.columns)
        layout.line(f"Rows as a whole are told apart with an area of {one.together.area:.3f} (0.5 is not at all); by {named}.")


def objectives(layout: Layout, found: Objectives) -> None:
    for one in found.items:
        layout.line(f"{one.objective.kind}, {objective_words(one.objective)}: {one.state}. {one.sentence}", style="bold")
        layout.table(
            ("window", "calls", "bad", "times the budget"),
            [(it.window, f"{it.good + it.bad:,}", f"{it.bad:,}", f"{it.rate:.2f}") for it in one.windows],
        )
        lasts = "without end at this rate" if one.lasts is None else f"for {span_told(one.lasts)} at the last hour's rate"
        layout.line(one.budget_words + (f" It lasts {lasts}." if one.left > 0 else ""))
        if len(one.revisions) > 1:
            layout.table(("revision", "calls", "bad"), [(it.revision, it.good + it.bad, it.bad) for it in one.revisions])
        layout.line()
    if not found.items:
        layout.line("It is held to no objective; `falaj monitor apply ENDPOINT --objective availability=99.9%` sets one.")
    layout.line(found.traffic)
    layout.pairs([("calls known since", found.since)])


def _wish(name: str, wished: object) -> str:
    return f"{in_few_words(wished)} s" if name in TIMES else in_few_words(wished)


def _watching(layout: Layout, one: declared.Watching, wishes: declared.Wishes) -> None:
    source = one.source or "what it answers first"
    layout.line(f"Revision {one.revision}, against {source}: {one.windows:,} windows, the last {_at(one.last)}.")
    if one.learning:
        layout.line(f"Still learning {_few(one.learning)}: {one.learnt:,} of {wishes.learn_rows:,} rows so far.")
    if one.rows or one.missed:
        layout.line(f"{one.rows:,} rows were looked at in it and {one.missed:,} were not; {one.late:,} ever came late.")
    if one.columns:
        layout.table(_TOLD, [_told(it) for it in one.columns])
        rule = f"A column drifts from an effect of {wishes.floor:g} on, where its evidence is 1 or more."
        layout.line(f"{rule} Few rows have to be further away than that.")


def _told(one: Told) -> tuple[object, ...]:
    shares = (share_told(one.missing), share_told(one.outside))
    return (one.column, f"{one.effect:.3f}", f"{one.evidence:.2f}", *shares, one.drifting or None)


def _wished(wishes: declared.Wishes) -> list[str]:
    """What is not as it usually is, and what people ask for most."""
    usual = declared.Wishes()
    shown = ("reference", "window", "floor", "one_in")
    return [
        name for name in declared.Wishes.__dataclass_fields__ if name in shown or getattr(wishes, name) != getattr(usual, name)
    ]


def _at(moment: Moment | None) -> str:
    return "has not ended yet" if moment is None else f"began {str(moment)[:19]}Z"


def _few(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _bar(seen: float, reference: float) -> str:
    drawn = ["#" if place < round(seen * _BAR) else " " for place in range(_BAR + 1)]
    drawn[round(reference * _BAR)] = "|"
    return "".join(drawn).rstrip()
