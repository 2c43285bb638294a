"""How many workers: a pure decision."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from falaj.serving.plane.scaling import PATIENCE, Load, is_calm, wanted_workers

CALLS = 100


def load(**told) -> Load:
    return Load(**({"workers": 2, "busy": 0.5, "calls": 5.0, "shed": 0, "late": 0.2, "calm_for": 0.0} | told))


def wanted(seen: Load, least: int = 1, most: int = 8) -> int:
    return wanted_workers(seen, least=least, most=most, calls=CALLS)


loads = st.builds(
    Load,
    workers=st.integers(1, 64),
    busy=st.floats(0, 2),
    calls=st.floats(0, 2) | st.floats(0, 5000),
    shed=st.integers(0, 2),
    late=st.floats(0, 10),
    calm_for=st.floats(0, 1000),
)


def test_busy_workers_get_one_more_as_long_as_there_is_a_core_for_it():
    assert wanted(load(busy=0.9), most=4) == 3
    assert wanted(load(busy=0.9), most=2) == 2


def test_calls_that_were_shed_ask_for_one_more():
    assert wanted(load(shed=1)) == 3


def test_calls_under_way_ask_for_as_many_as_they_need_at_once():
    assert wanted(load(calls=CALLS)) == 2
    assert wanted(load(calls=CALLS + 1)) == 3
    assert wanted(load(calls=3 * CALLS)) == 6
    assert wanted(load(calls=30 * CALLS)) == 8


def test_a_p99_beyond_the_objective_asks_for_one_more():
    assert wanted(load(late=1.1)) == 3
    assert wanted(load(late=0.9)) == 2


def test_a_model_that_is_slow_by_itself_gets_no_worker_that_could_not_help_it():
    assert wanted(load(late=5.0, calls=0.9, busy=0.2)) == 2
    assert is_calm(load(late=5.0, calls=0.4, busy=0.2), calls=CALLS)


def test_a_worker_goes_after_a_while_of_calm_and_not_before():
    calm = load(busy=0.0, calls=0.0, late=0.0)
    assert wanted(replace(calm, calm_for=PATIENCE - 1)) == 2
    assert wanted(replace(calm, calm_for=PATIENCE + 1)) == 1


@given(loads, st.integers(1, 64), st.integers(0, 63))
def test_the_bounds_hold_and_it_goes_down_one_by_one(seen, least, more):
    most = least + more
    seen = replace(seen, workers=max(least, min(most, seen.workers)))
    chosen = wanted(seen, least, most)
    assert least <= chosen <= most
    assert chosen >= seen.workers - 1


@given(loads, st.floats(0, 2), st.floats(0, 500), st.integers(0, 3), st.floats(0, 3))
def test_more_of_anything_never_asks_for_fewer(seen, busy, calls, shed, late):
    seen = replace(seen, calm_for=0.0)
    more = replace(seen, busy=seen.busy + busy, calls=seen.calls + calls, shed=seen.shed + shed, late=seen.late + late)
    assert wanted(more) >= wanted(seen)


@given(st.integers(2, 64), st.floats(0, 0.4), st.floats(0, 2) | st.floats(0, 60), st.floats(0, 3))
def test_who_was_let_go_in_calm_is_not_wanted_back_by_the_same_load(workers, busy, calls, late):
    seen = load(workers=workers, busy=busy, calls=calls, late=late)
    assume(is_calm(seen, calls=CALLS))
    fewer = seen.workers - 1
    spread = seen.workers / fewer
    after = replace(seen, workers=fewer, busy=seen.busy * spread, calls=seen.calls * spread)
    assert wanted(after, most=64) == fewer
