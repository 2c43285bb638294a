"""Batches on an engine that has several runs under way at once, as a GPU has."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.runtimes.engine import Array, TensorSpec
from falaj.runtimes.errors import EngineFailed
from falaj.runtimes.fallback import Fallback
from falaj.serving.plane.asking import Answer, Ask, Given
from falaj.serving.plane.core.admission import Gate
from falaj.serving.plane.core.batches import Batches
from falaj.serving.plane.core.counts import Counts
from falaj.serving.plane.core.inputs import Inputs, Nan
from falaj.serving.plane.core.running import Running
from falaj.serving.plane.core.runs import Face
from falaj.serving.plane.core.sizes import BatchSize
from falaj.serving.plane.shares import Shares

SECONDS = 0.005


class Doubling:
    """Doubles numbers, a while later; runs one after the other, as a device does."""

    inputs = outputs = (TensorSpec(name="x", datatype="FP32", shape=(-1, 1)),)
    batches = True
    device = "gpu"
    lanes = 2
    most_rows = 128
    seconds = SECONDS

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.most_under_way = self.under_way = 0
        self.free_at = 0.0
        self.is_lost = threading.Event()

    def begin(self, arrays: Sequence[Array]) -> "Run":
        assert self.under_way < self.lanes
        self.sizes.append(len(arrays[0]))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.free_at = max(time.monotonic(), self.free_at) + self.seconds
        return Run(self, arrays[0].copy(), self.free_at)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        return self.begin(arrays).answers()

    def close(self) -> None:
        pass


class Run:
    def __init__(self, engine: Doubling, array: Array, at: float) -> None:
        self.engine, self.array, self.at = engine, array, at

    def is_done(self) -> bool:
        return time.monotonic() >= self.at

    def answers(self) -> Sequence[Array]:
        self.engine.under_way -= 1
        time.sleep(max(0.0, self.at - time.monotonic()))
        if self.engine.is_lost.is_set() or (self.array < 0).any():
            raise EngineFailed("the device is lost")
        return [self.array * 2]


class Sharing(Doubling):
    """Two at once take as long as one after the other; and it has memory of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0.0
        self.distances: list[float] = []  # of those that began beside others

    def begin(self, arrays: Sequence[Array]) -> "Run":
        now = time.monotonic()
        if self.under_way:
            self.distances.append(now - self.begun)
        self.begun, self.free_at = now, 0.0
        return super().begin(arrays)

    def memory(self, length: int) -> "Own":
        return Own(length)


class Own:
    def __init__(self, length: int) -> None:
        self.array: Array = np.zeros(length, np.uint8)

    def put(self, parts: Sequence[bytes], at: int) -> None:
        joined = np.frombuffer(b"".join(parts), np.uint8)
        self.array[at : at + len(joined)] = joined


class Plain(Doubling):
    """On a CPU: one at a time."""

    device = "cpu"
    lanes = 1


class Reply:
    gone = False

    def __init__(self, future: "asyncio.Future[Answer]") -> None:
        self.future = future

    def answer(self, answer: Answer) -> None:
        self.future.set_result(answer)

    def refuse(self, error: Exception) -> None:
        self.future.set_exception(error)


class Asked:
    def __init__(self, engine: Doubling | Fallback, size: int = 64, nan: Nan = "allow") -> None:
        self.loop = asyncio.get_running_loop()
        self.inputs = Inputs(engine.inputs, batches=True, nan=nan)
        self.gate = Gate(Shares(1 << 30).of("project"))
        self.batches = Batches(
            Face(endpoint="m", revision=1, model="m", version=1, number=7),
            engine,
            self.inputs,
            BatchSize(size, SECONDS / size, objective=10.0, longest=5.0),
            counts=Counts(),
            gate=self.gate,
            running=Running(None),
            loop=self.loop,
            threaded=True,
        )

    async def ask(self, *numbers: float) -> list[float]:
        future: asyncio.Future[Answer] = self.loop.create_future()
        given = [Given("x", "FP32", (len(numbers), 1), np.array(numbers, np.float32).tobytes())]
        ask = Ask(token="", endpoint="m", given=given, reply=Reply(future), arrived=time.monotonic())
        datas, rows, tails, weight = self.inputs.check(given)
        self.gate.enter(weight)
        self.batches.add((ask, None, rows, datas, tails, weight))
        self.batches.turn()
        return [float(one) for one in (await future).arrays[0][:, 0]]

    async def keep_asking(self, number: int, times: int) -> None:
        for _ in range(times):
            assert await self.ask(number) == [2 * number]


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


@on_a_loop
async def test_two_parts_are_under_way_at_once_and_everyone_gets_their_own_answer():
    engine = Doubling()
    asked = Asked(engine)
    await asyncio.gather(*[asked.keep_asking(number, 20) for number in range(64)])
    assert engine.most_under_way == 2
    assert sum(engine.sizes) == 64 * 20
    assert len(engine.sizes) <= 60  # 40 halves of 32, and what went before they were found
    assert asked.gate.open == 0
    assert not asked.batches.is_busy
    await asked.batches.close()


@on_a_loop
async def test_no_two_runs_begin_together():
    """They would end together, and nothing would run while both are answered."""
    engine = Sharing()
    asked = Asked(engine, size=32)
    await asyncio.gather(*[asked.keep_asking(number, 10) for number in range(64)])
    assert len(engine.distances) >= 5
    assert min(engine.distances) >= SECONDS / 4
    await asked.batches.close()


@on_a_loop
async def test_one_that_is_wrong_does_not_fail_others_that_are_gathered_while_all_lanes_are_taken():
    engine = Sharing()
    asked = Asked(engine, size=8, nan="refuse")
    answers = await asyncio.gather(
        *[asked.ask(number if number % 10 else np.nan) for number in range(64)], return_exceptions=True
    )
    for number, answer in enumerate(answers):
        if number % 10:
            assert answer == [2.0 * number]
        else:
            assert isinstance(answer, Invalid)
    assert asked.gate.open == 0
    await asked.batches.close()


@on_a_loop
async def test_a_lone_request_does_not_wait_for_company():
    asked = Asked(Doubling())
    started = time.monotonic()
    assert await asked.ask(1.0) == [2.0]
    assert time.monotonic() - started < 1000 * SECONDS
    await asked.batches.close()


@on_a_loop
async def test_one_that_fails_does_not_fail_those_it_ran_with():
    asked = Asked(Doubling())
    answers = await asyncio.gather(*[asked.ask(number) for number in (1.0, -1.0, 3.0)], return_exceptions=True)
    assert answers[0] == [2.0]
    assert isinstance(answers[1], EngineFailed)
    assert answers[2] == [6.0]
    assert asked.gate.open == 0
    await asked.batches.close()


@on_a_loop
async def test_a_request_larger_than_a_batch_goes_beside_the_others():
    asked = Asked(Doubling(), size=4)
    answers = await asyncio.gather(asked.ask(*range(11)), *[asked.ask(number) for number in range(20)])
    assert answers == [[2.0 * number for number in range(11)], *[[2.0 * number] for number in range(20)]]
    await asked.batches.close()


@on_a_loop
async def test_no_run_is_larger_than_the_engine_takes_at_once():
    engine = Doubling()
    engine.most_rows = 8
    asked = Asked(engine)
    await asyncio.gather(*[asked.keep_asking(number, 4) for number in range(64)])
    assert max(engine.sizes) == 8
    await asked.batches.close()


@on_a_loop
async def test_time_on_a_shared_device_counts_once():
    """Two runs beside each other take twice as long each: a row costs what it costs alone."""
    engine = Doubling()
    engine.seconds = 8 * SECONDS  # so long that what a busy machine adds does not count
    asked = Asked(engine, size=32)
    await asyncio.gather(*[asked.keep_asking(number, 30) for number in range(64)])
    assert asked.batches.size.row_seconds == pytest.approx(engine.seconds / 32, rel=0.5)
    await asked.batches.close()


@on_a_loop
async def test_nothing_is_marked_as_running_once_all_are_answered():
    asked = Asked(Doubling())
    await asyncio.gather(*[asked.ask(number) for number in range(8)])
    await asked.batches.close()
    assert asked.batches.since == 0.0
    assert list(asked.batches._running.numbers) == [0, 0, 0, 0, 0]


@pytest.mark.parametrize("cpu", [Plain, Doubling])
@on_a_loop
async def test_a_device_that_is_lost_under_load_costs_no_answer(cpu):
    engine = Doubling()
    fallback = Fallback([lambda: engine, cpu])
    asked = Asked(fallback)
    asking = asyncio.gather(*[asked.keep_asking(number, 20) for number in range(16)])
    await asyncio.sleep(5 * SECONDS)
    engine.is_lost.set()
    await asking
    assert fallback.device == cpu.device
    await asked.batches.close()
