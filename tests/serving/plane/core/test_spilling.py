"""The same model in two places: who is behind shares with who is not."""

import asyncio
import time
from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Unavailable
from falaj.runtimes.engine import Engine, ModelFiles, Placement
from falaj.runtimes.errors import EngineFailed
from falaj.runtimes.loading import load
from falaj.runtimes.tuning import tune
from falaj.serving.plane.core.reading import Room
from falaj.serving.plane.core.spilling import CALM, is_behind, is_free
from tests.serving.graphs import layers, times
from tests.serving.plane.core.worker import Watched, Worker, endpoint, played

TUNE = partial(tune, objective_s=0.05)
waits = st.floats(0, 10)


@given(st.booleans(), waits, st.floats(0.001, 10))
def test_beyond_the_objective_it_begins_and_well_within_it_it_ends_whatever_was_before(before, wait, objective):
    if wait > objective:
        assert is_behind(before, wait, objective)
    elif wait < CALM * objective:
        assert not is_behind(before, wait, objective)
    else:
        assert is_behind(before, wait, objective) is before


@given(st.lists(waits, min_size=1), st.floats(0.001, 10))
def test_it_changes_only_when_a_wait_crossed_the_whole_way_between_the_bounds(course, objective):
    behind, extreme = False, 0.0  # the least wait since it began, the greatest since it ended
    for wait in course:
        now = is_behind(behind, wait, objective)
        if now != behind:
            assert (extreme >= CALM * objective and wait < CALM * objective) if behind else wait > objective
            extreme = wait
        behind, extreme = now, min(extreme, wait) if now else max(extreme, wait)


@given(st.booleans(), waits, waits, st.floats(0.001, 10))
def test_a_longer_wait_never_makes_it_less_behind_nor_another_place_more_free(before, wait, more, objective):
    assert is_behind(before, wait + more, objective) >= is_behind(before, wait, objective)
    assert is_free(wait + more, objective) <= is_free(wait, objective)


class Place(Watched):
    """A session of ONNX Runtime that stands for a device; `well` false makes it fail."""

    def __init__(self, engine: Engine, device: str) -> None:
        super().__init__(engine)
        self.device, self.well = device, True

    def run(self, arrays):
        if not self.well:
            raise EngineFailed("the device is gone")
        return super().run(arrays)


class Places:
    """A slow first place and a fast second one, under the names of devices that are not here."""

    def __init__(self, worker: Worker, second: bytes | None = None) -> None:
        self.contents = {"gpu": layers(3), "cpu": second or times(1.0)}
        self.made: dict[str, Place] = {}
        worker.core._fleet.reader.load = self._load
        worker.core._fleet.reader.room = Room(gpu=True)

    def _load(self, files: ModelFiles, placement: Placement) -> Engine:
        chosen = ModelFiles(runtime="onnx", main="m", contents={"m": self.contents[placement.device]})
        self.made[placement.device] = Place(load(chosen, Placement()), placement.device)
        return self.made[placement.device]

    def forget(self) -> None:
        for place in self.made.values():
            place.runs.clear()

    def rows(self, device: str) -> int:
        return sum(self.made[device].runs)


def burst(worker: Worker, count: int = 400):
    token = worker.token()
    return [worker.ask("scores", [[number] * 4], token=token) for number in range(count)]


def right(replies) -> bool:
    return all(np.array_equal(reply.first, [[number] * 4]) for number, reply in enumerate(replies))


@played(tune=TUNE)
async def test_a_first_place_that_is_behind_shares_with_the_second_and_has_all_again_when_it_is_calm(worker: Worker):
    places = Places(worker)
    await worker.serve(endpoint("scores", [worker.revision(1, times(1.0))], latency_ms=20))
    places.forget()
    replies = burst(worker)
    await worker.answered(*replies)
    assert right(replies)
    assert places.rows("gpu") > 0
    assert places.rows("cpu") > 0
    (told,) = worker.core.drain_report().revisions
    assert (told.requests, told.shed, told.errors) == (400, 0, 0)
    assert told.aside == places.rows("cpu")
    places.forget()
    for _ in range(5):
        reply = worker.ask("scores", [[1] * 4])
        await worker.answered(reply)
    assert (places.rows("gpu"), places.rows("cpu")) == (5, 0)
    assert worker.core.drain_report().revisions[0].aside == 0


@played(tune=TUNE)
async def test_without_a_second_place_the_same_burst_is_refused_in_part(worker: Worker):
    Places(worker)
    await worker.serve(endpoint("scores", [worker.revision(1, times(1.0))], latency_ms=20, device="gpu"))
    replies = burst(worker)
    await worker.answered(*replies)
    assert any(isinstance(reply.errors[0], Unavailable) for reply in replies if reply.errors)


@played(tune=TUNE)
async def test_a_second_place_that_would_be_late_itself_gets_nothing_beyond_its_own_bound(worker: Worker):
    places = Places(worker, layers(3))
    await worker.serve(endpoint("scores", [worker.revision(1, times(1.0))], latency_ms=20))
    places.forget()
    replies = burst(worker, 1000)
    await worker.answered(*replies)
    (told,) = worker.core.drain_report().revisions
    assert 0 < told.aside < 600
    assert told.shed > 0
    assert told.requests + told.shed == 1000
    assert told.errors == 0


@played(tune=TUNE)
async def test_what_the_second_place_fails_at_the_first_answers_and_it_is_left_alone_for_a_while(worker: Worker):
    places = Places(worker)
    await worker.serve(endpoint("scores", [worker.revision(1, times(1.0))], latency_ms=20))
    places.made["cpu"].well = False
    for _ in range(20):  # until one is large enough for the first place to fall behind
        replies = burst(worker, 200)
        await worker.answered(*replies)
        assert not [reply.errors for reply in replies if reply.errors and not isinstance(reply.errors[0], Unavailable)]
        assert all(reply.answers for reply in replies if not reply.errors)
        (told,) = worker.core.drain_report().revisions
        assert told.errors == 0
        if told.aside:
            break
    assert told.aside > 0
    places.made["cpu"].well = True
    places.forget()
    again = burst(worker, 200)
    await worker.answered(*again)
    assert places.rows("cpu") == 0


@played(tune=TUNE)
async def test_a_first_place_that_fails_leaves_everything_to_the_second_which_runs_one_thing_at_a_time(worker: Worker):
    places = Places(worker)
    await worker.serve(endpoint("scores", [worker.revision(1, times(1.0))], latency_ms=20))
    running = []

    def watch(arrays):
        running.append(1)
        assert len(running) == 1, "two threads run one engine"
        time.sleep(0.002)
        running.pop()

    places.made["cpu"]._fault = watch
    first = burst(worker)
    places.made["gpu"].well = False
    await worker.answered(*first)
    assert right(first)
    for _ in range(5):
        reply = worker.ask("scores", [[3] * 4])
        await worker.answered(reply)
        assert reply.first.tolist() == [[3] * 4]


@played(tune=TUNE)
async def test_both_places_leave_memory_together(worker: Worker):
    places = Places(worker)
    await worker.serve(endpoint("scores", [worker.revision(1, times(1.0))], latency_ms=20))
    replies = burst(worker, 200)
    await asyncio.sleep(0)
    await worker.core.unload(worker.token(manage=True), "scores")
    await worker.answered(*replies)
    assert all(reply.answers for reply in replies)
    assert all(place.closed for place in places.made.values())
