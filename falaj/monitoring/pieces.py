"""Pieces of windows as planes send them, and what they make together: whatever is told of a window adds up, in any order."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

import msgspec

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.monitoring.reading import read
from falaj.monitoring.references import is_of
from falaj.serving.counts import capped
from falaj.serving.operations.planes import ColumnReport, SampledRow, WatchReport
from falaj.tables.short_texts import shortened
from falaj.tables.window_sketches import joined

MOST_SAMPLED: Final = 1000
_LARGEST: Final = 1e300  # of a sum: what a plane says may be anything, and JSON has no infinity
Cell: TypeAlias = float | str | None


@value
class Counted:
    """Of one column. `total` and `squares` are sums over `finite` numbers; `sketches` are those of its pieces."""

    counts: tuple[int, ...] = ()
    finite: int = 0
    total: float = 0.0
    squares: float = 0.0
    sketches: tuple[str, ...] = ()


@value
class Merged:
    """A window of one revision. Columns are by whether they are outputs, and by name. `sampled` rows are in the order of
    `order`."""

    at: int
    seconds: int
    rows: int = 0
    missed: int = 0
    inputs: dict[str, Counted] = field(default_factory=dict)
    outputs: dict[str, Counted] = field(default_factory=dict)
    order: tuple[tuple[str, bool], ...] = ()
    sampled: tuple[SampledRow, ...] = ()

    def column(self, name: str, *, is_output: bool) -> Counted:
        return (self.outputs if is_output else self.inputs).get(name, Counted())


def merged(at: int, seconds: int, key: str, told: Iterable[WatchReport]) -> Merged:
    """Of those counted by a plan of the same reference; rows that were counted by another's are missed."""
    rows = missed = 0
    columns: dict[tuple[str, bool], Counted] = {}
    sampled: list[SampledRow] = []
    order: tuple[tuple[str, bool], ...] = ()
    for piece in map(believed, told):
        missed = capped(missed, piece.missed)
        if not is_of(piece.plan, key):
            missed = capped(missed, piece.rows)
            continue
        rows = capped(rows, piece.rows)
        for one in piece.columns:
            columns[one.name, one.output] = _added(columns.get((one.name, one.output), Counted()), one)
        for sketch in piece.sketches:
            before = columns.get((sketch.name, sketch.output), Counted())
            if _is_readable(sketch.sketch):
                columns[sketch.name, sketch.output] = replace(before, sketches=(*before.sketches, sketch.sketch))
        if piece.sampled:
            its_own = tuple((one.name, one.output) for one in piece.columns)
            order = order or its_own
            sampled += piece.sampled if its_own == order else ()
    return Merged(
        at=at,
        seconds=seconds,
        rows=rows,
        missed=missed,
        inputs={name: one for (name, output), one in columns.items() if not output},
        outputs={name: one for (name, output), one in columns.items() if output},
        order=order,
        sampled=tuple(sorted(sampled, key=lambda one: one.draw)[:MOST_SAMPLED]),
    )


def believed(piece: WatchReport) -> WatchReport:
    """Without what no plane can have counted: sums that are no numbers, squares below nought, draws that none are."""
    columns, sampled = piece.columns, piece.sampled
    if not all(math.isfinite(one.total) and 0 <= one.squares <= _LARGEST for one in columns):
        columns = tuple(replace(one, total=_bounded(one.total), squares=max(0.0, _bounded(one.squares))) for one in columns)
    if not all(0 <= one.draw <= 1 for one in sampled):
        sampled = tuple(one for one in sampled if 0 <= one.draw <= 1)
    return replace(piece, columns=columns, sampled=sampled)


def _bounded(total: float) -> float:
    return 0.0 if math.isnan(total) else max(-_LARGEST, min(total, _LARGEST))


def _added(before: Counted, one: ColumnReport) -> Counted:
    """A plane may lie: counts of another length than those before are left out."""
    counts = before.counts or (0,) * len(one.counts)
    if len(counts) == len(one.counts):
        counts = tuple(map(capped, counts, one.counts))
    return Counted(
        counts=counts,
        finite=capped(before.finite, one.finite),
        total=_bounded(before.total + one.total),
        squares=_bounded(before.squares + one.squares),
        sketches=before.sketches,
    )


def _is_readable(sketch: str) -> bool:
    try:
        joined([sketch])
    except Invalid:
        return False
    return True


def rows_of(window: Merged, names: Sequence[str]) -> list[tuple[Cell, ...]]:
    """The sampled rows of these inputs; what is no row of them is left out."""
    places = {name: place for place, (name, is_output) in enumerate(window.order) if not is_output}
    wanted = [places.get(name) for name in names]
    found = []
    for one in window.sampled:
        row = _read_row(one.row)
        if len(row) == len(window.order):
            found.append(tuple(None if place is None else _cell(row[place]) for place in wanted))
    return found


def _read_row(text: str) -> Sequence[Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return row if isinstance(row, list) else ()


def _cell(one: Any) -> Cell:
    if isinstance(one, str):
        return shortened(one) or None
    return float(one) if isinstance(one, int | float) and abs(one) < _LARGEST else None


def encode(window: Merged) -> bytes:
    return msgspec.json.encode(window)


def decode(content: bytes) -> Merged:
    return read(content, Merged, "A window of traffic")


def encode_pieces(told: Iterable[WatchReport]) -> bytes:
    return msgspec.json.encode(tuple(map(believed, told)), enc_hook=int)  # moments


def decode_pieces(content: bytes) -> tuple[WatchReport, ...]:
    return read(content, tuple[WatchReport, ...], "Pieces of a window")
