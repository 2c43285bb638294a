"""Whether a revision has become worse: its losses, as labels bring them, in a window that finds where their mean changed; pure.

A class costs 0 or 1. A number costs its error over the error and a scale, so that it lies between 0 and 1 whatever the unit:
the scale is the median error of the first rows, which teach it and are not judged. What is kept are counts and sums.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

import msgspec

from falaj.base.values import value
from falaj.monitoring.joined import Joined, as_kind
from falaj.monitoring.scoring import Kind, error_of, off_by
from falaj.statistics.adaptive import BLOCK, Change, Window

RATE: Final = 0.01  # the chance of ever calling a change in a stream that has none
TAUGHT_BY: Final = 200  # rows of a model whose answers are fractions
_RISES: Final = 0.02  # from so much more on a loss matters,
_GROWS: Final = 1.5  # or from so many times on
_STAYS: Final = 0.5  # of that: what is no more than this is over
_SMALLEST, _LARGEST = -1000, 1000  # sizes of errors that are told apart, as powers of the root of two


@value
class Learning:
    """What the first rows of answers that are fractions say. `errors` counts them by size, those of nought apart."""

    rows: int = 0
    fractions: int = 0
    outside: int = 0
    others: int = 0  # truths that are neither 0 nor 1
    odd: int = 0  # truths that are no whole numbers
    none: int = 0
    errors: dict[int, int] = field(default_factory=dict)


@value
class Risen:
    """From the row `row` on predictions cost more; the first of them was made at `since`."""

    before: float
    after: float
    since: int
    row: int


@value
class Standing:
    """Of one revision. `moments` are when the first predictions of the window's buckets were made, by their row. Once a change
    was called, `usual` is the lowest mean between two of them, and `lately` the rows since the last that are not in the window,
    with their sum."""

    kind: Kind = ""
    scale: float = 0.0
    learning: Learning = Learning()
    window: Window = Window(rate=RATE)
    moments: dict[int, int] = field(default_factory=dict)
    usual: float | None = None
    lately: tuple[int, float] = (0, 0.0)
    risen: Risen | None = None

    @property
    def rows(self) -> int:
        """That were judged."""
        return self.window.start + BLOCK * sum(one.blocks for one in self.window.buckets) + len(self.window.waiting)


def encode(standing: Standing) -> str:
    return msgspec.json.encode(standing).decode()


def decode(text: str) -> Standing:
    return msgspec.json.decode(text, type=Standing) if text else Standing()


def grown(standing: Standing, rows: Sequence[Joined]) -> Standing:
    """After more rows of the revision, in the order in which their labels came."""
    known = [row for row in rows if row.truth is not None and row.said.answer is not None]
    start = 0
    while start < len(known) and not standing.kind:
        standing, start = _taught(standing, known[start]), start + 1
    losses = [(error_of(row, standing.kind), row.at) for row in known[start:]]
    return _judged(standing, [(bounded(one, standing), at) for one, at in losses if one is not None])


def bounded(error: float, standing: Standing) -> float:
    if standing.kind != "numbers":
        return error
    return error / (error + standing.scale) if error > 0 else 0.0


def size_of(loss: float, standing: Standing) -> float:
    """About how large the error is that costs so much."""
    return standing.scale * loss / max(1e-12, 1 - loss)


def _taught(standing: Standing, row: Joined) -> Standing:
    """A row that is certainly of a class says so; fractions are looked at for a while."""
    answer, truth, learning = row.said.answer, row.truth, standing.learning
    if row.said.chances or not isinstance(answer, float):
        return _judged(replace(standing, kind="classes"), [(float(as_kind(answer) != as_kind(truth)), row.at)])
    if not isinstance(truth, int | float):
        return standing
    error = off_by(answer, float(truth))
    errors = learning.errors | ({} if error == 0 else {(size := _size(error)): learning.errors.get(size, 0) + 1})
    learning = Learning(
        rows=learning.rows + 1,
        fractions=learning.fractions + (not answer.is_integer()),
        outside=learning.outside + (not 0 <= answer <= 1),
        others=learning.others + (truth not in (0, 1)),
        odd=learning.odd + (not float(truth).is_integer()),
        none=learning.none + (error == 0),
        errors=errors,
    )
    if learning.rows < TAUGHT_BY:
        return replace(standing, learning=learning)
    return replace(standing, learning=Learning(), kind=_kind(learning), scale=_median(learning))


def _kind(learning: Learning) -> Kind:
    if not learning.outside and not learning.others and learning.fractions:
        return "scores"
    return "classes" if not learning.fractions and not learning.odd else "numbers"


def _size(error: float) -> int:
    return max(_SMALLEST, min(_LARGEST, math.floor(2 * math.log2(error))))


def _median(learning: Learning) -> float:
    left = learning.rows / 2 - learning.none
    for size, count in sorted(learning.errors.items()):
        left -= count
        if left <= 0:
            return float(2 ** ((size + 0.5) / 2))
    return 0.0


def _judged(standing: Standing, losses: Sequence[tuple[float, int]]) -> Standing:
    """Block by block, so that it is known when the predictions of each began."""
    start = 0
    while start < len(losses):
        window, moments = standing.window, standing.moments
        if not window.waiting:
            moments = {**moments, standing.rows: losses[start][1]}
        some = losses[start : start + BLOCK - len(window.waiting)]
        window, changes = window.grown([loss for loss, _ in some])
        for change in changes:
            standing = _changed(standing, change, moments)
        borders = _borders(window)
        standing = replace(standing, window=window, moments={row: at for row, at in moments.items() if row in borders})
        standing = _settled(standing) if standing.risen is not None and not window.waiting else standing
        start += len(some)
    return standing


def _borders(window: Window) -> set[int]:
    """The rows at which buckets begin, and the next one will."""
    found, row = {window.start}, window.start
    for bucket in window.buckets:
        row += BLOCK * bucket.blocks
        found.add(row)
    return found


def _changed(standing: Standing, change: Change, moments: Mapping[int, int]) -> Standing:
    """Held against the best it was, so that many small steps are one large one in the end."""
    rows, total = standing.lately
    before = change.since - standing.window.start
    level = (total + change.before * before) / (rows + before)
    usual = level if standing.usual is None else min(level, standing.usual)
    after = change.seen - change.since
    standing = replace(standing, usual=usual, lately=(after, change.after * after))
    if not matters(usual, change.after):
        return replace(standing, risen=None)
    began, row = moments.get(change.since, 0), change.since
    if standing.risen is not None:
        began, row = standing.risen.since, standing.risen.row
    return replace(standing, risen=Risen(before=usual, after=change.after, since=began, row=row))


def _settled(standing: Standing) -> Standing:
    """The more rows came since, the better it is known how much worse it is; and whether it is at all: that something became
    better is noticed before it is known how good it is."""
    (rows, total), window, risen = standing.lately, standing.window, standing.risen
    rows, total = rows + BLOCK * sum(one.blocks for one in window.buckets), total + sum(one.total for one in window.buckets)
    if risen is None or not matters(risen.before, total / rows, part=_STAYS):
        return replace(standing, risen=None)
    return replace(standing, risen=replace(risen, after=total / rows))


def matters(before: float, after: float, part: float = 1.0) -> bool:
    """Whether so much more is enough, or a part of enough."""
    return after > before and (after - before >= part * _RISES or after >= (1 + part * (_GROWS - 1)) * before)
