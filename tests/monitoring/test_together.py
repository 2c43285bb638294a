"""Rows of all inputs together: found apart where they are, left alone where they are not, within half of the budget."""

import json
from dataclasses import replace

import numpy as np
import pytest

from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.pieces import Merged
from falaj.monitoring.references import ALWAYS, Column, Reference, Sample
from falaj.monitoring.together import MOST_WINDOWS, NOTHING_YET, due, gathered, rules, told, waited
from falaj.serving.operations.planes import SampledRow

NAMES = ("a", "b", "c")
ORDER = tuple((name, False) for name in NAMES)


def rows(random: np.random.Generator, count: int, link: float = 0.0) -> np.ndarray:
    found = random.normal(size=(count, len(NAMES)))
    found[:, 1] = link * found[:, 0] + np.sqrt(1 - link**2) * found[:, 1]
    return found


def window(sample: np.ndarray, at: int = 0) -> Merged:
    sampled = tuple(SampledRow(draw=place / len(sample), row=json.dumps(row)) for place, row in enumerate(sample.tolist()))
    return Merged(at=at, seconds=60, rows=len(sample), order=ORDER, sampled=sampled)


def reference(sample: np.ndarray) -> Reference:
    columns = tuple(Column(name=name, edges=(0.0,), counts={ALWAYS: (1, 1, 0)}, rows=2, settled=True) for name in NAMES)
    return Reference(
        key="k.1", source="traffic", columns=columns, sample=Sample(names=NAMES, rows=tuple(map(tuple, sample.tolist())))
    )


def test_half_of_the_false_alarms_are_the_columns_and_half_the_rows_and_with_a_season_all_are_the_columns():
    of_columns, of_rows = rules(Wishes(one_in=1000))
    assert of_columns == of_rows
    assert of_columns.one_in == 2000
    assert rules(replace(Wishes(one_in=1000), season="hour"))[1] is None
    assert rules(replace(Wishes(one_in=1000), season="hour"))[0].one_in == 1000


def test_rows_of_one_source_are_seldom_told_apart_and_those_of_another_are():
    random = np.random.default_rng(20_260)
    rule = rules(Wishes(one_in=100, floor=0.0))[1]
    assert rule is not None
    alarms = 0
    for _ in range(400):
        found = told(reference(rows(random, 1000)), [window(rows(random, 100)) for _ in range(3)], rule).last
        alarms += found is not None and found.drifting
    assert alarms <= 8  # of 400, where 2 are allowed on average
    linked = told(reference(rows(random, 1000, 0.8)), [window(rows(random, 100, -0.8)) for _ in range(3)], rule).last
    assert linked is not None
    assert linked.drifting
    assert {name for name, _ in linked.named} >= {"a", "b"}


def test_rows_are_told_apart_once_there_are_enough_of_them_and_what_is_too_old_is_let_go():
    random = np.random.default_rng(1)
    usual, few = reference(rows(random, 1000)), window(rows(random, 100))
    kept = NOTHING_YET
    assert due(kept, few, usual) == 0
    kept = waited(waited(kept, few), few)
    assert due(kept, few, usual) == 3
    assert due(kept, few, reference(rows(random, 50))) == 0
    assert due(kept, few, replace(usual, columns=())) == 0
    slow = window(rows(random, 1))
    kept = NOTHING_YET
    for _ in range(MOST_WINDOWS - 1):
        assert due(kept, slow, usual) == 0
        kept = waited(kept, slow)
    assert due(kept, slow, usual) == MOST_WINDOWS
    assert waited(kept, slow) == NOTHING_YET


@pytest.mark.parametrize("drawn_by", ["", "somebody"])
def test_a_reference_gathers_rows_while_it_learns_from_traffic_and_no_longer(drawn_by: str):
    random = np.random.default_rng(2)
    learning = Reference(key="k.1", source="traffic", columns=(), drawn_by=drawn_by)
    sample = gathered(learning, window(rows(random, 100)), Wishes(ignore=("c",)))
    assert len(sample.rows) == (0 if drawn_by else 100)
    if drawn_by:
        return
    assert sample.names == ("a", "b")
    more = gathered(replace(learning, sample=sample), window(rows(random, 950)), Wishes(ignore=("c",)))
    assert len(more.rows) == 1000
    assert max(more.draws) < 1
    settled = replace(reference(rows(random, 10)), sample=more)
    assert gathered(settled, window(rows(random, 100) + 50), Wishes()) == more
