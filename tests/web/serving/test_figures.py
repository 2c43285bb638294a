"""Courses and numbers of an endpoint's traffic."""

import math

from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.serving.operations.endpoints import TrafficPoint
from falaj.web.serving.figures import Course, course, figures, sparks

NOW = Moment(1_800_000_000 * SECOND + 9 * SECOND)


def point(seconds_ago: int, requests: int = 100, revision: int = 1, **more: float) -> TrafficPoint:
    at = (NOW - seconds_ago * SECOND) // (10 * SECOND) * 10 * SECOND
    counts = {"errors": 0, "shed": 0, "rows": requests, "batches": max(1, requests // 4)}
    latencies = {"p50": 1.0, "p90": 2.0, "p99": 3.0}
    return TrafficPoint(at=Moment(at), seconds=10.0, revision=revision, requests=requests, **(counts | latencies | more))  # type: ignore[arg-type]


def test_time_without_calls_is_nothing_and_has_no_latency() -> None:
    past = course([point(50), point(30, revision=2)], 60, NOW)
    assert past.requests == (0, 100, 0, 100, 0, 0, 0)
    assert [math.isnan(value) for value in past.p99] == [True, False, True, False, True, True, True]
    assert past.seconds[-1] == 9.0
    assert past.batch[1] == 4.0


def test_revisions_add_up_and_the_slower_one_is_told() -> None:
    past = course([point(30), point(30, requests=50, revision=2, p99=9.0, errors=5)], 60, NOW)
    told = figures(past)
    assert (max(past.requests), told.calls, told.p99) == (150, 150, 9.0)
    assert told.errors == 5 / 150
    assert told.rate == 150 / sum(past.seconds)


def test_copies_for_a_shadow_are_not_calls() -> None:
    assert figures(course([point(30), point(30, revision=2)], 60, NOW, shadows={2})).calls == 100


def test_nothing_at_all_is_told_as_such() -> None:
    told = figures(course([], 900, NOW))
    assert (told.rate, told.p99, told.errors) == (0.0, None, 0.0)
    assert set(sparks(Course()).values()) == {""}


def test_only_the_last_minutes_count_as_now() -> None:
    assert figures(course([point(800), point(30, requests=7)], 900, NOW)).calls == 7


def test_a_step_that_has_hardly_begun_belongs_to_the_one_before() -> None:
    early = Moment(NOW - 8 * SECOND)
    past = course([point(18), point(8, requests=10)], 60, early)
    assert (past.requests[-1], past.seconds[-1]) == (110, 11.0)


@given(st.lists(st.tuples(st.integers(0, 899), st.integers(0, 10**9), st.integers(1, 5))))
def test_no_call_is_lost_between_points_and_course(seen: list[tuple[int, int, int]]) -> None:
    points = [point(ago, requests, revision) for ago, requests, revision in seen]
    assert sum(course(points, 900, NOW).requests) == sum(requests for _, requests, _ in seen)
