"""Losses watched for ever. Seeds were drawn after every threshold had been set."""

import math

import numpy as np
import pytest

from falaj.statistics.adaptive import BLOCK, Window


@pytest.mark.parametrize("mean", [0.02, 0.3])
def test_of_500_streams_without_a_change_hardly_any_is_said_to_change(mean):
    random = np.random.default_rng(317_811)
    rate = 0.05
    called = sum(bool(Window(rate=rate).grown(random.random(5000) < mean)[1]) for _ in range(500))
    assert called <= 500 * rate


def test_losses_between_nought_and_one_keep_to_the_rate_too():
    random = np.random.default_rng(514_229)
    assert sum(bool(Window(rate=0.05).grown(random.beta(0.3, 0.9, 3000))[1]) for _ in range(200)) <= 200 * 0.05


@pytest.mark.parametrize(("before", "after", "within"), [(0.1, 0.2, 900), (0.1, 0.4, 200), (0.2, 0.1, 900)])
def test_a_change_is_found_within_so_many_rows_and_dated(before, after, within):
    random = np.random.default_rng(196_418)
    delays, dates, means = [], [], []
    for _ in range(60):
        losses = random.random(6000) < np.where(np.arange(6000) < 3000, before, after)
        _, changes = Window().grown(losses)
        assert changes
        assert changes[0].seen > 3000
        delays.append(changes[0].seen - 3000)
        dates.append(changes[0].since)
        means.append((changes[0].before, changes[0].after))
    assert np.median(delays) <= within
    assert abs(np.median(dates) - 3000) <= 3 * BLOCK
    assert np.median(means, axis=0) == pytest.approx([before, after], abs=0.1)


def test_after_a_change_the_next_one_is_found():
    random = np.random.default_rng(3)
    levels = np.repeat([0.1, 0.4, 0.1], 3000)
    window, changes = Window().grown(random.random(9000) < levels)
    assert [round(change.since, -3) for change in changes] == [3000, 6000]
    assert window.mean() == pytest.approx(0.1, abs=0.02)


def test_it_does_not_matter_in_what_pieces_losses_come():
    random = np.random.default_rng(4)
    losses = (random.random(4000) < np.where(np.arange(4000) < 2000, 0.1, 0.3)).astype(float)
    whole = Window().grown(losses)
    window, found = Window(), ()
    for piece in np.split(losses, np.sort(random.integers(0, 4000, 30))):
        window, changes = window.grown(piece)
        found += changes
    assert (window, found) == whole


def test_memory_grows_with_the_logarithm():
    window, _ = Window().grown(np.random.default_rng(5).random(200_000) < 0.1)
    assert len(window.buckets) <= 6 * math.log2(200_000 / BLOCK)
    assert sum(bucket.blocks for bucket in window.buckets) == 200_000 // BLOCK


def test_what_is_no_number_says_nothing():
    window, changes = Window().grown([math.nan] * 1000)
    assert (window, changes) == (Window(), ())
    assert math.isnan(window.mean())
