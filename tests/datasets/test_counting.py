"""What a worker says of bins: nothing of it is believed that cannot be."""

import pytest

from falaj.datasets.working import answers
from falaj.datasets.working.errors import WorkerFailed
from falaj.tables.orders import Bins, Surveyed

BINS = (Bins(name="x", edges=(0.0,)), Bins(name="city", kinds=("Ajman", "Dubai")))
COUNTS = [{"name": "x", "counts": {"": [1, 2, 3]}}, {"name": "city", "counts": {"": [1, 2, 3, 4]}}]
SURVEY = {"name": "x", "quantiles": [0, 1.5], "kinds": [], "sampled": [None, 2.5]}


def test_counts_have_the_columns_and_bins_that_were_asked_for():
    found = answers.counted({"columns": COUNTS}, BINS)
    assert found == {"x": {"": (1, 2, 3)}, "city": {"": (1, 2, 3, 4)}}


@pytest.mark.parametrize(
    "columns",
    [
        COUNTS[:1],
        COUNTS[::-1],
        [*COUNTS, {"name": "more", "counts": {}}],
        [{"name": "x", "counts": {"": [1, 2]}}, COUNTS[1]],
        [{"name": "x", "counts": {"": [1, 2, -3]}}, COUNTS[1]],
        [{"name": "x", "counts": {"": [1, 2, 3.5]}}, COUNTS[1]],
        [{"name": "x", "counts": {"": [1, 2, 1 << 60]}}, COUNTS[1]],
        [{"name": "x", "counts": {str(slot): [1, 2, 3] for slot in range(169)}}, COUNTS[1]],
        [{"name": "x", "counts": {"long" * 100: [1, 2, 3]}}, COUNTS[1]],
        [{"name": "x"}, COUNTS[1]],
    ],
)
def test_counts_that_cannot_be_are_refused(columns):
    with pytest.raises(WorkerFailed):
        answers.counted({"columns": columns}, BINS)


def test_a_survey_has_what_was_asked_for():
    found = answers.surveyed({"columns": [SURVEY]}, ["x"], ranks=2, kinds=3, sampled=2)
    assert found == {"x": Surveyed(quantiles=(0.0, 1.5), sampled=(None, 2.5))}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "y"},
        {"quantiles": [1.0]},
        {"quantiles": [1.0, float("nan")]},
        {"quantiles": [1.0, "2"]},
        {"kinds": ["a"] * 4},
        {"kinds": [1]},
        {"sampled": [1.0] * 3},
        {"sampled": [[1.0]]},
    ],
)
def test_a_survey_that_cannot_be_is_refused(changes):
    with pytest.raises(WorkerFailed):
        answers.surveyed({"columns": [SURVEY | changes]}, ["x"], ranks=2, kinds=3, sampled=2)
