"""Jobs through the controller, on timers: from being submitted to their end, whatever happens on the way."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from falaj.base.clock import SECOND, Moment
from falaj.base.ids import PrincipalId, ProjectId
from falaj.database.work import UnitOfWork
from falaj.governance.identity.store import set_disabled, tokens
from falaj.governance.ledger.store import leaves
from falaj.governance.projects.store import set_archived
from falaj.jobs import documents
from falaj.jobs.controller import SHIPPED_RULES, Controller
from falaj.jobs.documents import Document
from falaj.jobs.operations.queues import CohortSpec, QueueSpec, QuotaOf
from falaj.jobs.operations.scheduling import TURN
from falaj.jobs.operations.words import Resources
from falaj.jobs.retrying import LONGEST_WAIT
from falaj.jobs.store import jobs, nodes, queues, tables
from falaj.storage import store as storage
from tests.jobs.cluster import START, Cluster, node, run, settle


def test_a_job_is_started_runs_and_is_done(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("5")
    settle(controller)
    assert cluster.job(job).state == "starting"
    run(cluster, controller, 1)
    assert cluster.job(job).state == "running"
    run(cluster, controller, 5)
    done = cluster.job(job)
    assert (done.state, done.cause, done.code, done.served) == ("done", "done", 0, 5 * SECOND)
    assert (done.started, done.ended) == (START, START + 5 * SECOND)
    assert cluster.told(job) == ["starting", "running", "done"]
    (attempt,) = cluster.tries(job)
    assert (attempt.state, attempt.cause, attempt.code, attempt.engine) == ("ended", "done", 0, "timers")


def test_the_image_that_a_job_ran_in_is_kept_however_short_it_was(cluster: Cluster, monkeypatch):
    look = cluster.timers.look
    monkeypatch.setattr(cluster.timers, "look", lambda: [replace(one, image="0a" * 32) for one in look()])
    controller = cluster.controller()
    seen, short = cluster.submit("5"), cluster.submit("1")
    settle(controller)
    cluster.clock.forward(2)
    run(cluster, controller, 5)
    for job in (seen, short):
        assert cluster.job(job).state == "done"
        assert cluster.words(job).count(f"Try 1 runs in the image sha256:{'0a' * 32}.") == 1


def test_what_does_not_fit_waits_for_room(cluster: Cluster):
    controller = cluster.controller()
    submitted = [cluster.submit("3") for _ in range(20)]  # there are 8 CPUs
    settle(controller)
    assert cluster.states() == {"starting": 8, "waiting": 12}
    run(cluster, controller, 3)
    run(cluster, controller, 9)
    assert {cluster.job(job).state for job in submitted} == {"done"}
    assert len(cluster.timers.starts) == 20


def test_a_failed_job_is_tried_again_after_a_while_as_often_as_it_asked_for(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("1", "failed", retries=2)
    settle(controller)
    run(cluster, controller, 1)
    waiting = cluster.job(job)
    assert (waiting.state, waiting.failures, waiting.cause) == ("waiting", 1, "failed")
    assert waiting.not_before == cluster.clock.now() + 10 * SECOND
    run(cluster, controller, 9)
    assert len(cluster.tries(job)) == 1
    run(cluster, controller, 3)
    assert [attempt.cause for attempt in cluster.tries(job)] == ["failed", "failed"]
    run(cluster, controller, 25)
    failed = cluster.job(job)
    assert (failed.state, failed.cause, failed.code, failed.attempts) == ("failed", "failed", 1, 3)
    assert cluster.told(job).count("retry") == 2
    assert "Try 2 ended with code 1. Tried again in 20 s (retry 2 of 2)." in cluster.words(job)
    assert cluster.words(job)[-1] == "Try 3 ended with code 1. It is not tried again."


def test_a_job_that_needed_more_memory_is_told_how_much(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("1", "memory", retries=0, resources=Resources(memory_mib=64))
    settle(controller)
    run(cluster, controller, 1)
    assert cluster.job(job).state == "failed"
    assert "it was at 100 MiB and had asked for 64 MiB" in cluster.words(job)[-1]


def test_a_lost_attempt_is_tried_again_at_once_and_counts_for_nothing(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("50", retries=0)
    settle(controller)
    cluster.timers.kill(cluster.timers.starts[0])
    run(cluster, controller, 1)
    again = cluster.job(job)
    assert (again.state, again.failures, again.losses) == ("starting", 0, 1)
    assert cluster.told(job) == ["starting", "lost", "starting"]


def test_a_job_that_is_lost_again_and_again_fails_in_the_end(small: Cluster):
    controller = small.controller()
    job = small.submit("80000")
    settle(controller)
    for _ in range(21):
        small.timers.kill(small.timers.starts[-1])
        run(small, controller, 1)
        run(small, controller, LONGEST_WAIT / SECOND, each=LONGEST_WAIT / SECOND)
    assert (small.job(job).state, small.job(job).losses) == ("failed", 21)
    run(small, controller, 5)
    assert len(small.timers.starts) == 21


def test_a_waiting_job_that_is_cancelled_never_starts(cluster: Cluster):
    controller = cluster.controller()
    jobs_there = [cluster.submit("5", resources=Resources(cpus=4)) for _ in range(3)]
    settle(controller)
    cluster.cancel(jobs_there[2])
    settle(controller)
    assert (cluster.job(jobs_there[2]).state, cluster.tries(jobs_there[2])) == ("cancelled", [])
    run(cluster, controller, 10)
    assert cluster.states() == {"done": 2, "cancelled": 1}


def test_a_running_job_that_is_cancelled_is_stopped_and_not_tried_again(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("500")
    settle(controller)
    run(cluster, controller, 1)
    cluster.cancel(job)
    run(cluster, controller, 2)
    over = cluster.job(job)
    assert (over.state, over.cause) == ("cancelled", "cancelled")
    assert cluster.told(job) == ["starting", "running", "stopping", "cancelled"]
    assert cluster.tries(job)[0].stop_for == "cancelled"


def test_a_job_that_ignores_being_stopped_is_killed_after_its_grace(small: Cluster):
    controller = small.controller()
    job = small.submit("500", "stubborn", grace=10)
    settle(controller)
    run(small, controller, 1)
    small.cancel(job)
    run(small, controller, 9)
    assert small.job(job).state == "stopping"
    run(small, controller, 3)
    assert small.job(job).state == "cancelled"


@pytest.mark.parametrize("why", ["preempted", "drained"])
def test_what_is_asked_back_has_no_more_grace_than_all_have_whatever_it_asked_for(small: Cluster, why: str):
    controller = small.controller()
    job = small.submit("9000", "stubborn", grace=3600)
    settle(controller)
    run(small, controller, 1)
    ask_back(small, job, why)
    settle(controller)
    (asked,) = small.tries(job)
    assert (asked.stop_for, asked.stop_by) == (why, small.clock.now() + SHIPPED_RULES.longest_grace)
    run(small, controller, 121)
    assert small.tries(job)[0].ended is not None


def ask_back(cluster: Cluster, job: str, why: str) -> None:
    """As another needs its place, or its host."""
    now = cluster.clock.now()
    cluster.schedulers[-1].to_stop = [job] if why == "preempted" else []
    cluster.submit("1")  # the next decision comes when something happens
    if why == "drained":
        for name in ("n1", "n2"):
            assert cluster.database.write(
                lambda work, name=name: nodes.drain(work, name, draining=True, stopping=True, now=now)
            )


@pytest.mark.parametrize("why", ["preempted", "drained"])
def test_who_cancels_what_is_giving_back_waits_half_a_minute_at_most(small: Cluster, why: str):
    controller = small.controller()
    job = small.submit("9000", "stubborn", grace=3600)
    settle(controller)
    run(small, controller, 1)
    ask_back(small, job, why)
    settle(controller)
    small.cancel(job)
    settle(controller)
    assert small.tries(job)[0].stop_by == small.clock.now() + 30 * SECOND
    run(small, controller, 31)
    assert small.job(job).state == "cancelled"


def cancelled_with_an_hours_grace(small: Cluster) -> tuple[Controller, str]:
    """A job that does not heed, and who controls it."""
    controller = small.controller()
    job = small.submit("9000", "stubborn", grace=3600)
    settle(controller)
    run(small, controller, 1)
    small.cancel(job)
    settle(controller)
    return controller, job


def test_cancelling_again_ends_sooner_what_took_an_hour_s_grace_and_never_later(small: Cluster):
    controller, job = cancelled_with_an_hours_grace(small)
    assert small.tries(job)[0].stop_by == small.clock.now() + 3600 * SECOND
    for _ in range(2):
        small.database.write(lambda work: jobs.press(work, job, small.clock.now()))
        run(small, controller, 20)
    assert small.job(job).state == "cancelled"


def test_a_drain_does_not_wait_an_hour_for_what_was_cancelled(small: Cluster):
    controller, job = cancelled_with_an_hours_grace(small)
    ask_back(small, job, "drained")
    run(small, controller, 122)
    assert small.job(job).state == "cancelled"


def archive(work: UnitOfWork, cluster: Cluster) -> None:
    set_archived(work, ProjectId(cluster.project), True)


def shred(work: UnitOfWork, cluster: Cluster) -> None:
    storage.hold_key(work, cluster.project)
    storage.mark_shredded(work, cluster.project, cluster.clock.now())


@pytest.mark.parametrize("close", [archive, shred])
def test_jobs_end_with_their_project(cluster: Cluster, close: Callable[[UnitOfWork, Cluster], None]):
    controller = cluster.controller()
    running, waiting = cluster.submit("9000", "stubborn", grace=3600), cluster.submit("1", resources=Resources(cpus=900))
    settle(controller)
    run(cluster, controller, 1)
    cluster.database.write(lambda work: close(work, cluster))
    run(cluster, controller, 6)
    assert (cluster.job(running).state, cluster.job(waiting).state) == ("stopping", "cancelled")
    run(cluster, cluster.controller(), 121)
    assert cluster.job(running).state == "cancelled"
    assert cluster.told(running) == ["starting", "running", "cancel", "stopping", "cancelled"]
    assert "Its project was archived or shredded." in cluster.words(running)
    token = cluster.tries(running)[0].token
    assert [row.revoked is not None for row in cluster.rows(tokens) if row.id == token] == [True]


def test_what_runs_for_somebody_who_is_shut_out_is_stopped_whoever_decides(small: Cluster):
    controller = small.controller()
    job = small.submit("9000")
    settle(controller)
    run(small, controller, 1)
    small.database.write(lambda work: set_disabled(work, PrincipalId(small.user), True))
    run(small, small.controller(), 2)
    assert small.job(job).state == "cancelled"
    assert "Whoever submitted it was shut out." in small.words(job)


def test_a_job_cancelled_before_its_engine_took_it_on_never_runs(small: Cluster):
    controller = small.controller()
    small.timers.deaf = True
    job = small.submit("500")
    settle(controller)
    small.cancel(job)
    settle(controller)
    small.timers.deaf = False
    run(small, controller, 3)
    assert small.job(job).state == "cancelled"
    assert small.timers.starts == []


@pytest.mark.parametrize(("saves", "kept"), [(False, 6 * SECOND), (True, 10 * SECOND)])
def test_a_preempted_job_waits_again_and_keeps_what_it_did_up_to_what_it_saved(small: Cluster, saves: bool, kept: int):
    cluster, controller = small, small.controller()
    job = cluster.submit("100", checkpoints=saves)
    settle(controller)
    run(cluster, controller, 6)
    at = cluster.clock.now()
    cluster.database.write(lambda work: jobs.report(work, job, progress=0.1, checkpoint=True, now=at))
    run(cluster, controller, 4)
    scheduler = cluster.schedulers[-1]
    assert scheduler.checkpoints == {job: at}
    scheduler.to_stop = [job]
    # The next decision comes when something happens.
    cluster.submit("1")
    settle(controller)
    assert cluster.job(job).state == "stopping"
    run(cluster, controller, 1)
    again = cluster.job(job)
    assert (again.state, again.served, again.failures, again.losses) == ("starting", kept, 0, 0)
    assert (again.cause, again.words) == ("", "")  # why the try before it ended is with that one
    assert [attempt.stop_for for attempt in cluster.tries(job)] == ["preempted", ""]
    assert scheduler.held[job].job.served == kept


def test_an_elastic_job_goes_on_with_fewer_tasks(small: Cluster):
    controller = small.controller()
    job = small.submit("100", tasks=4, least=1)
    settle(controller)
    run(small, controller, 2)
    small.schedulers[-1].to_resize = [(job, 2)]
    small.submit("1")
    settle(controller)
    run(small, controller, 2)
    first, second = small.tries(job)
    assert (first.stop_for, second.stop_for) == ("resized", "")
    assert (first.seats.count("node"), second.seats.count("node")) == (4, 2)
    run(small, controller, 102)
    assert small.job(job).state == "done"
    assert small.schedulers[-1].held == {}


def test_nothing_new_starts_on_a_drained_node_and_what_runs_there_may_be_asked_to_give_back(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("50")
    settle(controller)
    run(cluster, controller, 1)
    now = cluster.clock.now()
    assert cluster.database.write(lambda work: nodes.drain(work, "n1", draining=True, stopping=False, now=now))
    settle(controller)
    other = cluster.submit("50")
    run(cluster, controller, 1)
    assert "n2" in cluster.tries(other)[0].seats
    assert cluster.job(job).state == "running"
    assert cluster.database.write(lambda work: nodes.drain(work, "n1", draining=True, stopping=True, now=now))
    run(cluster, controller, 2)
    assert [("n1" in attempt.seats, attempt.stop_for) for attempt in cluster.tries(job)] == [(True, "drained"), (False, "")]
    assert cluster.database.write(lambda work: nodes.drain(work, "n1", draining=False, stopping=False, now=now))
    third = cluster.submit("50")
    run(cluster, controller, 1)
    assert "n1" in cluster.tries(third)[0].seats


def test_every_turn_that_changes_something_leaves_one_leaf_and_others_none(cluster: Cluster):
    controller = cluster.controller()
    for _ in range(5):
        cluster.submit("2")
    settle(controller)

    def recorded() -> list[str]:
        return [row.operation for row in cluster.rows(leaves)]

    assert recorded() == [TURN.name]
    run(cluster, controller, 1)
    assert recorded() == [TURN.name]  # that they run is no decision
    run(cluster, controller, 1)
    assert recorded() == [TURN.name] * 2
    run(cluster, controller, 30)
    assert recorded() == [TURN.name] * 2


def test_a_rest_writes_nothing(small: Cluster):
    controller = small.controller()
    settle(controller)

    def plans() -> int:
        (row,) = small.rows(tables.controllers)
        return int(row.plans)

    before = plans()
    for _ in range(50):
        settle(controller)
    assert plans() == before


def test_queues_that_change_are_told_and_one_that_is_gone_lets_nothing_start(cluster: Cluster):
    controller = cluster.controller()
    settle(controller)
    both = Document(queues=(QueueSpec(name="default"), QueueSpec(name="other", weight=7)))
    cluster.database.write(
        lambda work: queues.add(work, serial=1, document=documents.write(both), by="", now=cluster.clock.now())
    )
    settle(controller)
    assert cluster.schedulers[-1].queues["other"].weight == 7
    cluster.submit("1", queue="other")
    only = Document(queues=(QueueSpec(name="default"),))
    cluster.database.write(
        lambda work: queues.add(work, serial=2, document=documents.write(only), by="", now=cluster.clock.now())
    )
    settle(cluster.controller())
    assert not cluster.schedulers[-1].queues["other"].open
    assert cluster.states() == {"waiting": 1}


def test_what_took_long_before_is_expected_to_again(cluster: Cluster):
    controller = cluster.controller()
    for seconds in ("2", "4", "9"):
        cluster.submit(seconds, kin="k" * 64)
    settle(controller)
    run(cluster, controller, 10)
    known = cluster.submit("4", kin="k" * 64)
    declared = cluster.submit("4", kin="k" * 64, seconds=70)
    stranger = cluster.submit("4", kin="s" * 64)
    settle(controller)
    settle(cluster.controller())  # and by a controller that starts anew
    for scheduler in cluster.schedulers:
        durations = {id: scheduler.held[id].job.duration for id in (known, declared, stranger)}
        assert durations == {known: 4 * SECOND, declared: 70 * SECOND, stranger: 0}


def test_a_deadline_and_a_retry_that_lie_ahead_are_decided_when_they_come(small: Cluster):
    controller = small.controller()
    job = small.submit("1", "failed", retries=1)
    settle(controller)
    run(small, controller, 1)
    small.clock.forward(10)  # nothing happens in between
    settle(controller)
    assert len(small.tries(job)) == 2


def test_a_node_that_two_engines_have_belongs_to_the_first(small: Cluster, caplog):
    rival = type(small.timers)("rivals", [node("n1"), node("n3")], small.clock)
    small.engines = {"timers": small.timers, "rivals": rival}
    controller = small.controller()
    settle(controller)
    owners = {row.name: row.engine for row in small.rows(tables.nodes)}
    assert owners == {"n1": "rivals", "n2": "timers", "n3": "rivals"}
    assert "both have a node n1" in caplog.text


def test_jobs_run_only_in_their_zone(small: Cluster):
    controller = small.controller()
    small.timers.bring(node("far", zone="away"))
    job = small.submit("1", zone="away")
    run(small, controller, 2)
    assert "far" in small.tries(job)[0].seats
    assert Moment(small.job(job).submitted) == START


def test_a_lent_share_comes_back_and_whoever_gave_it_back_goes_on_later(cluster: Cluster):
    half = (QuotaOf(resource="cpu", nominal=4000),)
    owed = tuple(QueueSpec(name=name, cohort="all", quotas=half) for name in ("default", "other"))
    document = documents.write(Document(queues=owed, cohorts=(CohortSpec(name="all"),)))
    cluster.database.write(lambda work: queues.add(work, serial=1, document=document, by="", now=START))
    controller = cluster.controller(real=True)
    borrowing = [cluster.submit("300", resources=Resources(cpus=2)) for _ in range(4)]
    settle(controller)
    run(cluster, controller, 70)
    assert cluster.states() == {"running": 4}
    claiming = [cluster.submit("100", queue="other", resources=Resources(cpus=2)) for _ in range(2)]
    run(cluster, controller, 5)
    assert {cluster.job(job).state for job in claiming} <= {"starting", "running"}
    gave_back = [job for job in borrowing if cluster.job(job).state == "waiting"]
    assert len(gave_back) == 2
    assert all("preempted" in cluster.told(job) for job in gave_back)
    settle(cluster.controller(real=True))  # another controller takes over in the middle
    run(cluster, controller, 700, each=5)
    assert cluster.states() == {"done": 6}
