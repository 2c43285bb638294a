"""What is counted while jobs run, and what it costs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import HOUR, MINUTE, SECOND, Moment
from falaj.jobs import documents
from falaj.jobs.documents import Document
from falaj.jobs.operations.queues import QueueSpec
from falaj.jobs.operations.words import Resources
from falaj.jobs.pricing import PriceList, cost, dearest
from falaj.jobs.scheduler.values import Shape
from falaj.jobs.store import metering, queues, tables
from tests.jobs.cluster import START, Cluster, node, run, settle

PRICES = PriceList(core=1_000_000, memory_gib=100_000, gpu=2_000_000, gpus={"H100": 5_000_000})


def test_what_was_asked_for_used_and_paid_is_kept_with_the_price_then_in_force(cluster: Cluster):
    cluster.timers.bring(node("gpus", cards=["H100", "H100"]))
    controller = cluster.controller(pricer=PRICES)
    run(cluster, controller, 2)
    job = cluster.submit("1800", resources=Resources(cpus=2, memory_mib=2048, gpus=2))
    settle(controller)
    run(cluster, controller, 1801, each=60.05)
    (row,) = cluster.rows(tables.metering)
    assert (row.job, row.node, row.queue, row.user, row.project) == (job, "gpus", "default", cluster.user, cluster.project)
    assert row.price == 2 * 1_000_000 + 2 * 100_000 + 2 * 5_000_000
    assert row.cost == row.price // 2
    assert (row.cpu_seconds_asked, row.gpu_seconds, row.ended - row.started) == (3600, 3600, 1800 * SECOND)
    usage = json.loads(cluster.tries(job)[0].usage)
    assert (usage["cost"], usage["cpu_seconds"], usage["gpu_seconds"]) == (row.cost, 1800, 3600)


def test_a_job_on_several_nodes_is_metered_on_each(cluster: Cluster):
    controller = cluster.controller(pricer=PRICES)
    cluster.submit("100", tasks=2, resources=Resources(cpus=4, memory_mib=1024))
    settle(controller)
    run(cluster, controller, 101)
    rows = cluster.rows(tables.metering)
    assert sorted(row.node for row in rows) == ["n1", "n2"]
    assert [row.cpu_seconds for row in rows] == [50, 50]
    assert [row.cpu_seconds_asked for row in rows] == [400, 400]


def test_what_never_ran_costs_nothing(small: Cluster):
    small.timers.preparing = 100 * SECOND
    controller = small.controller(pricer=PRICES)
    job = small.submit("5")
    settle(controller)
    small.cancel(job)
    run(small, controller, 3)
    assert small.job(job).state == "cancelled"
    assert [row.cost for row in small.rows(tables.metering)] == [0]


def test_sums_are_by_project_user_queue_and_node(cluster: Cluster):
    controller = cluster.controller(pricer=PRICES)
    for _ in range(8):
        cluster.submit("60")
    settle(controller)
    run(cluster, controller, 61)
    until = Moment(cluster.clock.now() + 1)

    def summed(by: metering.By, project: str = "") -> dict[str, tuple[float, int]]:
        rows = cluster.database.read(lambda work: metering.sums(work, by, since=START, until=until, project=project))
        return {row.name: (row.cpu_seconds, row.jobs) for row in rows}

    assert summed("queue") == {"default": (480, 8)}
    assert summed("user") == {cluster.user: (480, 8)}
    assert summed("project") == {cluster.project: (480, 8)}
    assert summed("node") == {"n1": (240, 4), "n2": (240, 4)}
    assert summed("node", project="another") == {}
    spent = cluster.database.read(lambda work: metering.spent_by_queue(work, START))
    assert spent == {"default": sum(row.cost for row in cluster.rows(tables.metering))}


def test_what_a_queue_with_a_budget_spent_is_told_to_the_scheduler(small: Cluster):
    document = Document(queues=(QueueSpec(name="default", monthly_budget=10**9),))
    small.database.write(lambda work: queues.add(work, serial=1, document=documents.write(document), by="", now=START))
    controller = small.controller(pricer=PRICES)
    small.submit("60")
    settle(controller)
    run(small, controller, 61)
    run(small, controller, 60)
    assert small.schedulers[-1].queues["default"].spent == small.rows(tables.metering)[0].cost > 0


def test_how_full_and_busy_nodes_are_is_written_every_minute(cluster: Cluster):
    controller = cluster.controller()
    cluster.submit("90", resources=Resources(cpus=3))
    settle(controller)
    run(cluster, controller, 240)
    rows = {(row.at, row.node): row for row in cluster.rows(tables.utilisation)}
    minutes = [START + number * MINUTE for number in range(1, 5)]
    total = [rows[at, ""] for at in minutes]
    assert [row.cpus for row in total] == [8] * 4
    assert [row.cpus_held for row in total] == [3, 0, 0, 0]
    assert [round(row.cpus_busy, 3) for row in total] == [1, 0.5, 0, 0]
    # A node at rest is written once, not for ever.
    assert [(at, "n1") in rows for at in minutes] == [True, True, True, False]
    assert not any(name == "n2" for _, name in rows)


def test_old_utilisation_is_thinned(cluster: Cluster):
    def fill(work) -> None:
        figures = dict.fromkeys(("cpus", "cpus_held", "cpus_busy", "gpus", "gpus_held", "gpus_busy"), 1.0)
        rows = [{"at": START + n * MINUTE, "node": "", "waiting": 0, **figures} for n in range(60)]
        metering.add_utilisation(work, rows)
        metering.add_utilisation(work, rows)  # again: nothing
        metering.thin_utilisation(work, Moment(START + 30 * MINUTE), 15 * MINUTE, since=START)

    cluster.database.write(fill)
    found = cluster.database.read(lambda work: metering.utilisation_between(work, START, Moment(START + HOUR)))
    assert [row.at for row in found[:3]] == [START, START + 15 * MINUTE, START + 30 * MINUTE]
    assert len(found) == 2 + 30
    coarse = metering.utilisation_between
    quarters = cluster.database.read(lambda work: coarse(work, START, Moment(START + HOUR), every=15 * MINUTE))
    assert len(quarters) == 4


def test_minutes_of_long_ago_become_quarters_of_an_hour_by_themselves(small: Cluster):
    controller = small.controller()
    settle(controller)
    run(small, controller, 3600, each=60)
    assert len(small.rows(tables.utilisation)) == 60
    small.clock.moment = Moment(small.clock.moment + 14 * 24 * HOUR)
    settle(controller)
    assert [row.at % (15 * MINUTE) for row in small.rows(tables.utilisation)][:4] == [0, 0, 0, 0]
    assert len(small.rows(tables.utilisation)) < 10


def test_what_ended_is_remembered_by_who_used_it_and_less_and_less(cluster: Cluster):
    controller = cluster.controller()
    cluster.submit("120", resources=Resources(cpus=2, memory_mib=1000))
    cluster.submit("500", resources=Resources(cpus=1, memory_mib=1000))  # what runs is no past
    settle(controller)
    run(cluster, controller, 121)
    used = {row.resource: row.amount for row in cluster.rows(tables.past_use)}
    assert used == {"cpu": 2000 * 120 * SECOND, "memory": 1000 * 120 * SECOND}
    cluster.clock.moment = Moment(cluster.clock.moment + 24 * HOUR)
    settle(cluster.controller())
    remembered = cluster.schedulers[-1].past["default", cluster.project, cluster.user]
    assert remembered["cpu"] == pytest.approx(used["cpu"] / 2, rel=0.01)


def test_a_job_has_points_over_its_life_and_not_too_many(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit(str(7 * 24 * 3600))
    settle(controller)
    run(cluster, controller, 120, each=2)
    run(cluster, controller, 7 * 24 * 3600, each=500)
    points = cluster.database.read(lambda work: metering.samples_of(work, job))
    assert 50 < len(points) <= 200
    assert all(point.cpus == pytest.approx(1) and point.memory_mib == 100 for point in points)


def test_a_job_whose_cards_do_nothing_is_stopped_where_its_queue_says_so(cluster: Cluster):
    cluster.timers.bring(node("gpus", cards=["H100"] * 4))
    cluster.timers.busy_cards = 0.5
    strict = Document(queues=(QueueSpec(name="default"), QueueSpec(name="strict", idle_gpu_seconds=60)))
    cluster.database.write(lambda work: queues.add(work, serial=1, document=documents.write(strict), by="", now=START))
    controller = cluster.controller()
    run(cluster, controller, 2)
    job = cluster.submit("1000", queue="strict", resources=Resources(gpus=1))
    free = cluster.submit("1000", resources=Resources(gpus=1))
    without = cluster.submit("1000", queue="strict")
    run(cluster, controller, 100)
    assert cluster.job(job).state == "running"
    stalled = cluster.timers._used
    at = stalled({"cards": 1}, 100.0)
    cluster.timers._used = lambda told, seconds: at
    run(cluster, controller, 70)
    assert (cluster.job(job).state, cluster.job(job).cause) == ("failed", "idle")
    assert [cluster.job(other).state for other in (free, without)] == ["running", "running"]


def test_an_engine_that_cannot_tell_is_not_taken_for_idle(small: Cluster):
    small.timers.bring(node("gpus", cards=["H100"]))
    small.timers.busy_cards = 0.0
    strict = Document(queues=(QueueSpec(name="default", idle_gpu_seconds=10),))
    small.database.write(lambda work: queues.add(work, serial=1, document=documents.write(strict), by="", now=START))
    controller = small.controller()
    run(small, controller, 2)
    job = small.submit("1000", resources=Resources(gpus=1))
    run(small, controller, 60)
    assert small.job(job).state == "running"


@given(
    cpu=st.integers(1, 10**6),
    memory=st.integers(16, 10**7),
    cards=st.integers(0, 16),
    span=st.integers(0, 10**12),
    more=st.integers(0, 10**12),
)
def test_more_of_anything_never_costs_less(cpu: int, memory: int, cards: int, span: int, more: int):
    shape = Shape(cpu_milli=cpu, memory_mib=memory, gpus=cards)
    price = PRICES.per_hour(shape, {"H100": cards * 1000}, "home")
    assert price <= PRICES.per_hour(shape, {"H100": (cards + 1) * 1000}, "home")
    assert cost(price, span) <= cost(price, span + more)
    assert dearest(PRICES, shape, "home") == price  # nobody knows the card yet, and an H100 is the dearest
    assert PriceList().per_hour(shape, {"H100": cards * 1000}, "home") == 0
