"""How a column is spread in the reference and lately. What a dataset keeps from the reader, a monitor keeps from him too, and
what a few rows have, from everybody: logs have rows, for who may read them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import FalajError, NotFound
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.datasets.mentions import split
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.governance.gate import Gatekeeper
from falaj.monitoring import moving, pieces, references
from falaj.monitoring.checking import distances_of
from falaj.monitoring.choosing import known_to
from falaj.monitoring.deciding import distance
from falaj.monitoring.operations import monitors as declared
from falaj.monitoring.operations.monitors import Bin, Spread, Wishes
from falaj.monitoring.references import LEAST_ROWS, Column, Reference, slot_of
from falaj.monitoring.sealing import Documents
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import measured_over, read_wishes, required_monitor
from falaj.serving.splits import main_revision, read_arms
from falaj.serving.views import read_options
from falaj.tables.window_sketches import joined

_RANKS: Final = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}  # the least and the most are single rows
_NAMED_FROM: Final = 0.01  # of the reference's rows, for a text to be told
_MOST_WINDOWS: Final = 200
_LEARNING: Final = 10  # windows, of a column that has no distance yet


class SpreadService:
    def __init__(self, documents: Documents, gate: Gatekeeper) -> None:
        self._documents, self._gate, self._sight = documents, gate, Sight(gate)

    def bindings(self) -> list[Bound]:
        return [bind(declared.READ_COLUMN, self.column)]

    def column(self, context: Context, request: declared.ReadColumn) -> Spread:
        """With the reader's own zone and rights: values are read for him."""
        endpoint, monitor = required_monitor(context, request.endpoint)
        revision = request.revision or main_revision(read_arms(endpoint.arms))
        row = store.reference(context.work, monitor.id, revision)
        if row is None:
            raise NotFound(
                f"Revision {revision} of {request.endpoint!r} is not watched; `falaj monitor show` lists those that are."
            )
        reference = references.decode(self._documents.read(context, row.blob))  # anew: his zone is held against it
        column = next((one for one in reference.columns if one.label == request.column), None)
        wishes = read_wishes(monitor.wishes)
        if column is None or self._is_hidden(context, endpoint, revision, reference, wishes, column):
            raise NotFound(f"There is no column {request.column!r} among those that are watched, or you may not see it.")
        most = request.windows or _MOST_WINDOWS
        rows = window_store.last(context.work, monitor.id, revision, 0, most, of=references.reference_of(row.key))
        if not request.windows:
            rows = _measured(rows, column, wishes)
        seen = [pieces.decode(self._documents.read(context, one.blob)) for one in rows]
        slots = [slot_of(one.at, wishes.season, wishes.timezone) for one in seen]
        counted = [one.column(column.name, is_output=column.is_output) for one in seen]
        context.facts.update(monitor=monitor.id, revision=revision, drawn_by=reference.drawn_by)
        sketches = [text for one in counted for text in one.sketches]
        found = spread_of(column, revision, reference.source, slots, [one.counts for one in counted], sketches)
        return replace(found, sentence=f"{found.sentence}{_span(rows)}")

    def _is_hidden(
        self, context: Context, endpoint: Found, revision: int, reference: Reference, wishes: Wishes, column: Column
    ) -> bool:
        """What the endpoint masks, and what a dataset keeps from the reader that knows it, whoever drew or learnt it."""
        if column.name in read_options(endpoint.options).masked:
            return True
        if column.is_output:
            return False
        if reference.drawn_by and not self._may_read(context, reference.source):
            return True
        known = known_to(context.work, context.required_project.id, endpoint, revision, reference, wishes)
        masked = {name.casefold() for dataset in known for name in self._sight.masked(context, dataset)}
        return column.name.casefold() in masked

    def _may_read(self, context: Context, source: str) -> bool:
        name, word = split(source)
        if dataset_store.find(context.work, context.required_project.id, name) is None:
            return False  # nobody can say any more what was to be hidden in it
        asked = GrantRead(project=context.required_project.name, dataset=name, version=word)
        try:
            self._gate.authorise(context.work, context.identity, GRANT_READ, asked)
        except FalajError:
            return False
        return True


def _measured(rows: Sequence[Found], column: Column, wishes: Wishes) -> Sequence[Found]:
    """Of windows, the newest first, those that the last distance of the column was measured over; and, where nothing changed,
    so many that their rows may be told."""
    if not rows or not column.settled:
        return rows[:_LEARNING]
    slot = slot_of(rows[0].at, wishes.season, wishes.timezone)
    same = [one for one in rows if slot_of(one.at, wishes.season, wishes.timezone) == slot]
    over = measured_over(rows[0].found, column.label)
    if over > 1:
        return same[:over]
    enough = next((many for many in range(1, len(same)) if sum(one.rows for one in same[:many]) >= LEAST_ROWS), len(same))
    return same[:enough]


def _span(rows: Sequence[Found]) -> str:
    if not rows:
        return ""
    which = "the last window" if len(rows) == 1 else f"the last {len(rows)} windows"
    first, last = (str(Moment(at))[:16].replace("T", " ") for at in (rows[-1].at, rows[0].until))
    return f" This is over {which}, from {first} to {last} UTC."


def spread_of(
    column: Column, revision: int, source: str, slots: Sequence[str], counts: Sequence[Sequence[int]], sketches: Sequence[str]
) -> Spread:
    """Of windows, each with the slot of the season it lies in: every one is held against the reference of its own. Of few rows
    only their number is told."""
    parts = [(slot, some) for slot, some in zip(slots, counts, strict=True) if len(some) == column.bins and column.is_known]
    seen = [sum(some) for some in zip(*(some for _, some in parts), strict=True)] or [0] * column.bins
    usual = _usual(column, parts)
    learnt = joined(sketches) if sketches else None
    is_enough = learnt is not None and learnt.rows() >= LEAST_ROWS
    quantiles = dict(zip(_RANKS, learnt.quantiles([*_RANKS.values()]), strict=False)) if learnt and is_enough else {}
    are_few = 0 < sum(seen) < LEAST_ROWS
    is_comparable = column.is_known and sum(seen) > 0 and sum(usual) > 0 and not are_few
    shares = [[one / max(1.0, sum(some)) for one in some] for some in (usual, seen)]
    told = column.told_bins() if column.is_known and not are_few else []
    return Spread(
        column=column.label,
        revision=revision,
        rows=int(sum(seen)),
        bins=tuple(
            Bin(name=_named(column, name, bins, shares[0]), reference=first, seen=second)
            for name, bins in told
            for first, second in [[sum(some[bins.start : bins.stop]) for some in shares]]
        ),
        distances=distances_of(column, _whole(usual), seen) if is_comparable else {},
        quantiles=quantiles or _quantiles(column, seen),
        distinct=_distinct(column, seen) if learnt is None else learnt.distinct(),
        sentence=_sentence(column, source, _whole(usual), seen, is_comparable=is_comparable),
    )


def _usual(column: Column, parts: Sequence[tuple[str, Sequence[int]]]) -> list[float]:
    """What the reference has for these windows, slot by slot in the proportion of their rows; all of it where there is none."""
    weighed = []
    for slot, some in parts:
        usual = column.counts.get(slot, ())
        if sum(usual):
            weighed.append([one / sum(usual) * sum(some) for one in usual])
    every = weighed or [[float(one) for one in usual] for usual in column.counts.values()]
    return [sum(bins) for bins in zip(*every, strict=True)] or [0.0] * column.bins


def _named(column: Column, name: str, bins: range, usual: Sequence[float]) -> str:
    """Texts that few rows of the reference have may be of one person, however many came lately: they have no names here."""
    place = bins.start
    return f"rare kind {place + 1}" if place < len(column.kinds) and usual[place] < _NAMED_FROM else name


def _whole(counts: Sequence[float]) -> tuple[int, ...]:
    return tuple(round(one) for one in counts)


def _quantiles(column: Column, seen: Sequence[int]) -> dict[str, float]:
    """From counts, where there is no sketch: exact to a bin. Of what lies beyond all bins there is none."""
    if not column.ordered or sum(seen[: column.ordered]) < LEAST_ROWS:
        return {}
    found = {name: moving.quantile(column, seen, rank) for name, rank in _RANKS.items()}
    return {name: number for name, number in found.items() if number is not None}


def _distinct(column: Column, seen: Sequence[int]) -> int:
    """0 where counts do not tell: of numbers, of few rows, and where kinds were seen that have no bin."""
    kinds = len(column.kinds)
    return sum(1 for one in seen[:kinds] if one) if kinds and sum(seen) >= LEAST_ROWS and not seen[kinds] else 0


def _sentence(column: Column, source: str, usual: Sequence[int], seen: Sequence[int], *, is_comparable: bool) -> str:
    if not column.settled:
        return f"{column.label} is still being learnt, from {column.rows} rows so far."
    if 0 < sum(seen) < LEAST_ROWS:
        return f"{sum(seen)} rows of {column.label} were seen lately: too few to be told, which takes {LEAST_ROWS}."
    if not is_comparable:
        return f"No row of {column.label} was seen lately."
    far = distance(column, usual, seen)
    return f"{column.label} lies {far:.2f} from {source}, where 0 is the same and 1 nothing in common."
