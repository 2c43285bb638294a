"""How many rows a search asks models about: all there are, or, where the original is slow, as many as its time allows and its
margins need. Pure but for the clock, which is passed in."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from falaj.base.values import value
from falaj.client.optimising.rows import Parts, Rows
from falaj.optimisation.judging import fewest_rows, harder, surer
from falaj.optimisation.making.running import BATCH
from falaj.optimisation.making.values import Array
from falaj.optimisation.operations.optimisations import Optimisation
from falaj.statistics.noninferiority import FEWEST

ONE_PASS: Final = 0.05  # of the search's time: what asking one model once about its rows may take
_LOOK: Final = 1.0  # seconds that one look at how fast a model is may take, about
_LOOKS: Final = 3
_READ_ON: Final = 1000  # rows that show how answers are to be read
_READ_ON_LEAST: Final = 64


@value
class Pace:
    """How fast the original answers here, and what the whole search may take."""

    row: float  # seconds
    within: float

    @property
    def rows(self) -> int:
        """Those that one pass has time for."""
        return int(min(self.within * ONE_PASS / max(self.row, 1e-9), 2**31))

    @property
    def read_on(self) -> int:
        return min(_READ_ON, max(_READ_ON_LEAST, self.rows))


def pace_of(ask: Callable[[Sequence[Array]], object], rows: Rows, within: float, clock: Callable[[], float]) -> Pace:
    """By batches of the size that rows are asked in. The first call is not counted, and of the others the fastest is: what is
    slower was mostly somebody else's work on the same core."""

    def took(count: int) -> float:
        began = clock()
        ask([one[:count] for one in rows.inputs])
        return clock() - began

    took(1)
    alone = took(1)
    batch = max(1, min(BATCH, rows.count, int(_LOOK / max(alone, 1e-9))))
    return Pace(row=min(took(batch) for _ in range(_LOOKS)) / batch, within=within)


def afforded(parts: Parts, plan: Optimisation, pace: Pace) -> tuple[Parts, str]:
    """Fewer rows to compare and to judge on, drawn by chance but always the same, where there is no time for all; and what
    people are told of it. What an earlier try has told the platform stays."""
    order = np.random.default_rng(int(plan.on.digest[8:16], 16)).permutation(parts.held_out.count)
    if plan.rows:
        compared, judged = plan.rows[1:]
    else:
        compared = min(parts.selection.count, max(pace.rows, fewest_rows(plan.limits.max_drop, plan.limits.confidence)))
        judged = min(parts.held_out.count, max(pace.rows, _needed(parts.held_out, order, plan)))
    if compared >= parts.selection.count and judged >= parts.held_out.count:
        return parts, ""
    fewer = Parts(
        training=parts.training,
        selection=parts.selection.taken(np.arange(min(compared, parts.selection.count))),  # which are in no order
        held_out=parts.held_out.taken(np.sort(order[:judged])),
    )
    return fewer, _told(parts, fewer, pace)


def _needed(held_out: Rows, order: Array, plan: Optimisation) -> int:
    """So many of the first rows of this order that each margin can be shown that all rows together could show, though all but
    the last of those that are to be certified were refused before it."""
    limits, times = plan.limits, harder(plan.refused_before + max(0, plan.certify - 1))
    found = max(FEWEST, fewest_rows(limits.max_drop, surer(limits.confidence, times)))
    slices = [names[order] == name for names in held_out.slices.values() for name in set(names.tolist())]
    among = len(slices) * times
    each = max(FEWEST, fewest_rows(limits.max_slice_drop, surer(limits.confidence, among))) if slices else 0
    for inside in slices:
        at = np.flatnonzero(inside)
        if len(at) >= each:
            found = max(found, int(at[each - 1]) + 1)
    return found


def _told(all_of_them: Parts, fewer: Parts, pace: Pace) -> str:
    compared, judged = fewer.selection.count, fewer.held_out.count
    share = max(compared, judged) * pace.row / pace.within
    told = (
        f"The original takes about {pace.row * 1000:.3g} ms for a row: candidates are compared on {compared:,} of "
        f"{all_of_them.selection.count:,} rows and judged on {judged:,} of {all_of_them.held_out.count:,}, so that "
        f"once through them takes it {max(share, 0.01) * 100:.0f} % of the {pace.within:,.0f} seconds."
    )
    return told if share <= 1.1 * ONE_PASS else f"{told} Fewer could not show what the margins ask for."
