"""What a round says, refuses and costs."""

import pytest

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import Conflict, Invalid
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CARD, Cohort, Job, Running, Seat, Shape
from tests.jobs.scheduler.clusters import START, Cluster, a_job, a_node, a_queue


def test_a_round_in_which_nothing_can_change_says_nothing() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue()])
    for number in range(20):
        cluster.submit(a_job(f"j{number}"))
    cluster.settle()
    plan = cluster.scheduler.decide(Moment(cluster.now + SECOND))
    assert (plan.starts, plan.stops, plan.resizes, plan.reserves, plan.waits) == ((), (), (), (), ())


def test_a_plan_says_when_to_look_again() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("later", not_before=Moment(START + HOUR)))
    cluster.scheduler.decide(START)
    assert cluster.decide().next == START + HOUR or "later" in cluster.running


def test_a_job_in_no_hosts_zone_waits_for_the_zone_and_starts_nowhere_else() -> None:
    cluster = Cluster(nodes=[a_node(zone="abroad")], queues=[a_queue()])
    cluster.submit(a_job("j"))
    cluster.settle()
    assert cluster.why("j") == "zone"
    assert not cluster.running
    cluster.scheduler.put_node(a_node("home"))
    cluster.settle()
    assert [seat.node for seat in cluster.running["j"].placement] == ["home"]


def test_a_model_that_no_host_has_is_named() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("j", shape=Shape(cpu_milli=0, memory_mib=0, gpus=1, models=("B300",))))
    cluster.settle()
    assert cluster.why("j") == "model"


def test_more_than_any_quota_allows_is_never() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue("q", gpus=2)])
    cluster.submit(a_job("j", queue="q", gpus=4))
    cluster.settle()
    wait = cluster.plans[0].waits[0]
    assert (wait.kind, wait.resource) == ("never", "gpu")
    assert wait.sentence == "It needs 4 GPUs, and queue q may have at most 2 GPUs: ask for less, or for more quota."


def test_one_that_never_fits_stops_nobody_behind_it() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("huge", gpus=9, priority=100))
    cluster.submit(a_job("small"))
    cluster.settle()
    assert list(cluster.running) == ["small"]


def test_a_queue_whose_budget_is_spent_starts_nothing_that_costs() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue(budget=10_000_000, spent=8_000_000)])
    cluster.submit(a_job("dear", duration=HOUR, price_per_hour=3_000_000))
    cluster.submit(a_job("free"))
    cluster.settle()
    assert list(cluster.running) == ["free"]
    assert cluster.why("dear") == "budget"
    cluster.scheduler.put_queues([a_queue(budget=20_000_000, spent=8_000_000)], [])
    cluster.settle()
    assert "dear" in cluster.running


def test_what_runs_counts_against_the_budget_before_it_is_paid() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue(budget=10_000_000)])
    for number in range(4):
        cluster.submit(a_job(f"j{number}", duration=HOUR, price_per_hour=4_000_000))
    cluster.settle()
    assert len(cluster.running) == 2
    cluster.advance(2 * HOUR)
    assert len(cluster.ended) == 2


def test_what_runs_for_longer_than_it_said_counts_for_as_long_as_it_runs() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue(budget=10_000_000)])
    cluster.submit(a_job("long", duration=MINUTE, price_per_hour=4_000_000), takes=5 * HOUR)
    cluster.advance(2 * HOUR)
    cluster.submit(a_job("next", at=cluster.now, duration=HOUR, price_per_hour=4_000_000))
    cluster.settle()
    assert cluster.why("next") == "budget"


def test_who_saves_when_it_is_asked_to_stop_loses_nothing_and_is_asked_first() -> None:
    cluster = Cluster(nodes=[a_node(cards=2)], queues=[a_queue()])
    cluster.submit(a_job("saves", saves=True), takes=9 * HOUR)
    cluster.advance(HOUR)
    cluster.submit(a_job("starts-over", at=cluster.now), takes=9 * HOUR)
    cluster.advance(10 * MINUTE)
    cluster.submit(a_job("urgent", at=cluster.now, priority=100))
    plan = cluster.decide()
    assert [stop.job for stop in plan.stops] == ["saves"]


def test_why_counts_who_is_before() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue()])
    for number in range(5):
        cluster.submit(a_job(f"j{number}", at=START + number))
    cluster.settle()
    wait = cluster.scheduler.why("j4")
    assert wait is not None
    assert (wait.kind, wait.behind) == ("room", 3)
    assert cluster.scheduler.why("j0") is None


def test_quota_says_which_share_and_what_is_left() -> None:
    queues = [a_queue("red", gpus=2, borrow=1, cohort="team"), a_queue("blue", gpus=6, cohort="team")]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[Cohort(name="team", quotas={})])
    for number in range(2):
        cluster.submit(a_job(f"j{number}", queue="red", gpus=2))
    plan = cluster.decide()
    assert plan.waits[0].sentence == "It needs 2 GPUs; queue red uses 2 GPUs of its 2 GPUs and 1 GPU may be had."


@pytest.mark.parametrize(
    "job",
    [
        a_job("j", count=0),
        a_job("j", count=2, least=3),
        a_job("j", duration=-1),
        a_job("j", zones=()),
        a_job("j", gpus=1 << 60),
        a_job("j", shape=Shape(cpu_milli=-5, memory_mib=0)),
        a_job("j", shape=Shape(cpu_milli=0, memory_mib=0, gpus=2, gpu_milli=500)),
        a_job("j", shape=Shape(cpu_milli=0, memory_mib=0, gpus=1, gpu_milli=CARD + 1)),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(job: Job) -> None:
    with pytest.raises(Invalid, match="'j'"):
        Scheduler(queues=[a_queue()]).submitted(job)


def test_absurd_but_lawful_numbers_do_no_harm() -> None:
    most = (1 << 60) - 1
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    shape = Shape(cpu_milli=most, memory_mib=most, gpus=most)
    cluster.submit(a_job("huge", shape=shape, count=most, duration=most, served=most, deadline=Moment(-most), priority=-most))
    cluster.submit(a_job("small"))
    cluster.settle()
    assert list(cluster.running) == ["small"]


def test_a_job_is_known_once() -> None:
    scheduler = Scheduler(queues=[a_queue()])
    scheduler.submitted(a_job("j"))
    with pytest.raises(Conflict, match="waits or runs already"):
        scheduler.submitted(a_job("j"))


def test_a_host_in_use_is_not_dropped() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("j"))
    cluster.settle()
    with pytest.raises(Conflict, match="still runs job 'j'"):
        cluster.scheduler.drop_node("n0")
    cluster.scheduler.ended("j", cluster.now)
    cluster.scheduler.drop_node("n0")


def test_what_ended_before_it_was_known_is_no_matter() -> None:
    scheduler = Scheduler(nodes=[a_node()], queues=[a_queue()])
    scheduler.ended("nobody", START)
    assert scheduler.decide(START).starts == ()


def test_one_found_running_on_a_host_that_is_gone_holds_its_share_until_it_ends() -> None:
    scheduler = Scheduler(nodes=[a_node()], queues=[a_queue("q", gpus=1)])
    scheduler.running(Running(job=a_job("lost", queue="q"), placement=(Seat(node="gone", cards=(0,)),), started=START))
    scheduler.submitted(a_job("next", queue="q"))
    assert scheduler.decide(START).starts == ()
    scheduler.ended("lost", START)
    assert [start.job for start in scheduler.decide(START).starts] == ["next"]


def test_a_cancelled_job_is_not_started() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue()])
    for name in "abc":
        cluster.submit(a_job(name))
    cluster.settle()
    cluster.scheduler.ended("b", cluster.now)
    cluster.advance(HOUR + MINUTE)
    assert "c" in cluster.running
    assert "b" not in cluster.started
