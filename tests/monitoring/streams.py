"""Streams of windows as planes would count them, for simulations of the rule that decides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from falaj.monitoring.deciding import Outcome, Rule, Standing, decided
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.references import ALWAYS, RANKS, Column, Reference, edges_of
from falaj.tables.bin_counts import count_bins

SHIPPED = Rule(floor=Wishes().floor, one_in=Wishes().one_in)
LEARNT = Wishes().learn_rows
Draw = Callable[[np.random.Generator, int], np.ndarray]


def normal(random: np.random.Generator, rows: int) -> np.ndarray:
    return random.standard_normal(rows)


def learnt(random: np.random.Generator, features: int, draw: Draw = normal, rows: int = LEARNT) -> Reference:
    columns = []
    for number in range(features):
        seen = draw(random, rows)
        bins = Column(name=f"f{number}", edges=edges_of(np.quantile(seen[np.isfinite(seen)], RANKS)))
        columns.append(bins.with_counts(ALWAYS, count_bins(seen, bins.edges).tolist()))
    return settled(columns)


def settled(columns: Sequence[Column]) -> Reference:
    return Reference(key="plan", source="traffic", columns=tuple(replace(one, settled=True) for one in columns))


def judged(reference: Reference, windows: Iterator[dict[str, Sequence[int]]], rule: Rule = SHIPPED) -> Iterator[list[Outcome]]:
    """Window by window, as a monitor keeps and pools them."""
    standing, before = Standing(detectors={}), []
    for counts in windows:
        before.append(counts)

        def pooled(label: str, back: int) -> list[int]:
            return np.sum([one[label] for one in before[-back:]], axis=0).tolist()

        standing, outcomes = decided(reference, standing, ALWAYS, counts, rule, pooled)
        yield outcomes


def counted(reference: Reference, drawn: Callable[[int], np.ndarray]) -> dict[str, Sequence[int]]:
    """Of one window: `drawn` says what rows the column of this number has."""
    return {one.label: count_bins(drawn(number), one.edges).tolist() for number, one in enumerate(reference.columns)}
