"""What is told of windows that have a row or three each: shares are those of all rows since the change, as the distance is."""

import numpy as np
import pytest

from falaj.base.clock import Moment
from falaj.monitoring.deciding import Standing, decided
from falaj.monitoring.explaining import Where
from falaj.monitoring.pieces import Merged
from falaj.monitoring.references import ALWAYS, Column
from falaj.monitoring.sightings import Around, found, sightings
from tests.monitoring.streams import SHIPPED, learnt, settled

EMPTY = Merged(at=0, seconds=60)
WHERE = Where(revision=1, source="traffic", share=1.0, rows=1, missed=0, since=Moment(0))


def told(reference, windows):
    """Of each window, what people are told of: severity and title by kind."""
    standing, before, every = Standing(detectors={}), [], []
    for counts in windows:
        before.append(counts)

        def pooled(label, back):
            return tuple(np.sum([one[label] for one in before[-back:]], axis=0).tolist())

        standing, outcomes = decided(reference, standing, ALWAYS, counts, SHIPPED, pooled)
        what = found(reference, outcomes, pooled, ALWAYS, SHIPPED.floor, EMPTY)
        seen = sightings(what, Around(where=WHERE))
        every.append({one.kind: (one.severity, one.title) for one in seen})
    return every


def one_by_one(reference, rows, a_window):
    """Of the first column, so many rows a window: 1 where one is missing, 0 where it is as it was."""
    [column] = reference.columns
    usual = np.array(column.counts[ALWAYS][:-1], dtype=float)
    random = np.random.default_rng(4)
    for some in np.split(np.asarray(rows), range(a_window, len(rows), a_window)):
        there = random.multinomial(len(some) - int(sum(some)), usual / usual.sum())
        yield {column.label: [*there.tolist(), int(sum(some))]}


@pytest.mark.parametrize("a_window", [1, 2, 3])
def test_what_is_missing_in_every_second_row_is_not_gone_because_a_small_window_has_none_and_is_no_drift_of_others(a_window):
    random = np.random.default_rng(2)
    reference = learnt(random, 1)
    missing = random.random(240) < 0.5
    found_out = told(reference, one_by_one(reference, missing, a_window))
    some = [tuple(one.items()) for one in found_out if one]
    assert len(some) > 100 // a_window
    assert set(some) == {(("missing", ("warning", "Revision 1: f0 missing more often")),)}


@pytest.mark.parametrize("a_window", [1, 3])
def test_a_column_is_gone_once_enough_rows_one_after_the_other_have_no_value_of_it(a_window):
    random = np.random.default_rng(3)
    reference = learnt(random, 1)
    rows = [*(random.random(60) < 0.5), *[True] * 120]
    titles = [one["missing"] for one in told(reference, one_by_one(reference, rows, a_window)) if "missing" in one]
    assert titles[60 // a_window][0] == "warning"
    assert titles[-1] == ("critical", "Revision 1: f0 gone altogether")


def test_kinds_that_nobody_knows_stay_told_though_the_last_row_is_of_a_known_one():
    column = Column(name="city", kinds=("a", "b")).with_counts(ALWAYS, (5000, 5000, 0, 0))
    reference = settled([column])
    random = np.random.default_rng(5)
    rows = [random.multinomial(1, (0.35, 0.35, 0.3, 0.0)).tolist() for _ in range(200)]
    some = [one for one in told(reference, ({"city": row} for row in rows)) if one]
    assert len(some) > 50
    assert all("schema" in one for one in some)
