"""Who goes first among those who borrow, and among users of one queue."""

from falaj.base.clock import DAY, HOUR, MINUTE
from falaj.jobs.scheduler.fairness import Account, Decay, levels
from falaj.jobs.scheduler.values import Cohort, Quota, Rules
from tests.jobs.scheduler.clusters import START, Cluster, a_job, a_node, a_queue

POOL = Cohort(name="team", quotas={"gpu": Quota(nominal=8000)})


def borrowers(**weights: int) -> Cluster:
    queues = [a_queue(name, gpus=0, cohort="team", weight=weight) for name, weight in weights.items()]
    return Cluster(nodes=[a_node()], queues=queues, cohorts=[POOL])


def test_what_is_to_be_borrowed_is_shared_by_weight() -> None:
    cluster = borrowers(light=1000, heavy=3000)
    for number in range(8):
        cluster.submit(a_job(f"l{number}", queue="light"))
        cluster.submit(a_job(f"h{number}", queue="heavy"))
    cluster.settle()
    assert (cluster.gpus("light"), cluster.gpus("heavy")) == (2, 6)


def test_a_queue_of_no_weight_borrows_last() -> None:
    cluster = borrowers(nobody=0, one=1000)
    for number in range(8):
        cluster.submit(a_job(f"n{number}", queue="nobody"))
        cluster.submit(a_job(f"o{number}", queue="one"))
    cluster.settle()
    assert cluster.gpus("one") >= 7


def test_the_dominant_resource_counts() -> None:
    pool = Cohort(name="team", quotas={"gpu": Quota(nominal=8000), "cpu": Quota(nominal=64_000)})
    cluster = Cluster(
        nodes=[a_node(cpu=64)],
        queues=[a_queue("cpus", gpus=0, cohort="team"), a_queue("cards", gpus=0, cohort="team")],
        cohorts=[pool],
    )
    shape_of_cpus = type(a_job("x").shape)(cpu_milli=16_000, memory_mib=0)
    for number in range(8):
        cluster.submit(a_job(f"a{number}", queue="cpus", shape=shape_of_cpus))
        cluster.submit(a_job(f"b{number}", queue="cards", gpus=2))
    cluster.settle()
    running = [running.job.queue for running in cluster.running.values()]
    assert (running.count("cpus"), running.count("cards")) == (4, 4)


def test_who_stays_within_its_own_share_goes_before_borrowers() -> None:
    cluster = Cluster(
        nodes=[a_node(cards=4)],
        queues=[a_queue("own", gpus=4, cohort="team"), a_queue("lent", gpus=0, cohort="team")],
        cohorts=[Cohort(name="team", quotas={})],
    )
    cluster.submit(a_job("b", queue="lent", gpus=4))
    cluster.submit(a_job("a", queue="own", gpus=4, at=START + MINUTE))
    cluster.settle()
    assert list(cluster.running) == ["a"]


def test_yesterdays_heavy_user_waits_today() -> None:
    cluster = borrowers(busy=1000, quiet=1000)
    cluster.scheduler.remember("busy", {"gpu": 8000 * 12 * HOUR}, START)
    for number in range(8):
        cluster.submit(a_job(f"b{number}", queue="busy", at=START - MINUTE))
        cluster.submit(a_job(f"q{number}", queue="quiet"))
    cluster.settle()
    assert cluster.gpus("quiet") > cluster.gpus("busy")


def test_past_use_is_forgotten_by_halves() -> None:
    cluster = borrowers(busy=1000, quiet=1000)
    cluster.scheduler.remember("busy", {"gpu": 8000 * 12 * HOUR}, START)
    cluster.now = type(START)(START + 30 * DAY)
    for number in range(8):
        cluster.submit(a_job(f"b{number}", queue="busy", at=cluster.now))
        cluster.submit(a_job(f"q{number}", queue="quiet", at=cluster.now))
    cluster.settle()
    assert cluster.gpus("quiet") == cluster.gpus("busy") == 4


def test_users_of_a_queue_take_turns_by_what_they_have_had() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue()])
    cluster.scheduler.remember("default", {"gpu": 1000 * 10 * HOUR}, START, project="p", user="greedy")
    cluster.submit(a_job("g", user="greedy", at=START - MINUTE))
    cluster.submit(a_job("n", user="new"))
    cluster.settle()
    assert list(cluster.running) == ["n"]


def test_projects_of_a_queue_take_turns_too() -> None:
    cluster = Cluster(nodes=[a_node(cards=1)], queues=[a_queue()], rules=Rules(aging=DAY))
    for number in range(6):
        cluster.submit(a_job(f"big{number}", project="big", at=START - MINUTE), takes=HOUR)
    cluster.settle()
    cluster.submit(a_job("small", project="small", at=START + MINUTE), takes=HOUR)
    cluster.advance(2 * HOUR)
    assert cluster.started["small"] == START + HOUR


def test_small_differences_between_users_are_none() -> None:
    accounts = {name: Account() for name in "abc"}
    for account, used in zip(accounts.values(), (1.0, 1.1, 4.0), strict=True):
        account.waiting, account.average = 1, used
    assert levels(accounts, 1.0) == {"a": 0, "b": 0, "c": 1}


def test_memory_of_use_is_the_same_whenever_it_is_looked_at() -> None:
    decay, account = Decay(DAY), Account()
    account.began(2.0, decay.at(START))
    account.stopped(2.0, decay.at(START + DAY))
    assert abs(account.use(decay.at(START + DAY)) - 1.0) < 1e-9
    assert abs(account.use(decay.at(START + 2 * DAY)) - 0.5) < 1e-9


def test_memory_of_use_lasts_for_years_without_overflow() -> None:
    cluster = borrowers(one=1000, other=1000)
    for year in range(12):
        cluster.submit(a_job(f"j{year}", queue="one", at=cluster.now), takes=HOUR)
        cluster.advance(365 * DAY)
    assert len(cluster.ended) == 12
