"""Models come into memory and leave it."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from onnx import load_from_string

from falaj.base.errors import Unavailable
from falaj.runtimes.engine import Array, Engine, ModelFiles, Placement
from falaj.runtimes.errors import DeviceMissing, EngineFailed
from falaj.runtimes.loading import load
from falaj.serving.plane.asking import DeadlinePassed
from falaj.serving.plane.core.reading import Room
from falaj.serving.plane.marks import SINCE, THREAD, number_of
from falaj.serving.states import Arm, Revision
from tests.serving.plane.core.worker import (
    Timing,
    Watched,
    Worker,
    endpoint,
    linear,
    played,
    played_both_ways,
    tune_as_slow,
    until,
)


async def idle(worker: Worker, seconds: float) -> None:
    worker.core._fleet.unload_idle(time.monotonic() + seconds)
    await until(lambda: all(engine.closed for engine in worker.engines))


@played_both_ways
async def test_an_idle_model_leaves_memory_and_the_next_request_brings_it_back(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], idle_seconds=10))
    worker.core._fleet.unload_idle(time.monotonic() + 5)
    assert worker.core.index(worker.token())[0].state == "READY"
    await idle(worker, 11)
    assert worker.core.index(worker.token())[0].state == "UNAVAILABLE"
    assert worker.core.is_ready()
    assert worker.core.is_model_ready(worker.token(), "scores")
    assert worker.core.describe(worker.token(), "scores").versions == ("1",)
    replies = [worker.ask("scores", [[number] * 4]) for number in range(10)]
    await worker.answered(*replies)
    assert [reply.first[0, 0] for reply in replies] == [2 * number for number in range(10)]
    assert len(worker.engines) == 2
    assert worker.core.drain_report().revisions[0].cold_start_ms > 0


@played()
async def test_a_state_that_changes_other_things_leaves_an_idle_model_out_of_memory(worker: Worker):
    one = worker.revision(1, linear())
    await worker.serve(endpoint("scores", [one], idle_seconds=10))
    await idle(worker, 11)
    await worker.serve(endpoint("scores", [one], idle_seconds=20))
    assert len(worker.engines) == 1


@played()
async def test_so_many_wait_for_a_cold_model_and_no_more(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], idle_seconds=10, concurrency=8))
    await idle(worker, 11)
    replies = [worker.ask("scores", [[1] * 4]) for _ in range(20)]
    await worker.answered(*replies)
    assert [bool(reply.answers) for reply in replies] == [True] * 8 + [False] * 12
    assert all(isinstance(reply.error, Unavailable) for reply in replies[8:])
    assert len(worker.engines) == 2


@played()
async def test_a_deadline_that_passes_during_a_cold_start_is_told_when_it_passes(worker: Worker):
    hold = threading.Event()

    def slow(revision: Revision) -> ModelFiles:
        hold.wait(60)
        return worker.open(revision)

    one = endpoint("scores", [worker.revision(1, linear())], idle_seconds=10)
    await worker.serve(one)
    await idle(worker, 11)
    await worker.core.adopt(worker.state(one), slow)
    hurried = worker.ask("scores", [[1] * 4], deadline=time.monotonic() + 0.05)
    patient = worker.ask("scores", [[1] * 4])
    await worker.answered(hurried)
    assert isinstance(hurried.error, DeadlinePassed)
    assert not patient.done
    hold.set()
    await worker.answered(patient)
    assert patient.answers


@played()
async def test_a_cold_start_that_fails_is_told_to_those_who_wait(worker: Worker):
    one = worker.revision(1, linear())
    await worker.serve(endpoint("scores", [one], idle_seconds=10))
    await idle(worker, 11)
    worker.contents.clear()
    replies = [worker.ask("scores", [[1] * 4]) for _ in range(3)]
    await worker.answered(*replies)
    assert all("could not be loaded" in str(reply.error) for reply in replies)
    assert isinstance(worker.ask("scores", [[1] * 4]).error, Unavailable)


def _padded(factor: float) -> bytes:
    model = load_from_string(linear(factor))
    model.doc_string = "x" * 80_000
    return model.SerializeToString()


@played(memory_bytes=500_000)
async def test_the_model_used_the_longest_ago_makes_room(worker: Worker):
    names = ["one", "two", "three"]
    points = [endpoint(name, [worker.revision(1, _padded(2.0), endpoint=name)]) for name in names]
    await worker.serve(*points)
    token = worker.token()
    for name in ("two", "three", "one"):
        reply = worker.ask(name, [[1] * 4], token=token)
        await worker.answered(reply)
    for live in worker.core._adoption.lives.values():
        batches = live.models[1].batches
        assert batches is not None
        batches.last_used -= 100 if live.endpoint.name == "two" else 50
    four = endpoint("four", [worker.revision(1, _padded(3.0), endpoint="four")])
    assert await worker.serve(*points, four) == {}
    states = {entry.name: entry.state for entry in worker.core.index(token)}
    assert states == {"one": "READY", "two": "UNAVAILABLE", "three": "READY", "four": "READY"}
    again = worker.ask("two", [[1] * 4], token=token)
    await worker.answered(again)
    assert again.first[0, 0] == 2


@played(memory_bytes=200_000)
async def test_a_model_that_finds_no_room_beside_those_in_use_is_reported(worker: Worker):
    one = endpoint("one", [worker.revision(1, _padded(2.0), endpoint="one")])
    two = endpoint("two", [worker.revision(1, _padded(2.0), endpoint="two")])
    await worker.serve(one)
    problems = await worker.serve(one, two)
    assert "MiB of memory" in next(iter(problems.values()))
    reply = worker.ask("one", [[1] * 4])
    await worker.answered(reply)
    assert reply.answers


@played()
async def test_without_the_gpu_that_is_preferred_the_cpu_takes_over(worker: Worker):
    placements = []

    def pick(files: ModelFiles, placement: Placement) -> Engine:
        placements.append(placement.device)
        if placement.device == "gpu":
            raise DeviceMissing("no GPU")
        return Watched(load(files, placement))

    worker.core._fleet.reader.load = pick
    worker.core._fleet.reader.room = Room(gpu=True)
    assert await worker.serve(endpoint("scores", [worker.revision(1, linear())])) == {}
    assert placements == ["gpu", "cpu"]
    insists = endpoint("insists", [worker.revision(1, linear(), endpoint="f")], device="gpu")
    assert "no GPU" in next(iter((await worker.serve(insists)).values()))


@played(tune=tune_as_slow)
async def test_threads_are_measured_where_none_are_set_and_a_worker_has_cores_for_them(worker: Worker):
    asked = []

    def pick(files: ModelFiles, placement: Placement) -> Engine:
        asked.append(placement.threads)
        return Watched(load(files, placement))

    worker.core._fleet.reader.load = pick
    for number, room in enumerate((Room(cores=1), Room(cores=4), Room(cores=4, threads=2))):
        worker.core._fleet.reader.room = room
        name = f"scores{number}"
        assert await worker.serve(endpoint(name, [worker.revision(1, linear(), endpoint=name)])) == {}
    assert asked == [1, 1, 4, 2]


@played()
async def test_a_load_in_vain_does_not_stop_the_loop(worker: Worker):
    hold = threading.Event()

    def hang(revision: Revision) -> ModelFiles:
        hold.wait(60)
        return worker.open(revision)

    first, second = worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))
    await worker.serve(endpoint("scores", [first]))
    split = [Arm(revision=1, share=5000), Arm(revision=2, share=5000)]
    adopting = asyncio.ensure_future(worker.core.adopt(worker.state(endpoint("scores", [first, second], split)), hang))
    for _ in range(20):
        await worker.answered(worker.ask("scores", [[1] * 4]))
    assert not adopting.done()
    hold.set()
    await adopting


@played(tune=lambda engine: Timing(batch=1, one_row_s=0.0))
async def test_a_model_whose_speed_is_not_known_does_not_hold_the_loop_up(worker: Worker):
    hold = threading.Event()
    hold.set()
    worker._fault = lambda arrays: hold.wait(60)
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    hold.clear()
    reply = worker.ask("scores", [[1] * 4])
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not reply.done
    hold.set()
    await worker.answered(reply)


@played(tune=tune_as_slow)
async def test_a_run_that_hangs_is_stopped_where_the_engine_can_be(worker: Worker):
    stopped = threading.Event()

    class Stubborn(Watched):
        def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
            assert stopped.wait(10)
            raise EngineFailed("it was stopped")

        def stop(self) -> None:
            stopped.set()

    worker.core._fleet.reader.load = lambda files, placement: Stubborn(load(files, placement))
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    reply = worker.ask("scores", [[1] * 4])
    await asyncio.sleep(0.02)
    worker.core._fleet.stop_hanging(time.monotonic() + 30)
    assert not stopped.is_set()
    worker.core._fleet.stop_hanging(time.monotonic() + 100)
    await worker.answered(reply)
    assert isinstance(reply.error, EngineFailed)


@played()
async def test_a_gpu_that_fails_in_the_middle_hands_over_to_the_cpu(worker: Worker):
    class Gpu(Watched):
        device = "gpu"

        def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
            raise EngineFailed("the device is gone")

    def pick(files: ModelFiles, placement: Placement) -> Engine:
        engine = load(files, Placement())
        return Gpu(engine) if placement.device == "gpu" else Watched(engine)

    worker.core._fleet.reader.load = pick
    worker.core._fleet.reader.room = Room(gpu=True)
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    replies = [worker.ask("scores", [[number] * 4]) for number in range(5)]
    await worker.answered(*replies)
    assert [reply.first[0, 0] for reply in replies] == [0, 2, 4, 6, 8]


@played()
async def test_models_that_take_for_ever_to_load_keep_nobody_else_waiting(worker: Worker):
    release, worker.core._fleet.loads_within = threading.Event(), 0.2

    def hang(revision: Revision) -> ModelFiles:
        if revision.model == "hangs":
            release.wait(20)
        return worker.open(revision)

    stuck = [
        endpoint(f"stuck{number}", [replace(worker.revision(1, linear(), endpoint=f"stuck{number}"), model="hangs")])
        for number in range(2)
    ]
    well = endpoint("scores", [worker.revision(1, linear())])
    problems = await asyncio.wait_for(worker.core.adopt(worker.state(*stuck, well), hang), 10)
    assert sorted(problems) == sorted(one.revisions[0].id for one in stuck)
    assert worker.core.is_ready()
    reply = worker.ask("scores", [[1] * 4])
    await worker.answered(reply)
    assert reply.answers
    running = worker.core._running
    worker.core._fleet.stop_hanging(time.monotonic() + 200)
    assert running.numbers[SINCE] == 0
    worker.core._fleet.stop_hanging(time.monotonic() + 400)
    assert running.numbers[THREAD] in {number_of(one.revisions[0].id) for one in stuck}
    assert running.numbers[SINCE] == 1
    release.set()
    await until(lambda: worker.core.is_model_ready(worker.token(), "stuck0"))
