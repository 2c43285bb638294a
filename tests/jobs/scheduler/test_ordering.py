"""How jobs of one queue stand in line."""

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.jobs.scheduler.ordering import lift, next_step, service, starves_from
from falaj.jobs.scheduler.values import Rules
from tests.jobs.scheduler.clusters import START, Cluster, a_job, a_node, a_queue

SHIPPED = Rules()


def one_card(**queue: object) -> Cluster:
    return Cluster(nodes=[a_node(cards=1)], queues=[a_queue(**queue)])  # type: ignore[arg-type]


def order_of(cluster: Cluster) -> list[str]:
    cluster.advance(1000 * HOUR)
    return sorted(cluster.started, key=lambda name: cluster.started[name])


def test_the_first_to_come_is_the_first_to_go() -> None:
    cluster = one_card()
    for number, name in enumerate("cab"):
        cluster.submit(a_job(name, at=START + number))
    assert order_of(cluster) == ["c", "a", "b"]


def test_priority_goes_before_age() -> None:
    cluster = one_card(preempt=False)
    cluster.submit(a_job("old", at=START - MINUTE))
    cluster.submit(a_job("urgent", priority=10))
    assert order_of(cluster) == ["urgent", "old"]


def test_where_a_queue_goes_by_length_the_shortest_goes_first() -> None:
    cluster = one_card(order="shortest", preempt=False)
    for name, hours in (("long", 9), ("short", 1), ("middle", 3)):
        cluster.submit(a_job(name, duration=hours * HOUR))
    assert order_of(cluster) == ["short", "middle", "long"]


def test_what_is_left_counts_not_what_was() -> None:
    cluster = one_card(order="shortest", preempt=False)
    cluster.submit(a_job("fresh", duration=2 * HOUR))
    cluster.submit(a_job("nearly", duration=9 * HOUR, served=8 * HOUR))
    assert order_of(cluster) == ["nearly", "fresh"]


def test_a_wide_job_counts_for_its_width() -> None:
    cluster = Cluster(nodes=[a_node(cards=8)], queues=[a_queue(order="shortest", preempt=False)])
    cluster.submit(a_job("wide", gpus=8, duration=2 * HOUR))
    cluster.submit(a_job("narrow", gpus=1, duration=5 * HOUR))
    assert order_of(cluster) == ["narrow", "wide"]


def test_a_much_shorter_job_takes_the_place_of_a_longer_one() -> None:
    cluster = one_card(order="shortest")
    cluster.submit(a_job("long", duration=90 * HOUR))
    cluster.advance(HOUR)
    cluster.submit(a_job("short", duration=HOUR, at=cluster.now))
    cluster.advance(3 * HOUR)
    assert cluster.ended["short"] == START + 2 * HOUR
    cluster.advance(100 * HOUR)
    assert cluster.stopped == [("long", "short")]
    assert "long" in cluster.ended


def test_of_unknown_lengths_whoever_had_least_goes_first() -> None:
    cluster = one_card(order="shortest")
    cluster.submit(a_job("old"), takes=50 * HOUR)
    cluster.advance(10 * HOUR)
    cluster.submit(a_job("new", at=cluster.now), takes=HOUR // 2)
    cluster.advance(2 * HOUR)
    assert cluster.ended["new"] == START + 10 * HOUR + HOUR // 2


def test_of_unknown_lengths_nobody_is_stopped_by_its_like_at_once() -> None:
    cluster = one_card(order="shortest")
    cluster.submit(a_job("first"), takes=50 * HOUR)
    cluster.submit(a_job("second"), takes=50 * HOUR)
    cluster.advance(30 * MINUTE)
    assert not cluster.stopped
    cluster.advance(45 * MINUTE)
    assert cluster.stopped == [("first", "second")]


def test_one_that_outlasts_what_it_declared_is_treated_as_unknown() -> None:
    job = a_job("j", duration=HOUR)
    assert service(job, 0) < service(job, 2 * HOUR)
    assert service(job, 2 * HOUR) == service(a_job("j"), 2 * HOUR)


def test_a_step_ends_where_the_next_begins() -> None:
    job = a_job("j")
    for served in (0, 30 * MINUTE, HOUR, 5 * HOUR):
        jump = next_step(job, served)
        assert service(job, served + jump) > service(job, served)
        assert service(job, served + jump - 1) == service(job, served)


def test_waiting_lifts_a_job_step_by_step() -> None:
    job = a_job("j")
    assert lift(job, SHIPPED, False, START) == (0, START + HOUR)
    assert lift(job, SHIPPED, False, START + 3 * HOUR) == (30, START + 4 * HOUR)
    assert lift(job, SHIPPED, False, START - DAY) == (0, START + HOUR)


def test_a_low_priority_overtakes_a_higher_one_that_came_much_later() -> None:
    cluster = one_card(preempt=False)
    cluster.submit(a_job("holder", priority=100), takes=5 * HOUR)
    cluster.settle()
    cluster.submit(a_job("patient", priority=0))
    cluster.advance(4 * HOUR)
    cluster.submit(a_job("newcomer", priority=30, at=cluster.now))
    cluster.advance(2 * HOUR)
    assert cluster.started["patient"] == START + 5 * HOUR


def test_a_deadline_raises_urgency_as_time_runs_out() -> None:
    job = a_job("j", deadline=Moment(START + 10 * HOUR), duration=2 * HOUR)
    aged = [lift(job, SHIPPED, False, START + hours * HOUR)[0] - 10 * hours for hours in range(11)]
    assert aged[0] == aged[3] == 0
    assert aged == sorted(aged)
    assert aged[8] == aged[10] == 100


def test_a_job_that_must_be_done_soon_goes_before_one_that_has_time() -> None:
    cluster = one_card()
    cluster.submit(a_job("holder"), takes=HOUR)
    cluster.settle()
    cluster.submit(a_job("relaxed", at=START + 1))
    cluster.submit(a_job("due", at=START + 2, deadline=Moment(START + 3 * HOUR), duration=HOUR))
    cluster.advance(2 * HOUR)
    assert cluster.ended["due"] == START + 2 * HOUR


def test_one_held_back_is_not_started_before_its_time() -> None:
    cluster = one_card()
    cluster.submit(a_job("retry", not_before=Moment(START + HOUR)))
    cluster.scheduler.decide(START)
    why = cluster.scheduler.why("retry")
    assert why is None or why.kind == "held" or cluster.started == {}
    cluster.advance(2 * HOUR)
    assert cluster.started["retry"] == START + HOUR


def test_the_clock_going_back_is_taken_to_stand_still() -> None:
    cluster = one_card()
    cluster.submit(a_job("j"))
    cluster.settle()
    cluster.scheduler.ended("j", Moment(START - DAY))
    cluster.submit(a_job("k"))
    plan = cluster.scheduler.decide(Moment(START - 2 * DAY))
    assert [start.job for start in plan.starts] == ["k"]
    assert plan.at == START


def test_a_length_bounds_patience_where_a_queue_goes_by_length() -> None:
    job = a_job("j", duration=DAY)
    assert starves_from(job, SHIPPED, False) == START + 7 * DAY
    assert starves_from(job, SHIPPED, True) == START + 64 * DAY
    assert starves_from(a_job("k", duration=SECOND), SHIPPED, True) == START + 7 * DAY
