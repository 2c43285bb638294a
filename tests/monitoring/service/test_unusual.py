"""An hour against the same hour of other days: what is unusual is told, and chance hardly ever is."""

import math
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.monitoring.unusual import FEWEST_DAYS, Hour, _median_without, judged, sightings_of

LAST = 24 * 20_000 + 13


def usual(days: int, *, seed: int = 1, failed: float = 0.002, spread: float = 0.1, tails: str = "normal") -> dict[int, Hour]:
    """Days with a rhythm, whose hours differ by a factor."""
    random = np.random.default_rng(seed)
    found = {}
    for number in range(LAST - 24 * days, LAST + 1):
        busy = 1000 * (1.5 + math.sin(number % 24 / 24 * 2 * math.pi)) * math.exp(getattr(random, tails)(0, spread))
        count = int(random.poisson(busy))
        found[number] = Hour(calls=count, failed=int(random.binomial(count, failed)), refused=0)
    return found


@pytest.mark.parametrize("days", [FEWEST_DAYS, 28])
def test_usual_hours_are_usual_and_say_so(days: int) -> None:
    verdict = judged(usual(days), LAST)
    assert not verdict.unusual
    assert f"by {days} other days" in verdict.sentence
    assert sightings_of(verdict, LAST) == []


@pytest.mark.parametrize(
    ("hour", "said"),
    [
        (Hour(calls=0, failed=0, refused=0), "Calls broke down: 0 in the last whole hour, where "),
        (Hour(calls=9000, failed=18, refused=0), "Calls exploded: 9,000"),
        (Hour(calls=1200, failed=240, refused=0), "20 % of 1,200 calls failed"),
        (Hour(calls=1200, failed=0, refused=120), "10 % of 1,200 calls were refused for want of room"),
    ],
)
def test_what_breaks_down_explodes_fails_or_is_refused_is_told_with_what_is_usual(hour: Hour, said: str) -> None:
    verdict = judged(usual(10) | {LAST: hour}, LAST)
    [sighting] = sightings_of(verdict, LAST)
    assert verdict.sentence.startswith(said)
    assert (sighting.key, sighting.kind, sighting.severity) == ("service/traffic", "service", "warning")


def test_the_busy_hour_of_a_quiet_night_is_unusual_though_the_day_knows_busier_ones() -> None:
    night = LAST - 20
    hours = {
        number: Hour(calls=50 if number % 24 < 8 else 5000, failed=0, refused=0) for number in range(night - 24 * 10, night + 1)
    }
    quiet = next(number for number in range(night, night - 24, -1) if number % 24 == 3)
    known = {number: one for number, one in hours.items() if number <= quiet}
    assert not judged(known, quiet).unusual
    assert judged(known | {quiet: Hour(calls=5000, failed=0, refused=0)}, quiet).unusual


def test_before_a_week_is_known_nothing_is_said() -> None:
    verdict = judged(usual(FEWEST_DAYS - 1) | {LAST: Hour(calls=0, failed=0, refused=0)}, LAST)
    assert not verdict.unusual
    assert f"{FEWEST_DAYS - 1} other days" in verdict.sentence
    assert not judged({}, LAST).unusual


def test_a_handful_of_calls_says_nothing() -> None:
    few = {number: Hour(calls=3, failed=0, refused=0) for number in range(LAST - 24 * 20, LAST)}
    assert not judged(few | {LAST: Hour(calls=15, failed=7, refused=5)}, LAST).unusual
    assert not judged(few | {LAST: Hour(calls=0, failed=0, refused=0)}, LAST).unusual


def test_a_change_that_does_not_matter_is_not_told_however_sure_it_is() -> None:
    hours = {number: Hour(calls=1_000_000, failed=0, refused=0) for number in range(LAST - 24 * 20, LAST)}
    assert not judged(hours | {LAST: Hour(calls=1_300_000, failed=2000, refused=0)}, LAST).unusual


def test_an_outage_is_told_for_as_long_as_it_lasts_and_though_there_was_one_before() -> None:
    hours, nothing = usual(20), Hour(calls=0, failed=0, refused=0)
    hours |= {LAST - 24 * 6 - back: nothing for back in range(24)}
    hours |= {LAST - back: nothing for back in range(12)}
    assert judged(hours, LAST).figures[0].startswith("Calls broke down: 0")


def test_bad_days_among_the_others_hide_nothing() -> None:
    hours = usual(20)
    for day in (3, 11):
        hours[LAST - 24 * day] = Hour(calls=900, failed=800, refused=0)
    assert judged(hours | {LAST: Hour(calls=1200, failed=600, refused=0)}, LAST).unusual


@pytest.mark.parametrize(("tails", "spread"), [("normal", 0.05), ("laplace", 0.3)])
def test_chance_is_told_less_often_than_once_in_a_thousand_hours(tails: str, spread: float) -> None:
    """Hours, each the last of days of its own; at that rate, more than 3 alarms of 500 come once in 500 times."""
    alarms = sum(judged(usual(8, seed=seed, spread=spread, tails=tails, failed=0.01), LAST).unusual for seed in range(500))
    assert alarms <= 3


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9), st.data())
def test_the_median_of_the_others_is_what_it_is_without_the_one(values: list[float], data: st.DataObject) -> None:
    ordered = sorted(values)
    place = data.draw(st.integers(0, len(ordered) - 1))
    assert _median_without(ordered, place) == pytest.approx(median(ordered[:place] + ordered[place + 1 :]))
