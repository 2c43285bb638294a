import pytest

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import TooMany
from falaj.wire.rates import MOST_CALLERS, Rate, RateLimits


class Hand:
    """A clock that stands where it was put."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> Moment:
        return Moment(self.at)


def limits(clock: Hand) -> RateLimits:
    return RateLimits(callers=Rate(per_second=10, burst=3), strangers=Rate(per_second=1, burst=1), clock=clock)


def test_a_burst_is_admitted_and_then_the_rate_holds() -> None:
    clock = Hand()
    rates = limits(clock)
    for _ in range(3):
        rates.admit("token", "address")
    with pytest.raises(TooMany) as refusal:
        rates.admit("token", "address")
    assert refusal.value.delay >= 0.1
    clock.at += SECOND // 10
    rates.admit("token", "address")
    with pytest.raises(TooMany):
        rates.admit("token", "address")


def test_callers_do_not_take_from_each_other() -> None:
    rates = limits(Hand())
    for _ in range(3):
        rates.admit("one", "address")
    rates.admit("two", "address")


def test_guessing_tokens_uses_up_the_address() -> None:
    rates = limits(Hand())
    rates.admit("guess 1", "address")
    rates.failed("address")
    with pytest.raises(TooMany):
        rates.failed("address")
    with pytest.raises(TooMany):
        rates.admit(None, "address")


def test_memory_is_bounded() -> None:
    rates = limits(Hand())
    for number in range(MOST_CALLERS + 500):
        rates.admit(f"token {number}", "address")
    assert len(rates._buckets) == MOST_CALLERS
