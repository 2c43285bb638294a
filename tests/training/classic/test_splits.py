"""Rows that are trained on and rows that are tested."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.training.classic.splits import choose

FEW = settings(max_examples=15)


@FEW
@given(st.integers(0, 1000), st.integers(2, 5), st.booleans())
def test_a_group_is_on_one_side_only_and_every_row_is_tested_once(seed, folds, by_class):
    random = np.random.default_rng(seed)
    truth, groups = random.integers(0, 2, 80), np.arange(80) // 6
    split = choose("binary" if by_class else "numbers", truth, random.permutation(groups), None, folds, seed)
    tested = []
    for train, test in split.parts():
        assert not set(split.groups[train]) & set(split.groups[test])
        first, apart = split.held_out(train)
        assert not set(split.groups[first]) & set(split.groups[apart])
        assert set(first) | set(apart) == set(train)
        tested += list(test)
    assert sorted(tested) == list(range(80))


@FEW
@given(st.integers(0, 1000), st.integers(1, 5), st.booleans())
def test_nothing_is_predicted_from_its_own_time_or_from_later(seed, folds, grouped):
    random = np.random.default_rng(seed)
    time, groups = random.integers(0, 25, 120), random.integers(0, 40, 120)
    split = choose("numbers", random.normal(size=120), groups if grouped else None, time, folds, seed)
    parts = list(split.parts())
    assert parts
    for train, test in parts:
        assert time[train].max() < time[test].min()
        assert not grouped or not set(groups[train]) & set(groups[test])


def test_classes_have_the_same_shares_in_every_fold():
    truth = np.repeat([0, 1], [180, 20])
    split = choose("binary", truth, None, None, 5, 0)
    assert split.name == "stratified"
    assert [int(truth[test].sum()) for _, test in split.parts()] == [4] * 5


def test_what_is_known_of_the_rows_decides_and_is_said():
    truth, rows = np.arange(20) % 2, np.arange(20)
    assert choose("numbers", truth, None, None, 5, 0).name == "plain"
    assert choose("binary", truth, rows // 2, None, 5, 0).name == "stratified and grouped"
    assert "10 groups" in choose("numbers", truth, rows // 2, None, 5, 0).why
    assert choose("binary", truth, rows // 2, rows, 5, 0).name == "forward in time"
    rare = choose("binary", np.repeat([0, 1], [18, 2]), None, None, 5, 0)
    assert (rare.name, "2 rows" in rare.why) == ("plain", True)


def test_too_few_groups_and_too_few_rows_are_refused():
    with pytest.raises(Invalid, match="3 groups cannot be tested in 5 folds"):
        choose("numbers", np.arange(30), np.arange(30) % 3, None, 5, 0)
    with pytest.raises(Invalid, match="fewer folds"):
        list(choose("numbers", np.arange(4), np.arange(4) % 2, np.arange(4), 2, 0).parts())
