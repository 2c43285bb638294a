"""When a model gives way to a faster variant of itself, and when it comes back."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.plane.core.falling import FALLS_AFTER, RETURNS_AFTER, RETURNS_AT_LAST, Course, Seen, Step, decide

OBJECTIVE, LOOKS = 0.1, 0.1
BUSY, IDLE = Seen(wait=OBJECTIVE, objective=OBJECTIVE, rows=0), Seen(wait=0.0, objective=OBJECTIVE, rows=0)


class Look:
    """Looks ten times a second, at a model that can always go either way; `place` is where it stands."""

    def __init__(self) -> None:
        self.now, self.course, self.place = 100.0, Course(), 0
        self.steps: list[tuple[float, Step]] = []

    def for_seconds(self, seconds: float, what: Callable[[float], Seen] | Seen) -> "Look":
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now += LOOKS
            seen = what if isinstance(what, Seen) else what(self.now)
            self.course, step = decide(self.course, seen, self.now, can_fall=self.place < 2, can_rise=self.place > 0)
            if step != "stay":
                self.place += 1 if step == "fall" else -1
                self.steps.append((self.now, step))
        return self


def test_one_burst_is_no_overload_and_a_wait_that_stays_is_one():
    look = Look().for_seconds(5, IDLE).for_seconds(0.3, BUSY).for_seconds(5, IDLE)
    assert look.steps == []
    began = look.now
    look.for_seconds(2, BUSY)
    (at, step), *_ = look.steps
    assert step == "fall"
    assert FALLS_AFTER <= at - began <= 3 * FALLS_AFTER


def test_it_comes_back_rung_by_rung_and_later_than_it_fell():
    look = Look().for_seconds(3, BUSY)
    assert look.place == 2
    calm = look.now
    look.for_seconds(60, IDLE)
    ups = [at for at, step in look.steps if step == "rise"]
    assert look.place == 0
    assert ups[0] - calm >= RETURNS_AFTER > FALLS_AFTER
    assert ups[1] - ups[0] >= RETURNS_AFTER


def test_it_stays_down_while_the_slower_form_would_be_busy_with_what_comes():
    """A thousand rows a second, for which the form above would need eight tenths of its time."""
    look = Look().for_seconds(1, BUSY)
    place = look.place
    look.for_seconds(120, lambda now: Seen(wait=0.001, objective=OBJECTIVE, rows=int((now - 100) * 1000), above_s=0.0008))
    assert look.place == place
    look.for_seconds(30, lambda now: Seen(wait=0.001, objective=OBJECTIVE, rows=121_000, above_s=0.0008))
    assert look.place < place


def test_who_falls_again_at_once_waits_longer_and_longer_to_a_bound():
    look, stays = Look(), []
    for _ in range(10):
        look.for_seconds(1, BUSY)
        began = look.now
        while look.place:
            look.for_seconds(LOOKS, IDLE)
        stays.append(round(look.now - began, 3))
    assert stays == sorted(stays)
    assert stays[1] > 1.5 * stays[0]
    assert RETURNS_AT_LAST <= stays[-1] < RETURNS_AT_LAST + 2
    look.for_seconds(700, IDLE).for_seconds(1, BUSY)
    began = look.now
    while look.place:
        look.for_seconds(LOOKS, IDLE)
    assert look.now - began < 2 * RETURNS_AFTER  # it was long ago


@given(st.lists(st.tuples(st.floats(0.1, 20), st.floats(0, 2 * OBJECTIVE)), min_size=1, max_size=30))
def test_whatever_comes_a_return_takes_longer_than_any_fall(parts):
    look = Look()
    for seconds, wait in parts:
        look.for_seconds(seconds, Seen(wait=wait, objective=OBJECTIVE, rows=0))
    before = 100.0
    for at, step in look.steps:
        assert at - before >= (FALLS_AFTER if step == "fall" else RETURNS_AFTER) - 1e-6
        before = at
