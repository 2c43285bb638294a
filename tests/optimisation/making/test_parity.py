"""How far answers are apart is a figure with a tolerance beside it."""

import numpy as np
import pytest

from falaj.optimisation.making.parity import apart, parity
from falaj.optimisation.making.values import CannotBeMade
from tests.optimisation.making.models import conv, digits, transformer


def test_a_model_agrees_with_itself():
    held = parity(conv(), conv(), digits()[1].part(0, 50))
    assert (held.largest, held.agreeing, held.rows, held.holds) == (0.0, 1.0, 50, True)


def test_numbers_are_compared_by_share():
    held = apart([np.array([1000.0, 0.5])], [np.array([1001.0, 0.5])], tolerance=1e-2, names=["y"])
    assert held.largest == pytest.approx(1e-3)
    assert held.worst == "y"
    assert str(held) == "answers to 2 rows are at most 0.001 apart, within 0.01, in output y"


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e307])
def test_small_answers_are_no_nearer_for_being_small(scale):
    said = np.random.default_rng(0).normal(size=(200, 1)) * scale
    held = apart([said], [said[::-1]], tolerance=1e-3)
    assert held.largest > 1
    assert held.agreeing < 0.1
    assert apart([said], [said * (1 + 1e-4)], tolerance=1e-3).holds


def test_answers_that_are_nothing_at_all_have_the_distance_itself():
    assert apart([np.zeros((3, 1))], [np.full((3, 1), 0.5)], tolerance=1e-3).largest == 0.5


def test_classes_that_changed_places_do_not_agree():
    scores = np.eye(4, dtype=np.float32)[:, :3] + 0.1
    swapped = scores[:, [1, 0, 2]]
    assert apart([scores], [swapped], tolerance=0.01).agreeing == 0.5


def test_what_is_missing_on_one_side_alone_is_infinitely_far():
    held = apart([np.array([1.0, np.nan])], [np.array([1.0, 2.0])], tolerance=1.0)
    assert np.isinf(held.largest)
    assert not held.holds
    assert apart([np.array([np.nan, np.inf])], [np.array([np.nan, np.inf])], tolerance=0.0).holds


def test_models_that_take_something_else_are_not_compared():
    with pytest.raises(CannotBeMade, match="inputs have become others"):
        parity(conv(), transformer(), digits()[1])
