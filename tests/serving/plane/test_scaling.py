"""How many workers: a pure decision."""

from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.plane.scaling import PATIENCE, Load, wanted_workers


def load(**told) -> Load:
    return Load(**({"workers": 2, "busy": 0.5, "shed": 0, "idle_for": 0.0} | told))


def test_busy_workers_get_one_more_as_long_as_there_is_a_core_for_it():
    assert wanted_workers(load(busy=0.9), least=1, most=4) == 3
    assert wanted_workers(load(busy=0.9), least=1, most=2) == 2


def test_calls_that_were_shed_ask_for_one_more():
    assert wanted_workers(load(shed=1), least=1, most=4) == 3


def test_an_idle_worker_goes_after_a_while_and_not_before():
    assert wanted_workers(load(busy=0.0, idle_for=PATIENCE - 1), least=1, most=4) == 2
    assert wanted_workers(load(busy=0.0, idle_for=PATIENCE + 1), least=1, most=4) == 1


@given(st.integers(1, 64), st.floats(0, 4), st.integers(0, 9), st.floats(0, 1e6), st.integers(1, 64), st.integers(0, 63))
def test_the_bounds_hold_and_it_is_one_step_at_a_time(workers, busy, shed, idle_for, least, more):
    most = least + more
    inside = max(least, min(most, workers))
    wanted = wanted_workers(load(workers=inside, busy=busy, shed=shed, idle_for=idle_for), least=least, most=most)
    assert least <= wanted <= most
    assert abs(wanted - inside) <= 1
