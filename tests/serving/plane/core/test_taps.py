"""Who watches predictions sees them, and can harm none."""

import threading
import time
from collections.abc import Callable

import numpy as np

from falaj.base.errors import Invalid
from falaj.serving.plane.core import taps
from falaj.serving.plane.core.models import Shape
from falaj.serving.plane.core.taps import MOST_BATCHES, Seen, Tap, Watcher
from falaj.serving.states import State
from tests.serving.plane.core.worker import Worker, endpoint, linear, played, until
from tests.serving.plane.test_following import state_of

SHAPE = Shape(platform="onnx", inputs=(), outputs=(), columns=())


def seen_of(rows: int = 1, columns: int = 4, endpoint: str = "e") -> Seen:
    arrays = [np.ones((rows, columns), np.float32)]
    return Seen(endpoint, 1, arrays, arrays, rows, SHAPE)


class Spy(Tap):
    def __init__(self, share: int = 10_000) -> None:
        self.share, self.seen, self.closed = share, [], 0
        self.states, self.missed, self.woken = [], [], 0

    def adopt(self, state: State) -> None:
        self.states.append(state.serial)

    def see(self, seen: Seen) -> None:
        self.seen.append(seen)

    def miss(self, endpoint: str, revision: int, rows: int) -> None:
        self.missed.append((endpoint, revision, rows))

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        self.closed += 1


class Thrower(Spy):
    def see(self, seen: Seen) -> None:
        super().see(seen)
        raise Invalid("a bug")


class Sleeper(Spy):
    def __init__(self) -> None:
        super().__init__()
        self.wakes = threading.Event()

    def see(self, seen: Seen) -> None:
        self.wakes.wait(200)
        super().see(seen)


SPY, RARE, THROWER, SLEEPER = Spy(), Spy(share=0), Thrower(), Sleeper()


@played(taps=[THROWER, SPY, RARE, SLEEPER])
async def test_a_tap_sees_what_was_asked_and_answered_whatever_others_do(worker: Worker):
    one = endpoint("scores", [worker.revision(1, linear(2.0))])
    await worker.serve(one)
    for turn in range(1, 4):
        replies = [worker.ask("scores", [[number] * 4]) for number in range(3)]
        await worker.answered(*replies)
        assert all(reply.answers for reply in replies)
        await until(lambda turn=turn: len(SPY.seen) == turn)
    id, revision, inputs, outputs, rows, shape = SPY.seen[0]
    assert (id, revision, rows) == (one.id, 1, 3)
    assert ([spec.name for spec in shape.inputs], shape.batches) == (["x"], True)
    assert np.array_equal(inputs[0] * 2, outputs[0])
    assert inputs[0].shape == (3, 4)
    assert len(THROWER.seen) == 1
    assert RARE.seen == SLEEPER.seen == []
    told = worker.core.drain_report().taps
    assert told == {"Thrower": (0, 2, 1), "Spy": (0, 0, 0), "Sleeper": (0, 0, 0)} | told
    SLEEPER.wakes.set()


def watched(tap: Spy, story: Callable[[Watcher], None]) -> None:
    watcher = Watcher(tap)
    try:
        story(watcher)
    finally:
        watcher.close()


def test_what_a_tap_is_too_slow_for_is_missed_and_counted_and_takes_no_memory():
    def story(watcher: Watcher) -> None:
        for _ in range(2 * MOST_BATCHES):
            watcher.offer(seen_of())
        sleeper.wakes.set()
        deadline = time.monotonic() + 60
        while len(sleeper.seen) + watcher.missed < 2 * MOST_BATCHES and time.monotonic() < deadline:
            time.sleep(0.01)
        seen, missed, failed = watcher.told()
        assert (seen + missed, failed) == (2 * MOST_BATCHES, 0)
        assert missed >= MOST_BATCHES - 1
        assert watcher.told() == (0, 0, 0)

    sleeper = Sleeper()
    watched(sleeper, story)


def test_large_batches_that_wait_are_bounded_by_their_bytes(monkeypatch):
    monkeypatch.setattr(taps, "MOST_BYTES", 1000)

    def story(watcher: Watcher) -> None:
        time.sleep(0.1)
        for _ in range(40):
            watcher.offer(seen_of(columns=50))
        assert watcher.missed >= 34
        sleeper.wakes.set()

    sleeper = Sleeper()
    watched(sleeper, story)


def test_a_tap_uses_a_tenth_of_a_core_at_most():
    class Spinner(Spy):
        def see(self, seen: Seen) -> None:
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
            super().see(seen)

    def story(watcher: Watcher) -> None:
        began = time.monotonic()
        for _ in range(100):
            watcher.offer(seen_of())
        while len(spinner.seen) < 8:
            time.sleep(0.001)
        assert time.monotonic() - began > 7 * 10 * 0.009

    spinner = Spinner()
    watched(spinner, story)


def test_a_state_is_adopted_before_what_was_answered_by_it_is_seen():
    """Also where both come while the tap is about to look at what waits."""

    class Ordered(Spy):
        def wake(self) -> None:
            go.wait()
            if not self.woken:
                self.watcher.adopt(state_of(7))
                self.watcher.offer(seen_of())
            super().wake()

        def see(self, seen: Seen) -> None:
            self.known = list(self.states)
            super().see(seen)

    def story(watcher: Watcher) -> None:
        spy.watcher = watcher
        go.set()
        while not spy.seen:
            time.sleep(0.001)
        assert spy.known == [7]

    go, spy = threading.Event(), Ordered()
    watched(spy, story)


def test_at_the_end_a_tap_sees_what_waits_and_is_closed_once():
    spy = Spy()
    watcher = Watcher(spy)
    for _ in range(5):
        watcher.offer(seen_of())
    watcher.close()
    assert (len(spy.seen), spy.closed) == (5, 1)
