"""Who gives back for whom."""

import pytest

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.jobs.scheduler.values import Cohort, Rules
from tests.jobs.scheduler.clusters import START, Cluster, a_job, a_node, a_queue

TEAM = Cohort(name="team", quotas={})


def full_of(*jobs: tuple[str, int, int], cards: int = 8) -> Cluster:
    """One host, taken by jobs of (name, GPUs, priority) that have run for ten minutes."""
    cluster = Cluster(nodes=[a_node(cards=cards)], queues=[a_queue()])
    for name, gpus, priority in jobs:
        cluster.submit(a_job(name, gpus=gpus, priority=priority), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    assert len(cluster.running) == len(jobs)
    return cluster


def test_a_higher_priority_takes_the_place_of_a_lower_one() -> None:
    cluster = full_of(("low", 8, 0))
    cluster.submit(a_job("high", gpus=8, priority=1, at=cluster.now))
    cluster.settle()
    assert list(cluster.running) == ["high"]
    assert cluster.stopped == [("low", "high")]


@pytest.mark.parametrize("priority", [0, 1])
def test_an_equal_or_lower_priority_waits(priority: int) -> None:
    cluster = full_of(("first", 8, 1))
    cluster.submit(a_job("second", gpus=8, priority=priority, at=cluster.now))
    cluster.settle()
    assert not cluster.stopped


def test_a_queue_without_preemption_stops_nothing() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue(preempt=False)])
    cluster.submit(a_job("low", gpus=8), takes=2 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("high", gpus=8, priority=100, at=cluster.now))
    cluster.settle()
    assert not cluster.stopped


def test_the_fewest_victims_are_stopped() -> None:
    cluster = full_of(("a", 2, 0), ("b", 2, 0), ("c", 4, 0))
    cluster.submit(a_job("high", gpus=4, priority=1, at=cluster.now))
    cluster.settle()
    assert cluster.stopped == [("c", "high")]


def test_of_equally_few_the_lowest_priority_is_stopped() -> None:
    cluster = full_of(("a", 4, 5), ("b", 4, 3))
    cluster.submit(a_job("high", gpus=4, priority=9, at=cluster.now))
    cluster.settle()
    assert cluster.stopped == [("b", "high")]


def test_of_equals_the_one_that_loses_least_is_stopped() -> None:
    cluster = full_of(("a", 4, 0), ("b", 4, 0))
    cluster.scheduler.checkpointed("a", Moment(cluster.now - SECOND))
    cluster.submit(a_job("high", gpus=4, priority=9, at=cluster.now))
    cluster.settle()
    assert cluster.stopped == [("a", "high")]


def test_borrowers_go_before_the_queues_own() -> None:
    queues = [a_queue("mine", gpus=8, cohort="team"), a_queue("borrower", gpus=0, cohort="team")]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM])
    cluster.submit(a_job("own", queue="mine", gpus=4, priority=0), takes=100 * HOUR)
    cluster.submit(a_job("lent", queue="borrower", gpus=4, priority=50), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("new", queue="mine", gpus=4, priority=9, at=cluster.now))
    cluster.settle()
    assert cluster.stopped == [("lent", "new")]


def test_reclaiming_stops_at_what_is_owed() -> None:
    queues = [a_queue(name, gpus=4, cohort="team") for name in ("red", "blue")]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM])
    for number in range(8):
        cluster.submit(a_job(f"r{number}", queue="red"), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    for number in range(8):
        cluster.submit(a_job(f"b{number}", queue="blue", priority=100, at=cluster.now), takes=100 * HOUR)
    cluster.advance(HOUR)
    assert cluster.gpus("red") == cluster.gpus("blue") == 4
    assert len(cluster.stopped) == 4


def test_nothing_is_stopped_before_its_minimum_run() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()], rules=Rules(least_run=5 * MINUTE))
    cluster.submit(a_job("low", gpus=8), takes=100 * HOUR)
    cluster.settle()
    cluster.submit(a_job("high", gpus=8, priority=1))
    cluster.settle()
    assert not cluster.stopped
    cluster.advance(5 * MINUTE + SECOND)
    assert cluster.started["high"] == START + 5 * MINUTE


def test_who_may_not_be_preempted_is_not() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("firm", gpus=8, preemptible=False), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("high", gpus=8, priority=100, at=cluster.now))
    cluster.advance(HOUR)
    assert not cluster.stopped


def test_a_victim_keeps_its_seats_through_its_grace_and_nobody_else_gets_them() -> None:
    cluster = full_of(("a", 4, 0), ("b", 4, 0))
    cluster.slow_to_stop = True
    cluster.submit(a_job("high", gpus=8, priority=9, at=cluster.now))
    plan = cluster.decide()
    assert {stop.until for stop in plan.stops} == {cluster.now + 30 * SECOND}
    cluster.scheduler.ended("a", cluster.now)
    cluster.running.pop("a")
    cluster.submit(a_job("sneak", gpus=4, priority=5, at=cluster.now))
    cluster.settle()
    assert "sneak" not in cluster.running
    cluster.advance(31 * SECOND)
    assert "high" in cluster.running


def test_the_place_of_one_that_is_cancelled_goes_to_others() -> None:
    cluster = full_of(("low", 8, 0))
    cluster.slow_to_stop = True
    cluster.submit(a_job("high", gpus=8, priority=9, at=cluster.now))
    cluster.settle()
    cluster.submit(a_job("next", gpus=8, priority=5, at=cluster.now))
    cluster.scheduler.ended("high", cluster.now)
    cluster.waiting.pop("high")
    cluster.advance(31 * SECOND)
    assert "next" in cluster.running


def test_nobody_is_stopped_for_a_job_that_could_never_run() -> None:
    cluster = full_of(("low", 8, 0))
    cluster.submit(a_job("huge", gpus=8, count=2, priority=9, at=cluster.now))
    cluster.settle()
    assert not cluster.stopped
    assert cluster.why("huge") == "never"


def test_a_gang_clears_the_hosts_that_cost_least() -> None:
    cluster = Cluster(nodes=[a_node(f"n{number}") for number in range(4)], queues=[a_queue()])
    for number in range(4):
        for part in range(1 if number < 2 else 4):
            cluster.submit(a_job(f"j{number}-{part}", gpus=8 if number < 2 else 2, priority=0), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("gang", gpus=8, count=2, priority=1, at=cluster.now))
    cluster.settle()
    assert len(cluster.stopped) == 2
    assert "gang" in cluster.running


def test_lifts_by_waiting_let_nobody_stop_others() -> None:
    cluster = full_of(("running", 8, 0))
    cluster.submit(a_job("waiting", gpus=8, at=cluster.now))
    cluster.advance(50 * HOUR)
    assert not cluster.stopped
