"""What goes wrong around a controller: engines that are silent, forget or are late, other controllers, clocks that jump."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from falaj.base.clock import DAY, HOUR, SECOND, Moment
from falaj.jobs.controller import Controller
from falaj.jobs.store import tables
from tests.jobs.cluster import START, Cluster, node, run, settle


def add_engine(cluster: Cluster, *names: str):
    """Another engine beside the first."""
    other = type(cluster.timers)("others", [node(name) for name in names], cluster.clock)
    cluster.engines = {"timers": cluster.timers, "others": other}
    return other


def test_nothing_is_concluded_while_an_engine_is_silent_for_a_short_time(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("60")
    settle(controller)
    run(cluster, controller, 2)
    cluster.timers.reachable = False
    run(cluster, controller, 15)
    assert cluster.job(job).state == "running"
    cluster.timers.reachable = True
    run(cluster, controller, 50)
    assert cluster.job(job).state == "done"
    assert len(cluster.tries(job)) == 1


def test_nothing_starts_on_an_engine_that_does_not_answer(small: Cluster):
    controller = small.controller()
    settle(controller)
    small.timers.reachable = False
    run(small, controller, 2)
    job = small.submit("1")
    run(small, controller, 5)
    assert small.tries(job) == []
    small.timers.reachable = True
    run(small, controller, 3)
    assert small.job(job).state == "done"


def test_attempts_of_an_engine_that_is_silent_for_long_are_lost_and_run_elsewhere_and_its_late_word_counts_for_nothing(
    cluster: Cluster,
):
    controller = cluster.controller()
    job = cluster.submit("30")
    settle(controller)
    run(cluster, controller, 2)
    (late,) = cluster.timers.starts
    other = add_engine(cluster, "n9")
    controller = cluster.controller()
    settle(controller)
    cluster.timers.reachable = False
    run(cluster, controller, 22)
    first, second = cluster.tries(job)
    assert (first.cause, first.engine, second.engine) == ("lost", "timers", "others")
    cluster.timers.reachable = True  # by now its attempt would have been done
    run(cluster, controller, 10)
    assert cluster.job(job).state == "running"
    assert cluster.job(job).attempt == second.id
    assert {attempt.id: attempt.cause for attempt in cluster.tries(job)} == {late: "lost", second.id: ""}
    run(cluster, controller, 30)
    assert cluster.job(job).state == "done"
    assert Counter(cluster.told(job))["done"] == 1
    assert other.starts == [second.id]


def test_a_late_attempt_that_still_runs_is_stopped(small: Cluster):
    controller = small.controller()
    job = small.submit("3000")
    settle(controller)
    run(small, controller, 2)
    add_engine(small, "n9")
    controller = small.controller()
    small.timers.reachable = False
    run(small, controller, 22)
    small.timers.reachable = True
    run(small, controller, 8)
    assert [seen.cause for seen in small.timers.look()] == ["stopped"]
    assert small.job(job).state == "running"


def test_an_attempt_that_its_engine_forgot_is_lost(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("100")
    settle(controller)
    run(cluster, controller, 1)
    cluster.timers.lose(cluster.timers.starts[0])
    run(cluster, controller, 3)
    assert len(cluster.tries(job)) == 1
    run(cluster, controller, 3)
    assert [attempt.cause for attempt in cluster.tries(job)] == ["lost", ""]


def test_what_ran_on_a_node_that_went_away_runs_elsewhere(cluster: Cluster):
    controller = cluster.controller()
    several = [cluster.submit("100") for _ in range(6)]
    settle(controller)
    run(cluster, controller, 2)
    cluster.timers.take_away("n1")
    run(cluster, controller, 25)
    assert {row.name: row.lost is not None for row in cluster.rows(tables.nodes)} == {"n1": True, "n2": False}
    assert cluster.states() == {"running": 4, "waiting": 2}
    cluster.timers.bring(node("n1"))
    run(cluster, controller, 3)
    assert cluster.states() == {"running": 6}
    assert {row.name: row.lost is not None for row in cluster.rows(tables.nodes)} == {"n1": False, "n2": False}
    run(cluster, controller, 110)
    assert {cluster.job(job).state for job in several} == {"done"}


def test_an_engine_that_will_not_start_anything_keeps_a_job_only_for_so_long(small: Cluster):
    controller = small.controller()
    small.timers.deaf = True
    job = small.submit("5")
    settle(controller)
    run(small, controller, 25)
    assert len(small.tries(job)) == 1
    run(small, controller, 10)
    assert [attempt.cause for attempt in small.tries(job)] == ["lost", ""]
    small.timers.deaf = False
    run(small, controller, 10)
    assert small.job(job).state == "done"
    assert small.timers.starts == [small.tries(job)[1].id]


def test_a_broken_engine_does_not_keep_others_from_going_on(small: Cluster):
    other = add_engine(small, "n9")
    controller = small.controller()
    settle(controller)

    def broken() -> None:
        raise RuntimeError("out of its mind")

    small.timers.look = broken
    jobs = [small.submit("1") for _ in range(6)]
    run(small, controller, 6)
    assert {small.job(job).state for job in jobs} == {"done"}
    assert len(other.starts) == 6


def test_an_engine_that_left_the_settings_loses_its_attempts_after_a_while(small: Cluster):
    controller = small.controller()
    job = small.submit("100")
    settle(controller)
    run(small, controller, 1)
    other = type(small.timers)("others", [node("n9")], small.clock)
    small.engines = {"others": other}
    controller = small.controller()
    run(small, controller, 15)
    assert len(small.tries(job)) == 1
    run(small, controller, 10)
    assert [attempt.cause for attempt in small.tries(job)] == ["lost", ""]
    assert len(other.starts) == 1


# Controllers that come and go


def test_a_controller_that_starts_anew_goes_on_with_what_runs(cluster: Cluster):
    job = cluster.submit("5")
    first = cluster.controller()
    settle(first)
    run(cluster, first, 1)
    second = cluster.controller()
    run(cluster, second, 5)
    assert cluster.job(job).state == "done"
    assert len(cluster.tries(job)) == 1
    assert cluster.told(job) == ["starting", "running", "done"]


def test_an_attempt_that_was_planned_and_never_started_is_given_up_and_planned_anew(cluster: Cluster):
    cluster.timers.deaf = True
    job = cluster.submit("5")
    first = cluster.controller()
    first.step()
    (planned,) = cluster.tries(job)
    cluster.timers.deaf = False
    second = cluster.controller()
    settle(second)
    first_try, second_try = cluster.tries(job)
    assert (first_try.id, first_try.cause) == (planned.id, "unstarted")
    assert (cluster.job(job).failures, cluster.job(job).losses) == (0, 0)
    # The first one wakes up and would start what it planned.
    first.step()
    settle(second)
    run(cluster, second, 6)
    assert cluster.timers.starts == [second_try.id]
    assert cluster.job(job).state == "done"


def test_a_controller_that_was_superseded_writes_nothing_and_starts_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    first, second = cluster.controller(), cluster.controller()
    settle(first)
    job = cluster.submit("5")
    epoch = first._epoch
    assert epoch is not None
    write = type(epoch)._write

    def pause(self, moves, turn):
        """Another takes over between deciding and writing."""
        monkeypatch.setattr(type(epoch), "_write", write)
        settle(second)
        return write(self, moves, turn)

    monkeypatch.setattr(type(epoch), "_write", pause)
    assert first.step() is False
    assert len(cluster.tries(job)) == 1
    assert cluster.told(job) == ["starting"]
    assert len(cluster.timers.starts) == 1


@pytest.mark.parametrize("seed", range(3))
def test_controllers_that_step_at_once_end_every_job_exactly_once(small: Cluster, seed: int):
    chance = random.Random(seed)
    controllers = [small.controller() for _ in range(3)]
    jobs = [small.submit(str(chance.randint(1, 5))) for _ in range(30)]
    for _ in range(400):
        chance.choice(controllers).step()
        small.clock.forward(chance.choice((0, 0.1, 0.5)))
        if chance.random() < 0.05:
            controllers[chance.randrange(3)] = small.controller()
        if small.states() == {"done": 30}:
            break
    assert small.states() == {"done": 30}
    assert all(Counter(small.told(job))["done"] == 1 for job in jobs)
    done = [attempt for attempt in small.rows(tables.attempts) if attempt.cause == "done"]
    assert len(done) == 30
    # Whoever started it, no two attempts of a job ran side by side.
    for job in jobs:
        tries = [attempt for attempt in small.tries(job) if attempt.started is not None]
        for before, after in pairwise(tries):
            assert before.ended <= after.started


# Clocks


def test_a_clock_that_jumps_ahead_makes_nobody_lost(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit(str(3 * 24 * 3600))
    settle(controller)
    run(cluster, controller, 2)
    cluster.timers.reachable = False
    cluster.clock.moment = Moment(cluster.clock.moment + DAY)
    settle(controller)
    cluster.timers.reachable = True
    run(cluster, controller, 3)
    assert cluster.job(job).state == "running"
    assert len(cluster.tries(job)) == 1


def test_a_clock_that_goes_back_holds_nothing_up(cluster: Cluster):
    controller = cluster.controller()
    failing = cluster.submit("1", "failed", retries=1)
    settle(controller)
    run(cluster, controller, 2)
    assert cluster.job(failing).state == "waiting"
    # A new process, whose clock is an hour behind: what was to be tried again soon is not held back for an hour.
    cluster.clock.moment = Moment(START - HOUR)
    controller = cluster.controller()
    job = cluster.submit("2")
    settle(controller)
    run(cluster, controller, 3)
    assert cluster.job(job).state == "done"
    run(cluster, controller, 660, each=20)
    assert cluster.job(failing).state == "failed"
    assert all(row.ended >= row.started for row in cluster.rows(tables.metering))


def test_a_clock_that_goes_back_under_a_controller_stands_still_for_it(small: Cluster):
    controller = small.controller()
    job = small.submit("5")
    settle(controller)
    run(small, controller, 2)
    small.clock.moment = Moment(small.clock.moment - HOUR)
    run(small, controller, 3)
    small.clock.moment = Moment(small.clock.moment + HOUR)
    run(small, controller, 5)
    assert small.job(job).state == "done"
    assert len(small.tries(job)) == 1
    assert small.job(job).ended - small.job(job).started <= 12 * SECOND


def test_a_turn_that_could_not_be_written_is_taken_again_from_what_the_database_says(
    small: Cluster, monkeypatch: pytest.MonkeyPatch
):
    controller = small.controller()
    settle(controller)
    job = small.submit("1")
    monkeypatch.setattr("falaj.jobs.turns.Turn.write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        controller.step()
    monkeypatch.undo()
    assert small.tries(job) == []
    assert isinstance(controller, Controller)
    run(small, controller, 3)
    assert small.job(job).state == "done"
    assert len(small.schedulers) == 2


def test_an_engine_that_did_not_hear_of_a_stop_is_told_again(small: Cluster):
    controller = small.controller()
    job = small.submit("1000", grace=5)
    settle(controller)
    run(small, controller, 1)
    stop, small.timers.stop = small.timers.stop, lambda *_: None
    small.cancel(job)
    run(small, controller, 10)
    small.timers.stop = stop
    run(small, controller, 20)
    assert small.job(job).state == "stopping"
    run(small, controller, 5)
    assert small.job(job).state == "cancelled"
