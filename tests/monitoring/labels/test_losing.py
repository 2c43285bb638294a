"""A revision that became worse is found, with when; one that did not is left alone, in whatever batches its labels come."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from falaj.monitoring.joined import Joined, Said
from falaj.monitoring.losing import TAUGHT_BY, Standing, decode, encode, grown, matters
from falaj.statistics.adaptive import BLOCK

SEED = 7_151_101


def row(answer: object, truth: object, at: int) -> Joined:
    return Joined(revision=1, at=at, unit="", said=Said(answer=answer), truth=truth, values={}, groups={})  # type: ignore[arg-type]


def classes(wrong: np.ndarray) -> list[Joined]:
    return [row(1, int(not one), at) for at, one in enumerate(wrong.tolist())]


def test_a_planted_rise_of_the_error_is_found_with_the_moment_of_the_prediction_it_began_with():
    random = np.random.default_rng(SEED)
    wrong = random.random(4000) < np.where(np.arange(4000) < 2000, 0.1, 0.3)
    risen = grown(Standing(), classes(wrong)).risen
    assert risen is not None
    assert 1600 <= risen.since <= 2400
    assert risen.before == pytest.approx(0.1, abs=0.03)
    assert risen.after == pytest.approx(0.3, abs=0.1)


def test_a_large_rise_is_called_within_few_rows():
    random = np.random.default_rng(SEED + 6)
    standing, rows = grown(Standing(), classes(random.random(2000) < 0.1)), 0
    while standing.risen is None:
        standing, rows = grown(standing, classes(random.random(BLOCK) < 0.3)), rows + BLOCK
    assert rows <= 500


def test_quiet_streams_are_left_alone_at_the_stated_rate():
    random = np.random.default_rng(SEED + 1)
    called = sum(
        grown(Standing(), classes(random.random(3000) < random.uniform(0.02, 0.5))).usual is not None for _ in range(60)
    )
    assert called <= 2  # one in a hundred is promised; three of sixty would have a chance of 2 %


def test_numbers_are_judged_by_errors_that_no_unit_and_no_outlier_moves():
    random = np.random.default_rng(SEED + 2)
    truth = random.normal(0, 1, 3000)
    spread = np.where(np.arange(3000) < 1500, 1.0, 3.0)
    for unit in (1e-6, 1.0, 1e9):
        said = (truth + spread * random.normal(0, 1, 3000)) * unit
        found = grown(Standing(), [row(one, true * unit, at) for at, (one, true) in enumerate(zip(said, truth, strict=True))])
        assert found.kind == "numbers"
        assert found.risen is not None
        assert 1200 <= found.risen.since <= 2000
    said = truth + random.normal(0, 1, 3000)
    said[TAUGHT_BY + 700] = 1e250
    quiet = grown(
        Standing(), [row(float(one), float(true), at) for at, (one, true) in enumerate(zip(said, truth, strict=True))]
    )
    assert quiet.usual is None


def test_scores_are_judged_as_the_class_that_they_speak_for():
    random = np.random.default_rng(SEED + 3)
    score = random.random(3000)
    truth = random.random(3000) < score
    truth[1500:] = ~truth[1500:]
    found = grown(
        Standing(), [row(one, int(true), at) for at, (one, true) in enumerate(zip(score.tolist(), truth, strict=True))]
    )
    assert found.kind == "scores"
    assert found.risen is not None
    assert 1300 <= found.risen.since <= 1700


@pytest.mark.parametrize("size", [1, 7, BLOCK, 500])
def test_the_verdict_does_not_depend_on_the_batches_that_labels_come_in(size: int):
    random = np.random.default_rng(SEED + 4)
    rows = classes(random.random(2000) < np.where(np.arange(2000) < 1000, 0.05, 0.4))
    whole, standing = grown(Standing(), rows), Standing()
    for start in range(0, len(rows), size):
        standing = decode(encode(grown(standing, rows[start : start + size])))
    assert standing == whole
    assert whole.risen is not None


def test_what_became_better_again_is_over_and_small_steps_add_up():
    random = np.random.default_rng(SEED + 5)
    levels = np.repeat([0.05, 0.4, 0.05], 1500)
    assert grown(Standing(), classes(random.random(4500) < levels)).risen is None
    assert not matters(0.10, 0.11)
    assert matters(0.10, 0.125)
    assert matters(0.001, 0.002)
    assert not matters(0.3, 0.2)
    slowly = np.repeat([0.10, 0.115, 0.13, 0.15], 20_000)
    found = grown(Standing(), classes(random.random(80_000) < slowly))
    assert found.risen is not None
    assert found.risen.before < 0.105


def test_rows_without_truth_or_answer_change_nothing_and_memory_stays_small():
    standing = grown(Standing(), classes(np.zeros(100_000, dtype=bool)))
    assert len(encode(standing)) < 8000
    odd = [replace(row(None, 1, 1)), row(1, None, 1)]
    assert grown(standing, odd) == standing


ANY_NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(ANY_NUMBER, st.floats(-1e300, 1e300)), min_size=1, max_size=20))
@example([(1.7976931348623157e308, -1e300)])
def test_errors_larger_than_numbers_can_say_cost_no_more_than_any_and_are_read_back(pairs: list[tuple[float, float]]):
    rows = [row(answer, truth, at) for at, (answer, truth) in enumerate(pairs * (2 * TAUGHT_BY // len(pairs) + 1))]
    standing = grown(Standing(), rows)
    assert decode(encode(standing)) == standing
    assert standing.kind != "numbers" or standing.rows == len(rows) - TAUGHT_BY
