"""Gangs, elastic jobs, backfill, reservations, the bound on waiting."""

from falaj.base.clock import DAY, HOUR, MINUTE, Moment
from falaj.jobs.scheduler.values import Rules
from tests.jobs.scheduler.clusters import START, Cluster, a_job, a_node, a_queue


def test_a_gang_starts_whole_or_not_at_all() -> None:
    cluster = Cluster(nodes=[a_node("n0"), a_node("n1")], queues=[a_queue()])
    cluster.submit(a_job("small"), takes=HOUR)
    cluster.submit(a_job("gang", gpus=8, count=2, at=START + 1))
    cluster.settle()
    assert list(cluster.running) == ["small"]
    assert cluster.why("gang") == "room"
    cluster.advance(2 * HOUR)
    assert cluster.started["gang"] == START + HOUR


def test_an_elastic_job_makes_do_with_less_and_grows_when_nobody_waits() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("other", gpus=6), takes=HOUR)
    cluster.submit(a_job("elastic", count=8, least=2, at=START + 1), takes=10 * HOUR)
    cluster.settle()
    assert len(cluster.running["elastic"].placement) == 2
    cluster.advance(2 * HOUR)
    assert len(cluster.running["elastic"].placement) == 8


def test_an_elastic_job_shrinks_before_anybody_is_stopped() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("elastic", count=8, least=2), takes=10 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("new", gpus=4, priority=5, at=cluster.now))
    cluster.settle()
    assert not cluster.stopped
    assert len(cluster.running["elastic"].placement) == 4
    assert "new" in cluster.running


def test_an_elastic_job_is_stopped_where_shrinking_is_not_enough() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("elastic", count=8, least=2), takes=10 * HOUR)
    cluster.settle()
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("new", gpus=8, priority=5, at=cluster.now))
    cluster.settle()
    assert cluster.stopped == [("elastic", "new")]
    assert "new" in cluster.running


def test_an_elastic_job_takes_no_more_than_its_quota() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue("q", gpus=3)])
    cluster.submit(a_job("elastic", queue="q", count=8, least=1), takes=10 * HOUR)
    cluster.advance(HOUR)
    assert len(cluster.running["elastic"].placement) == 3


def test_a_large_job_that_has_waited_holds_a_place_in_the_future() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("ten", gpus=2, duration=10 * HOUR))
    cluster.settle()
    cluster.submit(a_job("large", gpus=8, duration=HOUR))
    cluster.advance(2 * HOUR)
    cluster.submit(a_job("one", duration=HOUR // 2, at=cluster.now))
    cluster.advance(HOUR)
    reserved = [reserve for plan in cluster.plans for reserve in plan.reserves]
    assert {(reserve.job, reserve.at) for reserve in reserved} == {("large", START + 10 * HOUR)}


def test_backfill_never_delays_a_reserved_start() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("ten", gpus=2, duration=10 * HOUR))
    cluster.settle()
    cluster.submit(a_job("large", gpus=8, duration=HOUR))
    cluster.advance(2 * HOUR)
    for number in range(3):
        cluster.submit(a_job(f"short{number}", gpus=2, duration=2 * HOUR, at=cluster.now))
        cluster.submit(a_job(f"long{number}", gpus=2, duration=20 * HOUR, at=cluster.now))
        cluster.submit(a_job(f"unknown{number}", gpus=1, at=cluster.now))
    cluster.advance(20 * HOUR)
    assert cluster.started["large"] == START + 10 * HOUR
    assert cluster.started["short0"] == START + 2 * HOUR
    assert min(cluster.started[f"long{number}"] for number in range(3)) >= START + 11 * HOUR


def test_backfill_uses_what_a_reserved_start_leaves() -> None:
    cluster = Cluster(nodes=[a_node("n0"), a_node("n1")], queues=[a_queue()])
    for number in range(2):
        cluster.submit(a_job(f"half{number}", gpus=5, duration=(10 + 10 * number) * HOUR))
    cluster.settle()
    cluster.submit(a_job("large", gpus=8, duration=HOUR))
    cluster.advance(2 * HOUR)
    cluster.submit(a_job("forever", gpus=3, at=cluster.now), takes=100 * HOUR)
    cluster.advance(20 * HOUR)
    assert cluster.started["forever"] == START + 2 * HOUR
    assert cluster.started["large"] == START + 10 * HOUR


def test_nobody_waits_beyond_the_bound_whatever_comes() -> None:
    rules = Rules(longest_wait=DAY, aging=100 * DAY)
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()], rules=rules)
    cluster.submit(a_job("poor", gpus=8, priority=-100, at=START + 1), takes=HOUR)
    for hour in range(40):
        for number in range(8):
            cluster.submit(a_job(f"j{hour}-{number}", priority=100, at=cluster.now), takes=HOUR + number * MINUTE)
        cluster.advance(HOUR)
    assert cluster.started["poor"] <= START + DAY + 2 * HOUR


def test_one_that_starved_is_not_outranked_again_at_once() -> None:
    rules = Rules(longest_wait=DAY)
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue(order="shortest")], rules=rules)
    cluster.submit(a_job("long", duration=2 * HOUR, served=HOUR, at=START - 80 * DAY))
    for number in range(10):
        cluster.submit(a_job(f"short{number}", duration=MINUTE, at=START - HOUR))
    cluster.advance(HOUR + MINUTE)
    assert cluster.started["long"] == START
    assert cluster.ended["long"] == START + HOUR
    assert not cluster.stopped


def test_a_place_in_the_future_outlasts_the_scheduler_that_gave_it() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("ten", gpus=2, duration=10 * HOUR))
    cluster.settle()
    cluster.submit(a_job("large", gpus=8, duration=HOUR))
    cluster.advance(2 * HOUR)
    cluster.submit(a_job("long", duration=20 * HOUR, at=cluster.now))
    cluster.submit(a_job("unknown", at=cluster.now))
    cluster.settle()
    cluster.scheduler = cluster.rebuilt()
    plan = cluster.decide()
    assert [(reserve.job, reserve.at) for reserve in plan.reserves] == [("large", START + 10 * HOUR)]
    assert list(cluster.running) == ["ten"]
    cluster.advance(10 * HOUR)
    assert cluster.started["large"] == START + 10 * HOUR


def test_who_is_to_hold_a_place_does_so_before_one_behind_it_takes_what_came_free() -> None:
    """Both at one moment: it has waited long enough, and a card comes free that is too little for it."""
    cluster = Cluster(nodes=[a_node(cards=2)], queues=[a_queue(preempt=False)])
    cluster.submit(a_job("soon", duration=70 * MINUTE))
    cluster.submit(a_job("long", duration=30 * HOUR))
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("wide", gpus=2, duration=MINUTE, at=cluster.now))
    cluster.submit(a_job("behind", duration=30 * HOUR, at=cluster.now + 1))
    cluster.advance(HOUR)
    reserved = [reserve for plan in cluster.plans for reserve in plan.reserves]
    assert {(reserve.job, reserve.at) for reserve in reserved} == {("wide", START + 30 * HOUR)}
    assert list(cluster.running) == ["long"]
    assert not cluster.rebuilt().decide(cluster.now).starts


def test_who_is_to_hold_a_place_does_so_before_another_queue_takes_what_came_free() -> None:
    cluster = Cluster(nodes=[a_node(cards=2)], queues=[a_queue("one"), a_queue("other")])
    cluster.submit(a_job("soon", queue="one", duration=70 * MINUTE))
    cluster.submit(a_job("long", queue="one", duration=30 * HOUR))
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("wide", queue="one", gpus=2, duration=MINUTE, at=cluster.now))
    cluster.submit(a_job("behind", queue="other", duration=30 * HOUR, at=cluster.now + 1))
    cluster.advance(HOUR)
    assert list(cluster.running) == ["long"]
    assert not cluster.rebuilt().decide(cluster.now).starts


def test_a_controller_that_looks_late_keeps_the_place_of_who_stands_first_by_then() -> None:
    cluster = Cluster(nodes=[a_node(cards=2)], queues=[a_queue(preempt=False)])
    cluster.submit(a_job("soon", duration=HOUR))
    cluster.submit(a_job("long", duration=30 * HOUR))
    cluster.submit(a_job("third", duration=30 * HOUR))
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("wide", gpus=2, priority=5, duration=MINUTE, at=cluster.now))
    cluster.settle()
    cluster.now = Moment(START + 70 * MINUTE)
    cluster.settle()
    assert list(cluster.running) == ["long"]
    assert not cluster.rebuilt().decide(cluster.now).starts


def test_one_that_came_to_stand_first_by_waiting_holds_a_place_before_one_behind_it_is_tried() -> None:
    cluster = Cluster(nodes=[a_node(cards=3)], queues=[a_queue(preempt=False)])
    cluster.submit(a_job("soon", duration=65 * MINUTE))
    cluster.submit(a_job("long", gpus=2, duration=30 * HOUR))
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("urgent", gpus=2, priority=5, duration=MINUTE, at=cluster.now))  # first until the other is lifted
    cluster.submit(a_job("wide", gpus=3, duration=MINUTE, at=START + 1))
    cluster.submit(a_job("behind", duration=30 * HOUR, at=START + 2))
    cluster.advance(55 * MINUTE)
    assert list(cluster.running) == ["long"]
    assert not cluster.rebuilt().decide(cluster.now).starts


def test_an_elastic_job_that_began_behind_another_shrinks_for_it_once_that_is_enough() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("half", gpus=4), takes=HOUR)
    cluster.settle()
    cluster.submit(a_job("wide", gpus=6, at=START + 1), takes=HOUR)
    cluster.submit(a_job("elastic", count=4, least=1, at=START + 2), takes=10 * HOUR)
    cluster.advance(HOUR)
    assert cluster.started["wide"] == START + HOUR
    assert len(cluster.running["elastic"].placement) == 2
    assert not cluster.stopped


def test_nobody_waits_for_quota_beyond_the_bound_either() -> None:
    rules = Rules(longest_wait=6 * HOUR, aging=1000 * DAY)
    cluster = Cluster(nodes=[a_node("n0"), a_node("n1")], queues=[a_queue(gpus=8)], rules=rules)
    cluster.submit(a_job("other"), takes=10 * MINUTE)
    cluster.submit(a_job("wide", gpus=8, at=START + 1), takes=HOUR)
    for half_hour in range(20):
        for number in range(8):
            cluster.submit(a_job(f"j{half_hour}-{number}", at=cluster.now), takes=(50 + 5 * number) * MINUTE)
        cluster.advance(HOUR // 2)
    assert START + 6 * HOUR <= cluster.started["wide"] <= START + 8 * HOUR


def test_the_bound_on_waiting_counts_from_when_a_job_stands_in_line_again() -> None:
    """In a queue that goes by length it is 64 times that of the job."""
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue(order="shortest")], rules=Rules(longest_wait=HOUR))
    cluster.submit(a_job("short", duration=HOUR))
    cluster.submit(a_job("nowhere", duration=MINUTE, zones=("there",)))
    cluster.advance(HOUR // 2)
    cluster.submit(a_job("urgent", priority=500, duration=100 * HOUR, at=cluster.now))
    cluster.advance(70 * HOUR)
    assert cluster.stopped == [("short", "urgent")]
    reserved = [plan.at for plan in cluster.plans if any(reserve.job == "short" for reserve in plan.reserves)]
    assert reserved[0] == START + HOUR // 2 + 64 * HOUR
