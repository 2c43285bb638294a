"""The examples of docs/scheduling.md, one by one."""

from pathlib import Path

from falaj.base.clock import HOUR, MINUTE, SECOND
from falaj.jobs.scheduler.values import CARD, Cohort, Quota, Rules
from tests.jobs.scheduler.clusters import START, Cluster, a_job, a_node, a_queue

TEAM = Cohort(name="team", quotas={})


def research_and_production(*, borrow: int | None = None, lend: int | None = None) -> Cluster:
    queues = [
        a_queue("research", gpus=4, borrow=borrow, cohort="team"),
        a_queue("production", gpus=4, lend=lend, cohort="team"),
    ]
    return Cluster(nodes=[a_node()], queues=queues, cohorts=[TEAM])


def running_after(cluster: Cluster, jobs: int, queue: str = "research", *, preemptible: bool = True) -> int:
    for number in range(jobs):
        cluster.submit(a_job(f"{queue}{number}", queue=queue, preemptible=preemptible), takes=100 * HOUR)
    cluster.settle()
    return cluster.gpus(queue)


def test_research_runs_what_production_lends() -> None:
    assert running_after(research_and_production(), 10) == 8
    assert running_after(research_and_production(borrow=2), 10) == 6
    assert running_after(research_and_production(lend=1), 10) == 5


def test_what_may_not_be_preempted_runs_within_its_own_share() -> None:
    assert running_after(research_and_production(), 6, preemptible=False) == 4


def test_the_night_counts_in_the_morning_and_weights_count_without_a_past() -> None:
    pool = Cohort(name="team", quotas={"gpu": Quota(nominal=8 * CARD)})
    cluster = Cluster(nodes=[a_node()], queues=[a_queue(name, gpus=0, cohort="team") for name in "ab"], cohorts=[pool])
    cluster.scheduler.remember("a", {"gpu": 8 * CARD * 12 * HOUR}, START)
    for number in range(8):
        for name in "ab":
            cluster.submit(a_job(f"{name}{number}", queue=name))
    cluster.settle()
    assert cluster.gpus("b") > cluster.gpus("a")
    weights = {"a": 1000, "b": 3000}
    queues = [a_queue(name, gpus=0, cohort="team", weight=weight) for name, weight in weights.items()]
    cluster = Cluster(nodes=[a_node()], queues=queues, cohorts=[pool])
    for number in range(8):
        for name in "ab":
            cluster.submit(a_job(f"{name}{number}", queue=name))
    cluster.settle()
    assert (cluster.gpus("a"), cluster.gpus("b")) == (2, 6)


def test_production_takes_back_two() -> None:
    cluster = research_and_production()
    cluster.slow_to_stop = True
    for number in range(8):
        cluster.submit(a_job(f"r{number}", queue="research", at=START + number), takes=100 * HOUR)
        cluster.settle()
        cluster.advance(MINUTE)
    cluster.advance(MINUTE)
    cluster.submit(a_job("p", queue="production", gpus=2, at=cluster.now))
    asked = cluster.now
    cluster.advance(31 * SECOND)
    assert {victim for victim, _ in cluster.stopped} == {"r6", "r7"}
    assert cluster.started["p"] <= asked + 30 * SECOND


def test_the_unknown_one_goes_before_the_long_one_until_it_has_had_four_hours() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue(order="shortest")])
    cluster.submit(a_job("long", duration=5 * HOUR))
    cluster.submit(a_job("unknown"), takes=20 * HOUR)
    cluster.submit(a_job("short", duration=10 * MINUTE))
    cluster.advance(5 * HOUR)
    assert list(cluster.started) == ["short", "unknown", "long"]
    assert cluster.started["long"] - cluster.started["unknown"] - 4 * HOUR < SECOND


def test_an_elastic_job_starts_with_what_there_is_and_gives_back_down_to_its_least() -> None:
    cluster = Cluster(nodes=[a_node(cards=5)], queues=[a_queue()])
    cluster.submit(a_job("elastic", count=8, least=2), takes=100 * HOUR)
    cluster.settle()
    first = len(cluster.running["elastic"].placement)
    cluster.advance(5 * MINUTE)
    cluster.submit(a_job("other", gpus=3, at=cluster.now))
    cluster.settle()
    assert (first, len(cluster.running["elastic"].placement), "other" in cluster.running) == (5, 2, True)


def test_the_gang_starts_when_the_ten_hours_are_over() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue()])
    cluster.submit(a_job("taken", gpus=2, duration=10 * HOUR))
    cluster.settle()
    cluster.submit(a_job("gang", count=8, duration=HOUR))
    cluster.advance(2 * HOUR)
    for name, hours in (("two", 2), ("twenty", 20), ("unknown", 0)):
        cluster.submit(a_job(name, duration=hours * HOUR, at=cluster.now))
    cluster.advance(9 * HOUR + MINUTE)
    assert cluster.started["two"] == START + 2 * HOUR
    assert cluster.started["gang"] == START + 10 * HOUR
    assert min(cluster.started["twenty"], cluster.started["unknown"]) >= START + 11 * HOUR


def test_four_hours_of_waiting_outweigh_a_priority_of_thirty() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue(preempt=False)], rules=Rules())
    cluster.submit(a_job("holder", priority=100), takes=4 * HOUR)
    cluster.settle()
    cluster.submit(a_job("patient"))
    cluster.advance(4 * HOUR - SECOND)
    cluster.submit(a_job("newcomer", priority=29, at=cluster.now))
    cluster.advance(MINUTE)
    assert "patient" in cluster.started
    assert "newcomer" not in cluster.started


def test_the_third_job_waits_for_the_budget() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[a_queue(budget=10_000_000)])
    for number in range(3):
        cluster.submit(a_job(f"j{number}", duration=HOUR, price_per_hour=4_000_000))
    cluster.settle()
    assert len(cluster.running) == 2
    assert cluster.why("j2") == "budget"


def test_the_guide_has_an_example_for_each_of_its_rules() -> None:
    guide = (Path(__file__).resolve().parents[3] / "docs" / "scheduling.md").read_text()
    sections = guide.split("\n## ")[1:]
    ruled = [section for section in sections if not section.startswith(("Where", "Why"))]
    assert len(ruled) == 8
    assert all("\n> " in section for section in ruled)
