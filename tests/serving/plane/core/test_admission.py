"""Who is let in while others wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import TooMany, Unavailable
from falaj.serving.plane.core.admission import Gate, Rates
from falaj.serving.plane.shares import Shares


def test_an_endpoint_takes_as_many_at_once_as_it_may():
    gate = Gate(Shares(100_000).of("a"))
    gate.most = 3
    for _ in range(3):
        gate.enter(10)
    with pytest.raises(Unavailable) as refused:
        gate.enter(10)
    assert refused.value.delay > 0
    gate.leave(1, 10)
    gate.enter(10)
    assert gate.open == 3


def test_what_waits_over_all_endpoints_is_bounded_in_bytes():
    waiting = Shares(100_000)
    one, other = Gate(waiting.of("a")), Gate(waiting.of("b"))
    one.enter(80_000)
    with pytest.raises(Unavailable, match="memory"):
        other.enter(30_000)
    other.enter(10_000)
    assert 90_000 < waiting.taken <= 100_000
    one.leave(1, 80_000)
    other.leave(1, 10_000)
    assert waiting.taken == 0


def test_endpoints_of_one_project_share_what_it_may_have():
    waiting = Shares(100_000)
    one, other, stranger = Gate(waiting.of("a")), Gate(waiting.of("a")), Gate(waiting.of("b"))
    one.enter(60_000)
    with pytest.raises(Unavailable, match="project"):
        other.enter(10_000)
    stranger.enter(10_000)


def test_a_request_larger_than_the_bound_is_taken_when_nothing_else_waits():
    gate = Gate(Shares(100).of("a"))
    gate.enter(500)
    assert gate.open == 1


@given(st.integers(1, 50), st.lists(st.floats(0.0, 0.2), min_size=1, max_size=200))
def test_no_caller_gets_more_than_its_rate_and_one_second_to_spare(per_second: int, pauses: list[float]):
    rates, now, taken = Rates(per_second), 1000.0, []
    for pause in pauses:
        now += pause
        try:
            rates.take("me", now)
        except TooMany:
            continue
        taken.append(now)
    for start in range(len(taken)):
        for end in range(start, len(taken)):
            span = taken[end] - taken[start]
            assert end - start + 1 <= per_second * (span + 1) + 1e-6


def test_whoever_waits_as_long_as_was_said_is_let_in():
    rates = Rates(5)
    for _ in range(5):
        rates.take("me", 10.0)
    with pytest.raises(TooMany) as refused:
        rates.take("me", 10.0)
    rates.take("me", 10.0 + refused.value.delay)
    with pytest.raises(TooMany):
        rates.take("me", 10.0 + refused.value.delay)


def test_one_caller_does_not_use_up_anothers_rate():
    rates = Rates(1)
    rates.take("one", 10.0)
    with pytest.raises(TooMany):
        rates.take("one", 10.0)
    rates.take("other", 10.0)


def test_callers_that_come_no_more_are_forgotten():
    rates = Rates(100)
    for number in range(30_000):
        rates.take(f"caller {number}", 10.0 + number)
    assert len(rates._callers) <= 10_000
