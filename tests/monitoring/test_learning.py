"""References learnt from traffic: until they have their rows, and not a row longer, whatever comes."""

from dataclasses import replace

import numpy as np

from falaj.monitoring.learning import fresh, learnt
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.pieces import Counted, Merged
from falaj.monitoring.references import ALWAYS, Column, edges_of
from falaj.tables.bin_counts import count_bins
from tests.monitoring import streams

FAST = replace(Wishes(), learn_rows=1000)


def window(name, counts):
    return Merged(at=1, seconds=60, rows=sum(counts), inputs={name: Counted(counts=tuple(counts))})


def test_a_poisoned_burst_does_not_move_a_reference_that_is_settled():
    reference = streams.learnt(np.random.default_rng(4), 1)
    burst = count_bins(np.full(1_000_000, 50.0), reference.columns[0].edges).tolist()
    after = reference
    for _ in range(20):
        after = learnt(after, window("f0", burst), ALWAYS, Wishes())
    assert (after.key, after.columns) == (reference.key, reference.columns)
    *_, told = streams.judged(after, iter([{"f0": burst}]))
    assert told[0].drifting


def test_a_column_learns_until_it_has_its_rows_and_no_longer():
    learning = fresh([Column(name="x", edges=edges_of([0.0, 1.0, 2.0]))], "traffic")
    for _ in range(5):
        assert not learning.columns[0].settled
        learning = learnt(learning, window("x", [0, 0, 100, 100, 0, 0]), ALWAYS, FAST)
    assert learning.columns[0].settled
    assert learning.columns[0].counts == {ALWAYS: (0, 0, 500, 500, 0, 0)}
    assert learnt(learning, window("x", [0, 0, 0, 0, 10**6, 0]), ALWAYS, FAST).columns == learning.columns


def test_counts_by_bins_of_another_plan_teach_nothing():
    learning = fresh([Column(name="x", edges=(0.0, 1.0))], "traffic")
    assert learnt(learning, window("x", [5000, 5000]), ALWAYS, FAST).columns == learning.columns
