"""Spaces as people write them: read, refused with a word on what is wrong, written down and read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from falaj.base.errors import Invalid
from falaj.training.search import spaces
from falaj.training.search.spaces import Dimension, read_space


def one(text: str) -> Dimension:
    (found,) = read_space({"x": text})
    return found


def test_ranges_and_choices_are_read_as_people_write_them():
    assert one("log:1e-5..1e-1") == Dimension(name="x", kind="float", low=1e-5, high=0.1, log=True)
    assert one("1..4") == Dimension(name="x", kind="int", low=1, high=4)
    assert one("-1.5..2") == Dimension(name="x", kind="float", low=-1.5, high=2)
    assert one("32..256:32") == Dimension(name="x", kind="int", low=32, high=256, step=32)
    assert one("relu, tanh") == Dimension(name="x", kind="choice", choices=("relu", "tanh"))
    assert one("1,2.5,big").choices == (1, 2.5, "big")
    assert read_space({"x": [16, 32]})[0].choices == (16, 32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4..1", "is empty: 4 is not below 1"),
        ("2..2", "One value alone is written x=2"),
        ("log:0..1", "0 has no logarithm"),
        ("log:1..8:2", "leave one of them out"),
        ("1..4:0", "above 0"),
        ("1..4:9", "no longer than the range"),
        ("1..", "is no range"),
        ("log:many", "is no range"),
        ("1..1e999", "beyond all numbers"),
        ("a,,b", "empty choice"),
        ("a,a", "twice"),
        ("", "empty choice"),
    ],
)
def test_what_is_no_space_is_refused_in_words(text: str, words: str):
    with pytest.raises(Invalid, match=words):
        one(text)


def test_nothing_to_search_and_names_that_are_none_are_refused():
    with pytest.raises(Invalid, match="Nothing is to be searched"):
        read_space({})
    with pytest.raises(Invalid, match="no name of a parameter"):
        read_space({"--lr": "1..2"})
    with pytest.raises(Invalid, match=r"act=relu, lr=0\.1 leaves one trial and no other\. Say what may be tried"):
        read_space({"act": "relu", "lr": "0.1"})


def test_a_parameter_with_one_value_beside_others_is_given_and_not_searched():
    assert [one.name for one in spaces.fixed(read_space({"act": "relu", "lr": "1..2", "width": [8]}))] == ["act", "width"]


@given(some.floats(allow_nan=False, allow_infinity=False), some.floats(allow_nan=False, allow_infinity=False), some.booleans())
def test_what_was_chosen_is_read_again_exactly(low: float, high: float, log: bool):
    low, high = sorted((low, high))
    if low == high or (log and low <= 0):
        return
    dimension = Dimension(name="x", kind="float", low=low, high=high, log=log)
    assert one(dimension.told()) == dimension
    assert spaces.from_document(spaces.as_document((dimension,))) == (dimension,)
    for chosen in (low, high):
        assert spaces.read_params((dimension,), {"x": spaces.written(chosen)}) == {"x": chosen}


def test_parameters_outside_of_a_space_are_none_of_it():
    space = read_space({"x": "1..4", "act": "relu,tanh"})
    assert spaces.read_params(space, {"x": "3", "act": "tanh", "more": "1"}) == {"x": 3, "act": "tanh"}
    assert spaces.read_params(space, {"x": "5", "act": "tanh"}) is None
    assert spaces.read_params(space, {"x": "3", "act": "gelu"}) is None
    assert spaces.read_params(space, {"x": "3"}) is None
    assert spaces.read_params(space, {"x": "many", "act": "tanh"}) is None


def test_a_grid_has_every_combination_once():
    space = read_space({"x": "1..3", "y": "0.0..1.0:0.1", "act": "relu,tanh"})
    points = list(spaces.grid(space))
    assert len(points) == spaces.grid_size(space) == 3 * 11 * 2
    assert len({tuple(point.values()) for point in points}) == len(points)
    assert points[0] == {"x": 1, "y": 0.0, "act": "relu"}
    with pytest.raises(Invalid, match="say a step, as in x="):
        spaces.grid_size(read_space({"x": "0.0..1.0"}))
    with pytest.raises(Invalid, match="100,000 are possible"):
        spaces.grid_size(read_space({"x": "1..1000", "y": "1..1000"}))


@pytest.mark.parametrize(
    "changed",
    [{"step": 1e-300}, {"step": 1.5}, {"low": 0.5}, {"high": 1e308}, {"step": 90.0}, {"low": 1, "log": True, "step": 2}],
    ids=str,
)
def test_a_range_that_somebody_changed_into_none_is_refused_in_words(changed: dict[str, object]):
    document = {"name": "x", "kind": "int", "low": 0, "high": 9, "log": False, "step": 0}
    assert spaces.from_document([document])
    with pytest.raises(Invalid, match="x "):
        spaces.from_document([document | changed])
