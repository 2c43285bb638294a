"""Tests without a platform: units are drawn one after the other, and what decides looks at each batch of them as it comes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.monitoring.abtests import standing
from falaj.monitoring.abtests.deciding import Look, concluded, metrics_of
from falaj.monitoring.abtests.designing import shares_of
from falaj.monitoring.abtests.outcomes import Seen
from falaj.monitoring.operations.abtests import Design

INCUMBENT = 1
Draw = Callable[[np.random.Generator, int], Seen]
Coming: TypeAlias = Literal["as drawn", "arm by arm", "sorted"]


@value
class Ended:
    state: str
    units: int
    winner: int = 0


def ended(
    design: Design, draw: Draw, most: int, random: np.random.Generator, at_once: int = 1, coming: Coming = "as drawn"
) -> Ended:
    """How a test ends whose labels come so many units at once; `running` where nothing is decided by `most`. They come as units
    were drawn, or of each `at_once` those of one arm after those of the other, or all of one arm before all of the other."""
    shares = shares_of(design, INCUMBENT)
    now, metric, seen = standing.begun(len(metrics_of(design))), design.metric, 0
    for arms in _batches(shares, most, random, at_once, coming):
        units = [draw(random, int(arm)) for arm in arms]
        now = replace(now, metrics=(standing.grown(metric, now.metrics[0], units, INCUMBENT, shares), *now.metrics[1:]))
        seen += len(units)
        found = concluded(Look(design, INCUMBENT, shares, now), Moment(0), Moment(1))
        if found.state != "running":
            return Ended(state=found.state, units=seen, winner=found.winner)
    return Ended(state="running", units=most)


def _batches(
    shares: dict[int, int], most: int, random: np.random.Generator, at_once: int, coming: Coming
) -> Iterator[np.ndarray]:
    arms = random.choice(list(shares), size=most, p=np.array(list(shares.values())) / sum(shares.values()))
    if coming == "sorted":
        arms = np.sort(arms)
    for start in range(0, most, at_once):
        batch = arms[start : start + at_once]
        if coming == "arm by arm":
            yield from (batch[batch == one] for one in shares if (batch == one).any())
        else:
            yield batch
