"""What calls did against their objectives: what counts as bad, what burns, what is left, who is to blame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.monitoring.objectives import (
    Standing,
    Stretch,
    counted,
    good_and_bad,
    lasting,
    shown,
    sightings_of,
    standings_of,
)
from falaj.monitoring.operations.words import Objective
from falaj.serving.counts import Counts
from falaj.serving.latencies import BUCKETS, bucket_of

NOW = Moment.parse("2026-11-15T09:00:00Z")
ANSWERED = Objective(kind="availability", share=0.999)
QUICK = Objective(kind="latency", share=0.99, milliseconds=100)


def took(**counts_by_ms: int) -> tuple[int, ...]:
    found = [0] * BUCKETS
    for name, count in counts_by_ms.items():
        found[bucket_of(int(name[1:]) / 1000)] += count
    return tuple(found)


def minutes(count: int, *, calls: int = 100, errors: int = 0, revision: int = 1, ago: int = 0, **fields: int) -> list[Stretch]:
    """So many minutes of calls, which ended `ago` minutes ago."""
    counts = Counts(requests=calls, errors=errors, **fields)
    ends = [NOW - (ago + back) * MINUTE for back in range(count)]
    return [Stretch(at=end - MINUTE, until=end, revision=revision, counts=counts) for end in ends]


def hours(count: int, *, calls: int = 6000, errors: int = 0, ago: int = 2) -> list[Stretch]:
    counts = Counts(requests=calls, errors=errors)
    ends = [NOW - (ago + back) * HOUR for back in range(count)]
    return [Stretch(at=end - HOUR, until=end, revision=1, counts=counts) for end in ends]


def of(stretches: list[Stretch], objective: Objective = ANSWERED) -> Standing:
    """Hours are the past, minutes recent."""
    past = [one for one in stretches if one.until - one.at == HOUR]
    recent = [one for one in stretches if one.until - one.at < HOUR]
    [found] = standings_of((objective,), {objective: counted(objective, past)}, recent, NOW)
    return found


def test_a_call_that_failed_or_was_refused_is_bad_and_how_long_it_took_is_not_known() -> None:
    counts = Counts(requests=100, errors=3, shed=5, latencies=took(_20=90, _500=7))
    assert good_and_bad(ANSWERED, counts) == (97, 8)
    assert good_and_bad(QUICK, counts) == (90, 7)
    assert good_and_bad(QUICK, Counts(requests=4, errors=4)) == (0, 0)


@given(st.lists(st.integers(0, 50), min_size=BUCKETS, max_size=BUCKETS), st.integers(1, 60_000), st.integers(0, 60_000))
def test_the_longer_a_call_may_take_the_more_are_good_and_none_is_lost(latencies: list[int], first: int, more: int) -> None:
    counts = Counts(latencies=tuple(latencies))
    least, most = (
        good_and_bad(Objective(kind="latency", share=0.9, milliseconds=one), counts)
        for one in (first, min(60_000, first + more))
    )
    assert sum(least) == sum(most) == sum(latencies)
    assert 0 <= least[0] <= most[0]


def test_what_burns_fast_is_critical_and_says_how_fast_what_is_left_and_for_how_long() -> None:
    standing = of([*minutes(60, errors=3), *hours(24 * 20)])
    assert standing.state == "fast burn"
    [sighting] = sightings_of([standing])
    assert (sighting.key, sighting.kind, sighting.severity) == ("service/availability", "service", "critical")
    assert sighting.title == "Availability: the budget of errors is spent 30 times too fast"
    assert sighting.sentences[0] == "Of the last hour's 6,000 calls 3 % failed or were refused; 0.1 % may, over 30 days."
    assert sighting.sentences[1] == "As it goes on now, the 93.8 % that are left last for 23 hours."
    assert sighting.facts["rate"] == 30
    assert sighting.since == NOW - HOUR


def test_what_burns_slowly_is_a_warning_once_it_has_for_three_days() -> None:
    standing = of([*minutes(60, calls=100, errors=0), *minutes(6, errors=1), *hours(24 * 3, errors=12)])
    assert standing.state == "slow burn"
    [sighting] = sightings_of([standing])
    assert sighting.severity == "warning"
    assert "Of the last 3 days'" in sighting.sentences[0]


def test_what_is_over_burns_no_more() -> None:
    ended = of([*minutes(31, errors=0), *minutes(29, errors=5, ago=31), *hours(70)])
    assert ended.seen[3600] == (5855, 145)
    assert (ended.burning, sightings_of([ended])) == (None, [])


def test_one_failure_among_ten_calls_an_hour_is_chance() -> None:
    few = minutes(1, calls=10, errors=1)
    assert of(few).burns[0].burns
    assert of(few).burning is None
    assert of(minutes(1, calls=1000, errors=100)).burning is not None


def test_the_revision_that_most_bad_calls_are_of_is_named_beside_its_part_of_all() -> None:
    standing = of([*minutes(60, calls=90, errors=0, revision=3), *minutes(60, calls=10, errors=5, revision=4)])
    [sighting] = sightings_of([standing])
    assert sighting.facts["revision"] == 4
    assert sighting.sentences[-1] == "Revision 4 has 100 % of the last hour's bad calls and 10 % of all."


def test_what_is_left_is_told_when_nothing_burns() -> None:
    told = shown(of([*hours(24 * 20, errors=3), *minutes(60)]))
    assert (told.state, told.left, told.lasts) == ("well", pytest.approx(0.5, abs=0.01), None)
    assert "50.1 % of the budget of errors are left" in told.sentence
    assert [one.window for one in told.windows] == ["5m", "30m", "1h", "6h", "3d"]
    spent = shown(of([*hours(24 * 20, errors=12, ago=100), *minutes(60)]))
    assert (spent.state, spent.left < 0) == ("spent", True)
    assert "overspent by" in spent.sentence


def test_without_calls_nothing_burns_and_nothing_is_spent() -> None:
    told = shown(of([]))
    assert (told.state, told.left, told.good, told.bad) == ("quiet", 1.0, 0, 0)
    assert sightings_of([of([])]) == []


def test_calls_older_than_the_days_of_the_objective_do_not_count() -> None:
    week = Objective(kind="availability", share=0.999, days=7)
    stretches = [*hours(10, errors=6000, ago=24 * 8), *hours(10)]
    assert of(stretches, week).bad == 0
    assert of(stretches).bad == 60_000


def test_times_are_told_in_words() -> None:
    assert [lasting(one) for one in (0, 90, 7200, 3 * DAY / SECOND)] == ["no time", "90 seconds", "2 hours", "3 days"]
