"""Priority classes that say within what time their jobs start: more urgent as it runs out, and reported."""

from falaj.base.clock import DAY, SECOND, Moment
from falaj.cli.queue_files import read_queue_file
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.operations.nodes import READ_CAPACITY_REPORT, LevelMet, ReadCapacity
from falaj.jobs.operations.queues import PriorityClass
from falaj.jobs.orders import order_of
from falaj.jobs.scheduler.ordering import lift
from falaj.jobs.scheduler.values import Job, Rules
from falaj.jobs.store import jobs
from tests.jobs.cluster import START, Cluster, settle
from tests.jobs.yard import CLOSED, OPEN, Yard


def standing(spec: Spec, start_within: int) -> Job:
    return order_of(spec, id="j", project="p", user="u", queue="q", priority=0, zone="z", now=START, start_within=start_within)


def test_a_job_becomes_more_urgent_as_the_time_of_its_class_runs_out():
    plain, promised = standing(Spec(command=("a",)), 0), standing(Spec(command=("a",), seconds=600), 4 * 3600)
    assert (plain.deadline, promised.deadline) == (None, START + (4 * 3600 + 600) * SECOND)
    lifts = [lift(promised, Rules(aging=3600 * SECOND), False, START + hours * 3600 * SECOND)[0] for hours in (0, 3, 4, 9)]
    assert lifts[0] == 0
    assert lifts == sorted(set(lifts))


def test_of_a_deadline_and_what_a_class_promises_the_sooner_counts():
    sooner, later = Moment(START + SECOND), Moment(START + DAY)
    assert standing(Spec(command=("a",), deadline=sooner), 60).deadline == sooner
    assert standing(Spec(command=("a",), deadline=later), 60).deadline == START + 60 * SECOND


def test_how_many_started_in_time_is_counted_and_what_is_not_due_or_was_called_off_is_not(cluster: Cluster):
    def counted() -> tuple[int, int]:
        now = cluster.clock.now()
        return cluster.database.read(lambda work: jobs.started_in_time(work, "gold", 60 * SECOND, START, now))

    rows = [cluster.row("1000") | {"priority": "gold"} for _ in range(2)]
    cluster.add(rows)
    controller = cluster.controller()
    settle(controller)
    cluster.clock.forward(1)
    settle(controller)
    waiting = [cluster.row("1", zone="away") | {"priority": "gold"} for _ in range(2)]
    cluster.add(waiting)
    cluster.cancel(waiting[1]["id"])
    settle(controller)
    assert counted() == (2, 2)
    cluster.clock.forward(100)
    assert counted() == (3, 2)


def test_a_class_is_set_with_the_queues_and_reported(yard: Yard):
    text = '[[queue]]\nname = "default"\n[[priority]]\nname = "gold"\nvalue = 1\nstart_within = "10m"\n'
    told = read_queue_file(text, dry_run=False)
    assert told.priorities[0].start_within_seconds == 600
    gold = PriorityClass(name="gold", value=1, start_within_seconds=1)
    yard.apply(OPEN, CLOSED, priorities=(PriorityClass(name="normal", value=0), gold))
    waits = yard.submit("true", priority="gold", queue="closed").job
    yard.run("true")

    def report() -> tuple[LevelMet, ...]:
        levels: tuple[LevelMet, ...] = yard.call(READ_CAPACITY_REPORT, ReadCapacity(days=1)).levels
        return levels

    (level,) = yard.when(report, lambda levels: levels[0].jobs == 1)
    assert level == LevelMet(priority="gold", start_within_seconds=1, jobs=1, met=0)
    yard.cancel(waits.id)
