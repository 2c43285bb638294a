"""Requests become batches, batches become answers."""

import asyncio
import threading
import time
from collections.abc import Sequence

import numpy as np

from falaj.base.errors import FalajError, Invalid, Unavailable
from falaj.runtimes.engine import Array
from falaj.runtimes.errors import EngineFailed, Rejected
from falaj.serving.plane.asking import Answer, DeadlinePassed, Given
from tests.serving.plane.core.worker import (
    OTHER_PROJECT,
    Saved,
    Timing,
    Worker,
    endpoint,
    linear,
    played,
    played_both_ways,
    sums,
    tune_as_slow,
    until,
)


@played_both_ways
async def test_everyone_gets_the_answer_to_his_own_rows(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear(2.0))], latency_ms=60_000))
    sizes = [1, 3, 2, 1, 7, 1, 40, 1, 100, 5]
    asked = [np.full((rows, 4), number, np.float32) for number, rows in enumerate(sizes)]
    replies = [worker.ask("scores", rows.tolist()) for rows in asked]
    await worker.answered(*replies)
    for reply, rows in zip(replies, asked, strict=True):
        assert np.array_equal(reply.first, rows * 2)


@played()
async def test_requests_of_one_turn_of_the_loop_run_together(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    replies = [worker.ask("scores", [[number] * 4]) for number in range(70)]
    await worker.answered(*replies)
    assert worker.engines[0].runs == [32, 32, 6]


@played(tune=tune_as_slow)
async def test_a_slow_model_takes_what_came_while_it_ran(worker: Worker):
    running, go_on = threading.Event(), threading.Event()

    def wait(arrays: Sequence[Array]) -> None:
        running.set()
        assert go_on.wait(10)

    worker._fault = wait
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=60_000))
    first = worker.ask("scores", [[0] * 4])
    await asyncio.to_thread(running.wait, 10)
    more = [worker.ask("scores", [[number] * 4]) for number in range(20)]
    await asyncio.sleep(0.02)
    go_on.set()
    await worker.answered(first, *more)
    assert worker.engines[0].runs == [1, 20]


@played_both_ways
async def test_requests_of_different_widths_do_not_mix(worker: Worker):
    await worker.serve(endpoint("sums", [worker.revision(1, sums())], latency_ms=60_000))
    replies = []
    for number in range(30):
        width = 1 + number % 3
        data = list(range(number, number + width))
        replies.append(worker.ask_given("sums", [Given(name, "INT64", [1, width], data) for name in ("a", "b")]))
    await worker.answered(*replies)
    for number, reply in enumerate(replies):
        assert reply.first.tolist() == [[2 * one for one in range(number, number + 1 + number % 3)]]


@played_both_ways
async def test_one_bad_request_does_not_fail_its_neighbours(worker: Worker):
    def fault(arrays: Sequence[Array]) -> None:
        if (arrays[0] == 13).any():
            raise Rejected("thirteen is not taken")
        if (arrays[0] == 14).any():
            raise EngineFailed("the model broke")
        if (arrays[0] == 15).any():
            raise ZeroDivisionError("a bug")

    worker._fault = fault
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=60_000))
    replies = [worker.ask("scores", [[number] * 4]) for number in range(10, 20)]
    await worker.answered(*replies)
    assert isinstance(replies[3].error, Rejected)
    assert isinstance(replies[4].error, EngineFailed)
    assert isinstance(replies[5].error, EngineFailed)
    for number, reply in zip(range(10, 20), replies, strict=True):
        assert number in (13, 14, 15) or reply.first[0, 0] == 2 * number
    (told,) = worker.core.drain_report().revisions
    assert (told.requests, told.errors) == (10, 3)


@played_both_ways
async def test_an_element_that_is_no_number_fails_its_own_request_alone(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], nan="refuse", latency_ms=60_000))
    elements: list[object] = [1.0, "1.0", None, 1e300, float("nan"), 2]
    replies = [worker.ask_given("scores", [Given("x", "FP32", [1, 4], [one, 1.0, 1.0, 1.0])]) for one in elements]
    await worker.answered(*replies)
    assert [bool(reply.answers) for reply in replies] == [True, False, False, False, False, True]
    assert all(isinstance(reply.error, Invalid) for reply in replies[1:5])
    (told,) = worker.core.drain_report().revisions
    assert (told.requests, told.errors) == (2, 0)  # the others say nothing about the model


@played_both_ways
async def test_an_element_that_is_no_number_fails_a_large_request_alone_too(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=60_000))
    large = worker.ask_given("scores", [Given("x", "FP32", [1000, 4], ["1.0"] * 4000)])
    small = worker.ask("scores", [[1] * 4])
    await worker.answered(large, small)
    assert isinstance(large.error, Invalid)
    assert small.first[0, 0] == 2


@played_both_ways
async def test_answers_with_other_rows_than_were_asked_never_reach_the_wrong_caller(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=60_000))
    engine, run = worker.engines[0], worker.engines[0].run
    engine.run = lambda arrays: [array[:1] for array in run(arrays)]  # type: ignore[method-assign]
    replies = [worker.ask("scores", [[number] * 4]) for number in range(8)]
    await worker.answered(*replies)
    for number, reply in enumerate(replies):
        assert reply.first[0, 0] == 2 * number


@played_both_ways
async def test_nothing_runs_for_those_whose_deadline_passed_or_who_hung_up(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    late = worker.ask("scores", [[1] * 4], deadline=time.monotonic() - 0.001)
    gone = worker.ask("scores", [[2] * 4], reply=Saved(gone=True))
    good = worker.ask("scores", [[3] * 4], deadline=time.monotonic() + 60)
    await worker.answered(late, gone, good)
    assert isinstance(late.error, DeadlinePassed)
    assert good.first[0, 0] == 6
    assert worker.engines[0].runs == [1]


@played_both_ways
async def test_a_request_larger_than_a_batch_runs_in_pieces_and_others_go_on(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=60_000))
    rows = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    large = worker.ask_given("scores", [Given("x", "FP32", [1000, 4], rows.tobytes())])
    small = worker.ask("scores", [[1] * 4])
    await worker.answered(large, small)
    assert np.array_equal(large.first, rows * 2)
    assert small.first[0, 0] == 2
    assert max(worker.engines[0].runs) <= 64
    (told,) = worker.core.drain_report().revisions
    assert (told.requests, told.rows) == (2, 1001)


@played_both_ways
async def test_a_large_request_that_nobody_waits_for_to_its_end_is_no_failure_of_the_model(worker: Worker):
    worker._fault = lambda arrays: time.sleep(0.002)
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=60_000))
    given = [Given("x", "FP32", [20_000, 4], bytes(320_000))]
    late = worker.ask_given("scores", given, deadline=time.monotonic() + 0.03)
    gone = worker.ask_given("scores", given)
    await until(lambda: len(worker.engines[0].runs) > 2)
    gone.gone = True
    await worker.answered(late, gone)
    assert isinstance(late.error, DeadlinePassed)
    (told,) = worker.core.drain_report().revisions
    assert (told.requests, told.errors, told.shed) == (0, 0, 2)


@played()
async def test_small_requests_do_not_wait_for_all_of_a_large_one(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    large = worker.ask_given("scores", [Given("x", "FP32", [100_000, 4], bytes(1_600_000))])
    small = worker.ask("scores", [[1] * 4])
    for _ in range(20):
        await asyncio.sleep(0)
    assert small.answers
    assert not large.done
    await worker.answered(large)


@played(tune=tune_as_slow)
async def test_what_would_wait_for_longer_than_the_objective_is_refused_at_once(worker: Worker):
    worker._fault = lambda arrays: time.sleep(0.02 * len(arrays[0]))
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=100))
    replies = []
    for _ in range(60):
        replies.append(worker.ask("scores", [[1] * 4]))
        await asyncio.sleep(0)
    await worker.answered(*replies)
    shed = [reply.error for reply in replies if reply.errors]
    assert 30 < len(shed) < 60
    assert all(isinstance(error, Unavailable) and error.delay > 0 for error in shed)
    (told,) = worker.core.drain_report().revisions
    assert told.shed == len(shed)


@played(tune=lambda engine: Timing(batch=1, one_row_s=0.05))
async def test_what_would_wait_past_its_own_deadline_is_refused_at_once(worker: Worker):
    worker._fault = lambda arrays: time.sleep(0.05 * len(arrays[0]))
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], latency_ms=10_000))
    first = [worker.ask("scores", [[1] * 4]) for _ in range(6)]
    hurried = worker.ask("scores", [[1] * 4], deadline=time.monotonic() + 0.06)
    assert isinstance(hurried.error, Unavailable)
    await worker.answered(*first)
    assert all(reply.answers for reply in first)


@played_both_ways
async def test_no_more_wait_at_an_endpoint_than_it_allows(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], concurrency=5, latency_ms=60_000))
    replies = [worker.ask("scores", [[1] * 4]) for _ in range(20)]
    await worker.answered(*replies)
    assert sum(bool(reply.answers) for reply in replies) == 5
    assert all(isinstance(reply.error, Unavailable) for reply in replies[5:])
    again = worker.ask("scores", [[1] * 4])
    await worker.answered(again)
    assert again.answers


@played(waiting_bytes=3000)
async def test_what_waits_is_bounded_in_bytes_and_what_was_answered_counts_no_more(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    for _ in range(3):
        replies = [worker.ask_given("scores", [Given("x", "FP32", [25, 4], bytes(400))]) for _ in range(5)]
        await worker.answered(*replies)
        assert [bool(reply.answers) for reply in replies] == [True, True, False, False, False]
        assert all(isinstance(reply.error, Unavailable) for reply in replies[2:])


@played(waiting_bytes=1_000_000, tune=tune_as_slow)
async def test_a_project_that_floods_its_endpoints_leaves_room_for_others(worker: Worker):
    go_on = threading.Event()
    worker._fault = lambda arrays: go_on.wait(10) if arrays[0][0, 0] == 7 else None
    content, names = worker.revision(1, linear()), [f"flooded-{number}" for number in range(5)]
    flooded = [endpoint(name, [content], latency_ms=60_000) for name in names]
    await worker.serve(*flooded, endpoint("calm", [content], project=OTHER_PROJECT))
    flood = []
    for number in range(100):
        seven = np.full((1000, 4), 7, np.float32).tobytes()
        flood.append(worker.ask_given(names[number % 5], [Given("x", "FP32", [1000, 4], seven)]))
    refused = [reply for reply in flood if reply.errors]
    assert all(isinstance(reply.error, Unavailable) for reply in refused)
    assert len(refused) > 50
    token = worker.token(project=OTHER_PROJECT)
    for _ in range(20):
        replies = [worker.ask_given("calm", [Given("x", "FP32", [1000, 4], bytes(16_000))], token=token) for _ in range(4)]
        await worker.answered(*replies)
        assert all(reply.answers for reply in replies)
    go_on.set()
    await worker.answered(*flood)


@played_both_ways
async def test_after_any_mix_of_outcomes_nothing_is_left_waiting(worker: Worker):
    def fault(arrays: Sequence[Array]) -> None:
        if (arrays[0] == 1).any():
            raise EngineFailed("no")

    worker._fault = fault
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], concurrency=1000, latency_ms=60_000))
    replies = []
    for number in range(400):
        deadline = time.monotonic() - 1 if number % 7 == 0 else None
        rows = [[number % 5] * 4] * (1 + number % 50)
        replies.append(worker.ask("scores", rows, deadline=deadline, reply=Saved(gone=number % 11 == 0)))
        if number % 60 == 0:
            await asyncio.sleep(0.001)
    await worker.answered(*replies)
    for number, reply in enumerate(replies):
        assert len(reply.answers) + len(reply.errors) == 1
        assert all(isinstance(error, FalajError) for error in reply.errors)
        if reply.answers:
            assert (reply.first == 2 * (number % 5)).all()
    assert await worker.core.drain(1.0)
    assert worker.core._waiting.taken == 0
    for live in worker.core._adoption.lives.values():
        assert live.gate.open == 0
        assert all(model.batches is not None and model.batches.rows_waiting == 0 for model in live.models.values())


@played()
async def test_a_fault_while_answering_costs_others_nothing(worker: Worker):
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))

    class Raises(Saved):
        def answer(self, answer: Answer) -> None:
            raise ZeroDivisionError

    one, other = worker.revision(1, linear()), worker.revision(1, linear(), endpoint="f")
    await worker.serve(endpoint("one", [one]), endpoint("other", [other]))
    worker.ask("one", [[1] * 4], reply=Raises())
    good = [worker.ask("other", [[1] * 4]) for _ in range(3)]
    await worker.answered(*good)
    assert all(reply.answers for reply in good)
    assert [type(fault) for fault in faults] == [ZeroDivisionError]
    again = worker.ask("one", [[2] * 4])
    await worker.answered(again)
    assert again.first[0, 0] == 4
