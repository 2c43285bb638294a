import math

import numpy as np
import pytest

from falaj.statistics.fairness import gap_of_counts, gaps, gaps_of_errors


def test_gaps_are_found_between_the_groups_that_are_farthest_apart():
    random = np.random.default_rng(1)
    groups = np.repeat(["old", "young", "middle", "rare"], [900, 900, 900, 20])
    truth = random.random(2720) < 0.5
    said = np.where(random.random(2720) < np.where(groups == "old", 0.6, 0.9), truth, False)
    selected, recognised, right = gaps(said, truth, groups, positive=True)
    for gap in (selected, recognised, right):
        assert gap.lowest == "old"
        assert gap.left_out == ("rare",)
        assert gap.difference.low > 0
        assert gap.ratio.high < 1
        assert set(gap.shares) == {"old", "young", "middle"}
    old = recognised.shares["old"].at
    assert old == pytest.approx((said & truth & (groups == "old")).sum() / (truth & (groups == "old")).sum())
    assert recognised.difference.at == pytest.approx(recognised.shares[recognised.highest].at - old)
    assert recognised.ratio.at == pytest.approx(old / recognised.shares[recognised.highest].at)


def test_groups_that_are_treated_alike_are_hardly_ever_said_to_differ():
    random = np.random.default_rng(550_391)
    differ = ratios = 0
    for _ in range(600):
        counts = {
            name: (int(random.binomial(rows, 0.2)), rows) for name, rows in (("a", 80), ("b", 300), ("c", 150), ("d", 90))
        }
        gap = gap_of_counts("selected", counts)
        assert gap
        differ += gap.difference.low > 0
        ratios += gap.ratio.high < 1
    assert max(differ, ratios) <= 600 * 0.05 + 3 * math.sqrt(600 * 0.05 * 0.95)


def test_two_groups_that_may_be_farther_apart_than_the_farthest_count():
    gap = gap_of_counts("selected", {"few": (26, 50), "many": (5_000, 10_000), "more": (5_400, 10_000)})
    assert gap
    assert (gap.lowest, gap.highest) == ("many", "more")
    assert gap.difference.at == pytest.approx(0.04)
    assert 0.02 < gap.difference.low < 0.04  # as sure as these two are
    assert gap.farthest == ("few", "more")
    assert gap.difference.high > 0.15
    assert gap.ratio.high < 0.97
    assert gap.ratio.low < 0.75


def test_how_far_apart_all_pairs_may_be_holds_for_all_of_them_together():
    random = np.random.default_rng(77_011)
    shares, sizes = {"a": 0.30, "b": 0.34, "c": 0.38, "d": 0.33}, {"a": 2000, "b": 60, "c": 900, "d": 400}
    missed = ratios = 0
    for _ in range(600):
        gap = gap_of_counts("right", {name: (int(random.binomial(sizes[name], shares[name])), sizes[name]) for name in shares})
        assert gap
        missed += not gap.difference.low <= 0.08 <= gap.difference.high
        ratios += not gap.ratio.low <= 0.30 / 0.38 <= gap.ratio.high
    assert max(missed, ratios) <= 600 * 0.05 + 3 * math.sqrt(600 * 0.05 * 0.95)


def test_a_share_of_nothing_has_a_ratio_still():
    gap = gap_of_counts("selected", {"a": (0, 200), "b": (50, 200)})
    assert gap
    assert (gap.ratio.at, gap.ratio.low) == (0.0, 0.0)
    assert 0 < gap.ratio.high < 0.2
    nobody = gap_of_counts("selected", {"a": (0, 200), "b": (0, 300)})
    assert nobody
    assert nobody.difference.at == 0
    assert math.isnan(nobody.ratio.at)
    assert nobody.ratio.high > 1


def test_one_group_alone_has_no_gap():
    assert gap_of_counts("right", {"a": (10, 100), "b": (1, 3)}) is None
    assert gaps([], [], [], positive=1) == ()


def test_the_interval_of_a_gap_of_errors_holds_the_true_one_about_as_often_as_it_says():
    random, held, none = np.random.default_rng(20_261_119), 0, 0
    for _ in range(400):
        groups = np.repeat(["a", "b", "c", "d"], [60, 300, 100, 20])
        spread = np.where(groups == "c", 2.0, 1.0)
        errors = random.normal(0, 1, len(groups))
        root, mean = gaps_of_errors(errors * spread, np.zeros(len(groups)), groups)
        held += root.difference.low <= 1.0 <= root.difference.high
        assert (root.highest, mean.highest, root.left_out) == ("c", "c", ("d",))
        same, _ = gaps_of_errors(errors, np.zeros(len(groups)), groups)
        none += same.difference.low <= 0
    assert min(held, none) >= 0.92 * 400
    assert gaps_of_errors([1.0] * 60, [0.0] * 60, ["a"] * 60) == ()
