"""Learning a reference from traffic: first which bins a column should have, from sketches, and then how full each is.

A column that is settled learns no more.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from falaj.base.clock import DAY
from falaj.monitoring.operations.monitors import MOST_COLUMNS, Wishes
from falaj.monitoring.pieces import Counted, Merged
from falaj.monitoring.references import MOST_KINDS, RANKS, Column, Reference, edges_of, new_key, next_key
from falaj.monitoring.together import gathered
from falaj.tables.window_sketches import Sketch, joined

TRAFFIC: Final = "traffic"
ENOUGH: Final = 1000  # rows, to choose bins by
_CYCLES: Final[Mapping[str, int]] = {"none": 0, "hour": DAY, "week": 7 * DAY}


def fresh(columns: Collection[Column], source: str) -> Reference:
    return Reference(key=new_key(), source=source, columns=tuple(columns))


def learnt(reference: Reference, window: Merged, slot: str, wishes: Wishes) -> Reference:
    """After one more window."""
    known = {(one.name, one.is_output) for one in reference.columns}
    sides = ((window.inputs, False), (window.outputs, True))
    there = [(name, output) for side, output in sides for name in side if (name, output) not in known]
    added = [Column(name=name, is_output=output) for name, output in there if name not in wishes.ignore]
    before = (*reference.columns, *added)[:MOST_COLUMNS]
    began = reference.began or window.at
    is_whole = window.at - began >= _CYCLES[wishes.season]
    after = tuple(
        _column(one, window.column(one.name, is_output=one.is_output), window.rows, slot, wishes, is_whole=is_whole)
        for one in before
    )
    moved = any(first.is_known != second.is_known for first, second in zip(before, after, strict=True))
    sample = gathered(reference, window, wishes)
    return replace(
        reference, columns=after, began=began, sample=sample, key=next_key(reference.key) if moved else reference.key
    )


def _column(column: Column, seen: Counted, rows: int, slot: str, wishes: Wishes, *, is_whole: bool) -> Column:
    if column.settled:
        return column
    if column.is_known:
        counted = column.with_counts(slot, seen.counts) if len(seen.counts) == column.bins else column
        return replace(counted, settled=is_whole and counted.rows >= wishes.learn_rows)
    if not seen.sketches:
        return column
    sketch = joined([*([column.sketch] if column.sketch else []), *seen.sketches])
    if column.rows + rows < min(ENOUGH, wishes.learn_rows):
        return replace(column, sketch=sketch.written(), rows=column.rows + rows)
    return _with_bins(column, sketch)


def _with_bins(column: Column, sketch: Sketch) -> Column:
    """Counted from nothing: the rows that bins were chosen by have not been counted by them."""
    fresh_one = replace(column, sketch="", rows=0)
    if sketch.numbers:
        return replace(fresh_one, edges=edges_of(sketch.quantiles(RANKS)))
    kinds = tuple(name for name, _ in sketch.top(MOST_KINDS))
    return replace(fresh_one, kinds=kinds or ("",))
