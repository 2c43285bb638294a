"""The leased loop that all background work uses: one holder at a time, the next one when it ends or dies, and no giving up."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from falaj.base.errors import Unavailable
from falaj.base.values import Nothing
from falaj.database.leases import acquire
from falaj.operations.loops import TERM, Loop, LoopRunner
from falaj.operations.operations import READY
from tests.operations.conftest import Bench

WAIT = 10.0
OFTEN = 0.01


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


class Worker:
    """Counts its own steps, and notices when another is in one at the same time."""

    inside = 0
    overlaps = 0
    guard = threading.Lock()

    def __init__(self) -> None:
        self.steps = 0
        self.errors: list[Exception] = []
        self.hold = threading.Event()
        self.hold.set()

    def step(self) -> bool:
        with Worker.guard:
            Worker.inside += 1
            Worker.overlaps += Worker.inside > 1
        try:
            self.hold.wait(WAIT)
            time.sleep(0.002)
            self.steps += 1
            if self.errors:
                raise self.errors.pop(0)
        finally:
            with Worker.guard:
                Worker.inside -= 1
        return False


class Runners:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.started: list[LoopRunner] = []
        Worker.inside = Worker.overlaps = 0

    def start(self, step: Callable[[], bool], *, holder: str, every: float = OFTEN, name: str = "work") -> LoopRunner:
        loop = Loop(name=name, every=every, step=step)
        runner = LoopRunner(loop, database=self._bench.platform.database, clock=self._bench.clock, holder=holder)
        runner.start()
        self.started.append(runner)
        return runner


@pytest.fixture
def runners(bench: Bench) -> Iterator[Runners]:
    made = Runners(bench)
    yield made
    for runner in made.started:
        runner.stop()


def test_two_runners_of_one_loop_never_step_at_once(runners: Runners):
    workers = [Worker() for _ in range(4)]
    for number, worker in enumerate(workers):
        runners.start(worker.step, holder=f"process {number}")
    until(lambda: sum(worker.steps for worker in workers) > 50)
    assert Worker.overlaps == 0
    assert sum(worker.steps > 0 for worker in workers) == 1


def test_loops_of_different_names_do_not_wait_for_each_other(runners: Runners):
    first, second = Worker(), Worker()
    runners.start(first.step, holder="one", name="work")
    runners.start(second.step, holder="other", name="other work")
    until(lambda: first.steps > 3 and second.steps > 3)
    assert min(first.steps, second.steps) > 3


def test_an_orderly_end_hands_the_loop_over_at_once(runners: Runners):
    first, second = Worker(), Worker()
    ending = runners.start(first.step, holder="one")
    until(lambda: first.steps > 0)
    runners.start(second.step, holder="other")
    time.sleep(0.1)
    assert second.steps == 0
    ending.stop()
    stopped_after = first.steps
    until(lambda: second.steps > 3)
    assert first.steps == stopped_after
    assert Worker.overlaps == 0


def test_the_loop_of_a_holder_that_died_is_taken_over_when_its_term_ends_and_not_before(bench: Bench, runners: Runners):
    bench.platform.database.write(lambda work: acquire(work, "work", "dead", now=bench.clock.now(), duration=TERM))
    worker = Worker()
    runners.start(worker.step, holder="alive")
    time.sleep(0.2)
    bench.clock.move(20)
    time.sleep(0.2)
    assert worker.steps == 0
    bench.clock.move(11)
    until(lambda: worker.steps > 3)


def test_a_holder_renews_while_it_lives(bench: Bench, runners: Runners):
    first, second = Worker(), Worker()
    runners.start(first.step, holder="one")
    until(lambda: first.steps > 0)
    runners.start(second.step, holder="other")
    for _ in range(10):
        bench.clock.move(12)
        seen = first.steps
        until(lambda seen=seen: first.steps > seen + 1)
    assert second.steps == 0


def in_a_step_that_lasts(worker: Worker) -> None:
    """Until the worker is inside a step that ends when `hold` is set."""
    worker.hold.clear()
    time.sleep(0.1)
    until(lambda: Worker.inside == 1)


def test_a_step_that_ends_within_two_thirds_of_the_term_is_not_overlapped(bench: Bench, runners: Runners):
    """A holder renews when a third of its term has gone, so the worst step begins just before that."""
    first, second = Worker(), Worker()
    runners.start(first.step, holder="one")
    until(lambda: first.steps > 0)
    bench.clock.move(9)
    in_a_step_that_lasts(first)
    runners.start(second.step, holder="other")
    bench.clock.move(19)
    time.sleep(0.3)
    first.hold.set()
    seen = first.steps
    until(lambda: first.steps > seen + 3)
    assert second.steps == 0
    assert Worker.overlaps == 0


def test_a_holder_that_overslept_its_term_begins_no_step_beside_its_successor(bench: Bench, runners: Runners):
    """It was stopped in the middle of a step, by a debugger or a full disk. That step cannot be called back."""
    first, second = Worker(), Worker()
    runners.start(first.step, holder="sleeper")
    until(lambda: first.steps > 0)
    in_a_step_that_lasts(first)
    bench.clock.move(31)
    runners.start(second.step, holder="successor")
    until(lambda: second.steps > 0)
    slept = first.steps
    first.hold.set()
    until(lambda: first.steps == slept + 1)
    overlaps, seen = Worker.overlaps, second.steps
    until(lambda: second.steps > seen + 20)
    assert first.steps == slept + 1
    assert Worker.overlaps == overlaps


@pytest.mark.parametrize("error", [Unavailable("the storage sleeps"), ZeroDivisionError("secret detail")], ids=repr)
def test_a_step_that_fails_is_tried_again_and_shown_in_readiness(bench: Bench, runners: Runners, error: Exception):
    worker = Worker()
    worker.errors = [error] * 1000
    runner = runners.start(worker.step, holder="one", every=0.1)
    bench.platform.loops.append(runner)
    until(lambda: runner.failure != "")
    with pytest.raises(Unavailable) as unready:
        bench.call(READY, Nothing(), token=None)
    assert "loop work" in str(unready.value)
    assert "secret detail" not in str(unready.value), "strangers read this"
    worker.errors.clear()
    until(lambda: runner.failure == "")
    assert bench.call(READY, Nothing(), token=None).parts["loop work"] == "ok"


def test_a_failing_step_is_not_tried_in_a_frenzy(runners: Runners):
    worker = Worker()
    worker.errors = [Unavailable("no")] * 1000
    runners.start(worker.step, holder="one", every=0.1)
    until(lambda: worker.steps > 0)
    time.sleep(0.5)
    assert worker.steps < 10


def test_the_pause_grows_with_every_failure_in_a_row(runners: Runners):
    moments: list[float] = []

    def step() -> bool:
        moments.append(time.monotonic())
        raise Unavailable("no")

    runners.start(step, holder="one")
    until(lambda: len(moments) == 5)
    assert moments[4] - moments[3] >= 2**4 * OFTEN


def test_work_left_undone_is_continued_at_once(runners: Runners):
    steps: list[float] = []

    def step() -> bool:
        steps.append(time.monotonic())
        return len(steps) < 20

    runners.start(step, holder="one", every=3600)
    until(lambda: len(steps) == 20)
    time.sleep(0.1)
    assert len(steps) == 20


def test_stopping_does_not_wait_for_the_next_round(runners: Runners):
    worker = Worker()
    runner = runners.start(worker.step, holder="one", every=3600)
    until(lambda: worker.steps == 1)
    started = time.monotonic()
    runner.stop()
    assert time.monotonic() - started < 30
    assert worker.steps == 1


def test_stopping_finishes_the_round_under_way(runners: Runners):
    worker = Worker()
    worker.hold.clear()
    runner = runners.start(worker.step, holder="one")
    until(lambda: Worker.inside == 1)
    stopping = threading.Thread(target=runner.stop)
    stopping.start()
    time.sleep(0.1)
    assert stopping.is_alive()
    worker.hold.set()
    stopping.join(WAIT)
    assert (stopping.is_alive(), worker.steps) == (False, 1)


def test_a_loop_that_was_never_started_ends_without_a_word(bench: Bench):
    worker = Worker()
    loop = Loop(name="work", every=1, step=worker.step)
    LoopRunner(loop, database=bench.platform.database, clock=bench.clock, holder="one").stop()
    assert worker.steps == 0
