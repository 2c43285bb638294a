"""What a queue is owed, may borrow and lends."""

import pytest

from falaj.base.clock import HOUR, MINUTE, SECOND
from falaj.base.errors import Invalid
from falaj.jobs.scheduler.quotas import available, borrows, ceiling, charge, discharge, plant
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CARD, Cohort, Queue, Quota, Rules
from tests.jobs.scheduler.clusters import Cluster, a_job, a_node, a_queue

TEAM = Cohort(name="team", quotas={})


def two_queues(**rules: int) -> Cluster:
    queues = [a_queue("red", gpus=4, cohort="team"), a_queue("blue", gpus=4, cohort="team")]
    return Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM], rules=Rules(**rules))


def test_a_queue_alone_never_uses_more_than_its_quota() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue("solo", gpus=3)])
    for number in range(5):
        cluster.submit(a_job(f"j{number}", queue="solo"))
    cluster.settle()
    assert cluster.gpus("solo") == 3
    assert cluster.why("j3") == "quota"


def test_idle_shares_are_lent_and_borrowing_stops_at_its_limit() -> None:
    queues = [a_queue("red", gpus=4, borrow=2, cohort="team"), a_queue("blue", gpus=4, cohort="team")]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM])
    for number in range(8):
        cluster.submit(a_job(f"j{number}", queue="red"))
    cluster.settle()
    assert cluster.gpus("red") == 6
    assert cluster.scheduler.shares()["red"]["gpu"] == (4000, 6000, 2000, 0)
    assert cluster.scheduler.shares()["blue"]["gpu"] == (4000, 0, 0, 2000)


def test_what_is_not_lent_stays_idle() -> None:
    queues = [a_queue("red", gpus=4, cohort="team"), a_queue("blue", gpus=4, lend=1, cohort="team")]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM])
    for number in range(8):
        cluster.submit(a_job(f"j{number}", queue="red"))
    cluster.settle()
    assert cluster.gpus("red") == 5


def test_a_start_says_whether_it_borrows() -> None:
    cluster = two_queues()
    for number in range(5):
        cluster.submit(a_job(f"j{number}", queue="red"))
    plan = cluster.decide()
    assert [start.borrowed for start in plan.starts] == [False] * 4 + [True]


def test_a_lent_share_comes_back_within_the_grace_period() -> None:
    cluster = two_queues()
    cluster.slow_to_stop = True
    for number in range(8):
        cluster.submit(a_job(f"r{number}", queue="red"), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("b", queue="blue", gpus=4, at=cluster.now))
    asked = cluster.now
    cluster.advance(31 * SECOND)
    assert cluster.started["b"] - asked <= 30 * SECOND
    assert cluster.gpus("red") == 4


def test_a_borrower_that_asked_for_an_hour_s_grace_gives_back_within_what_all_have() -> None:
    cluster = two_queues()
    cluster.slow_to_stop = True
    for number in range(8):
        cluster.submit(a_job(f"r{number}", queue="red", grace=3600 * SECOND), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("b", queue="blue", gpus=4, at=cluster.now))
    asked = cluster.now
    plan = cluster.decide()
    assert {stop.until for stop in plan.stops} == {asked + 120 * SECOND}


def test_a_stream_of_short_borrowers_does_not_withhold_what_is_owed() -> None:
    cluster = two_queues()
    for number in range(8):
        cluster.submit(a_job(f"r{number}", queue="red"), takes=50 * SECOND)
    cluster.advance(10 * SECOND)
    cluster.submit(a_job("b", queue="blue", gpus=4, at=cluster.now))
    asked = cluster.now
    for number in range(60):
        for part in range(2):
            cluster.submit(a_job(f"s{number}-{part}", queue="red", at=cluster.now), takes=50 * SECOND)
        cluster.advance(5 * SECOND)
    assert cluster.started["b"] - asked <= 90 * SECOND


def test_what_is_owed_to_one_that_another_was_quicker_than_comes_back_too() -> None:
    """Of two that are owed, the first gets what one borrower gives back; the second needs what is left of it and more."""
    queues = [a_queue("poor", gpus=0, cohort="team"), a_queue("rich", gpus=4, cohort="team")]
    nodes = [a_node("n0", cards=4), a_node("n1", cards=4, zone="there")]
    cluster = Cluster(nodes=nodes, queues=queues, cohorts=[TEAM])
    cluster.submit(a_job("one", queue="poor", priority=5))
    cluster.submit(a_job("two", queue="poor", gpus=2))
    cluster.submit(a_job("own", queue="rich"))
    cluster.advance(MINUTE)
    cluster.submit(a_job("first", queue="rich", at=cluster.now))
    cluster.submit(a_job("second", queue="rich", count=2, at=cluster.now, zones=("there",)))
    cluster.settle()
    assert cluster.gpus("rich") == 4


def test_what_is_owed_gets_a_host_whole_though_others_own_shares_lie_on_every_one() -> None:
    """They move to where borrowers give back too."""
    shares = {"red": 4, "blue": 2, "green": 2}
    queues = [a_queue(name, gpus=gpus, cohort="team") for name, gpus in shares.items()]
    cluster = Cluster(nodes=[a_node("n0", cards=4), a_node("n1", cards=4)], queues=queues, cohorts=[TEAM])
    cluster.submit(a_job("filler", queue="red", gpus=4), takes=SECOND)
    for host in range(2):
        for number, queue in enumerate(("green", "blue", "blue", "blue")):
            cluster.submit(a_job(f"{queue}{host}{number}", queue=queue), takes=100 * HOUR)
            cluster.settle()
        cluster.advance(2 * SECOND)
    cluster.advance(11 * MINUTE)
    assert (cluster.gpus("blue"), cluster.gpus("green")) == (6, 2)
    cluster.submit(a_job("wide", queue="red", gpus=4, at=cluster.now), takes=HOUR)
    cluster.advance(MINUTE)
    assert cluster.started["wide"] <= cluster.now
    assert {queue: cluster.gpus(queue) for queue in shares} == shares
    assert len(cluster.stopped) == 5


def test_a_queue_over_its_own_share_reclaims_nothing() -> None:
    cluster = two_queues()
    for number in range(6):
        cluster.submit(a_job(f"r{number}", queue="red"), takes=100 * HOUR)
    for number in range(2):
        cluster.submit(a_job(f"b{number}", queue="blue"), takes=100 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("b-large", queue="blue", gpus=3, at=cluster.now))
    cluster.advance(HOUR)
    assert "b-large" not in cluster.started
    assert not cluster.stopped


def test_a_queue_without_reclaim_waits_for_what_it_lent() -> None:
    queues = [a_queue("red", gpus=4, cohort="team"), a_queue("blue", gpus=4, cohort="team", reclaim=False)]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM])
    for number in range(8):
        cluster.submit(a_job(f"r{number}", queue="red"), takes=2 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("b", queue="blue", at=cluster.now))
    cluster.advance(HOUR)
    assert not cluster.stopped
    assert "b" not in cluster.started


def test_what_cannot_be_taken_back_is_not_lent() -> None:
    cluster = two_queues()
    for number in range(6):
        cluster.submit(a_job(f"j{number}", queue="red", preemptible=False))
    cluster.settle()
    assert cluster.gpus("red") == 4


def test_a_resource_that_one_queue_of_a_tree_names_is_limited_for_all_of_it() -> None:
    queues = [
        Queue(name="red", quotas={"gpu": Quota(nominal=4 * CARD, lend=CARD)}, cohort="team"),
        Queue(name="blue", quotas={}, cohort="team"),
    ]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM])
    for number in range(3):
        cluster.submit(a_job(f"b{number}", queue="blue"))
    cluster.settle()
    assert cluster.gpus("blue") == 1


def test_quota_of_one_model_keeps_a_job_to_the_others() -> None:
    queue = Queue(name="q", quotas={"gpu:A100": Quota(nominal=CARD)})
    old = a_node("old", cards=0)
    nodes = [a_node("new"), type(old)(name="old", zone="here", cpu_milli=1000, memory_mib=1000, cards=("A100",) * 8)]
    cluster = Cluster(nodes=nodes, queues=[queue])
    for number in range(10):
        cluster.submit(a_job(f"j{number}", queue="q"))
    cluster.settle()
    hosts = [seat.node for running in cluster.running.values() for seat in running.placement]
    assert hosts.count("old") == 1
    assert hosts.count("new") == 8


def test_cohorts_in_a_tree_lend_to_each_other_through_their_parent() -> None:
    cohorts = [
        Cohort(name="all", quotas={}),
        Cohort(name="left", parent="all", quotas={}),
        Cohort(name="right", parent="all", quotas={}),
    ]
    queues = [a_queue("l", gpus=2, cohort="left"), a_queue("r", gpus=6, cohort="right")]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=cohorts)
    for number in range(8):
        cluster.submit(a_job(f"l{number}", queue="l"), takes=100 * HOUR)
    cluster.settle()
    assert cluster.gpus("l") == 8
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("r", queue="r", gpus=6, at=cluster.now))
    cluster.settle()
    assert cluster.gpus("r") == 6
    assert cluster.gpus("l") == 2


def test_a_cohort_lends_no_more_than_its_limit_outside_itself() -> None:
    cohorts = [
        Cohort(name="all", quotas={}),
        Cohort(name="left", parent="all", quotas={"gpu": Quota(nominal=0, lend=2 * CARD)}),
        Cohort(name="right", parent="all", quotas={}),
    ]
    branches = plant([a_queue("l", gpus=6, cohort="left"), a_queue("r", gpus=0, cohort="right")], cohorts)
    assert available(branches["r"], 0) == ceiling(branches["r"], 0) == 2 * CARD
    assert available(branches["l"], 0) == 6 * CARD
    charge(branches["r"], ((0, 2 * CARD),))
    assert available(branches["l"], 0) == 4 * CARD
    assert borrows(branches["r"], ((0, 1),))
    discharge(branches["r"], ((0, 2 * CARD),))
    assert available(branches["l"], 0) == 6 * CARD


def test_quota_lowered_below_what_is_used_stops_nothing_and_starts_nothing() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue("q", gpus=6)])
    for number in range(6):
        cluster.submit(a_job(f"j{number}", queue="q"), takes=10 * HOUR)
    cluster.settle()
    cluster.scheduler.put_queues([a_queue("q", gpus=2)], [])
    cluster.submit(a_job("late", queue="q", at=cluster.now))
    cluster.advance(HOUR)
    assert len(cluster.running) == 6
    assert not cluster.stopped
    assert cluster.why("late") == "quota"
    cluster.advance(12 * HOUR)
    assert "late" in cluster.ended


def test_a_queue_removed_while_in_use_lets_its_jobs_end_and_starts_no_more() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue("q"), a_queue("other")])
    cluster.submit(a_job("one", queue="q"))
    cluster.submit(a_job("two", queue="q"))
    cluster.settle()
    cluster.scheduler.put_queues([a_queue("other")], [])
    cluster.advance(2 * HOUR)
    assert set(cluster.ended) == {"one"}
    assert cluster.why("two") == "queue-closed"
    cluster.scheduler.put_queues([a_queue("q")], [])
    cluster.settle()
    assert "two" in cluster.running


def test_a_closed_queue_starts_nothing_until_it_is_opened() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue("q", open=False)])
    cluster.submit(a_job("j", queue="q"))
    cluster.settle()
    assert cluster.why("j") == "queue-closed"
    cluster.scheduler.put_queues([a_queue("q")], [])
    cluster.settle()
    assert "j" in cluster.running


@pytest.mark.parametrize(
    ("queues", "cohorts", "says"),
    [
        ([], [Cohort(name="a", parent="b", quotas={}), Cohort(name="b", parent="a", quotas={})], "cycle"),
        ([], [Cohort(name="a", parent="a", quotas={})], "cycle"),
        ([], [Cohort(name="a", parent="nowhere", quotas={})], "does not exist"),
        ([a_queue("q", cohort="nowhere")], [], "does not exist"),
        ([a_queue("q"), a_queue("q")], [], "twice"),
        ([], [TEAM, TEAM], "twice"),
        ([a_queue("q", gpus=-1)], [], "expected 0"),
        ([a_queue("q", gpus=1 << 60)], [], "expected 0"),
        ([a_queue("q", weight=-1)], [], "weight"),
    ],
)
def test_queues_that_make_no_sense_are_refused_and_change_nothing(
    queues: list[Queue], cohorts: list[Cohort], says: str
) -> None:
    scheduler = Scheduler(nodes=[a_node()], queues=[a_queue()])
    with pytest.raises(Invalid, match=says):
        scheduler.put_queues(queues, cohorts)
    scheduler.submitted(a_job("j"))
    assert [start.job for start in scheduler.decide(a_job("j").submitted).starts] == ["j"]
