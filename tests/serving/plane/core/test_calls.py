"""Calls that are written down."""

import asyncio
import json

import numpy as np

from falaj.runtimes.engine import TensorSpec
from falaj.runtimes.errors import EngineFailed
from falaj.serving.plane.core.calls import MOST, written
from tests.serving.plane.core.worker import Worker, endpoint, linear, played, played_both_ways

COLUMNS = ("age", "name", "income", "zip")


@played_both_ways
async def test_a_call_is_written_down_without_what_is_masked(worker: Worker):
    one = worker.revision(4, linear(2.0), columns=COLUMNS)
    await worker.serve(endpoint("scores", [one], log_share=10_000, masked=("name", "zip"), latency_ms=60_000))
    replies = [worker.ask("scores", [[number, 7, 8, 9]], id=f"call-{number}") for number in range(3)]
    await worker.answered(*replies)
    calls = worker.core.drain_report().calls
    assert [call.id for call in calls] == ["call-0", "call-1", "call-2"]
    assert [json.loads(call.inputs) for call in calls] == [{"x": [[number, None, 8, None]]} for number in range(3)]
    assert json.loads(calls[1].outputs) == {"y": [[2, 14, 16, 18]]}
    assert (calls[0].revision, calls[0].caller, calls[0].status) == (4, "1" * 32, "ok")
    assert abs(calls[0].at - worker.clock.now()) < 5_000_000
    assert 0 < calls[0].ms < 5000
    assert worker.core.drain_report().calls == ()


@played_both_ways
async def test_a_call_whose_caller_chose_the_revision_is_written_down_as_such(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], log_share=10_000, latency_ms=60_000))
    for fields in ({}, {"override": "1"}, {"version": "1"}):
        await worker.answered(worker.ask("scores", [[1] * 4], **fields))
    assert [call.drawn for call in worker.core.drain_report().calls] == [True, False, False]


@played()
async def test_a_share_of_the_calls_is_written_down(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], log_share=2000))
    token = worker.token()
    for _ in range(20):
        await worker.answered(*[worker.ask("scores", [[1] * 4], token=token) for _ in range(50)])
    assert 140 < len(worker.core.drain_report().calls) < 260


@played_both_ways
async def test_a_call_that_the_model_failed_on_is_written_down_without_its_inputs(worker: Worker):
    def fault(arrays) -> None:
        raise EngineFailed("broken")

    worker._fault = fault
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], log_share=10_000))
    await worker.answered(worker.ask("scores", [[1] * 4], id="unlucky"))
    (call,) = worker.core.drain_report().calls
    assert (call.id, call.status, call.inputs, call.outputs) == ("unlucky", "EngineFailed", "{}", "{}")


@played()
async def test_the_buffer_of_calls_is_bounded(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())], log_share=10_000))
    token = worker.token()
    for _ in range(30):
        await worker.answered(*[worker.ask("scores", [[1] * 4], token=token) for _ in range(50)])
        await asyncio.sleep(0)
    told = worker.core.drain_report()
    assert (len(told.calls), told.revisions[0].unlogged) == (MOST, 500)
    await worker.answered(worker.ask("scores", [[1] * 4], token=token))
    told = worker.core.drain_report()
    assert (len(told.calls), told.revisions[0].unlogged) == (1, 0)


@played()
async def test_without_a_share_nothing_is_written_down(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear())]))
    await worker.answered(worker.ask("scores", [[1] * 4]))
    assert worker.core.drain_report().calls == ()


def spec(name: str, datatype: str = "FP32") -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, shape=(-1, 2))


def test_a_tensor_may_be_masked_as_a_whole():
    text = written([spec("a"), spec("b")], [np.ones((1, 2), np.float32)] * 2, ["b"], ())
    assert json.loads(text) == {"a": [[1, 1]], "b": "masked"}


def test_what_is_too_large_is_told_by_its_shape():
    text = written([spec("a")], [np.ones((1000, 2000), np.float32)], [], ())
    assert json.loads(text) == {"a": {"shape": [1000, 2000]}}
    long = written([spec("a", "BYTES")], [np.array([[b"x" * 30_000, b"y"]], object)], [], ())
    assert json.loads(long) == {"a": {"shape": [1, 2]}}


def test_texts_and_numbers_that_json_has_no_word_for_are_written_all_the_same():
    texts = written([spec("a", "BYTES")], [np.array([[b"ok", b"\xff"]], object)], [], ())
    assert json.loads(texts) == {"a": [["ok", "\ufffd"]]}
    numbers = written([spec("a")], [np.float32([[np.nan, np.inf]])], [], ())
    assert json.loads(numbers) == {"a": [[None, None]]}


def test_a_scalar_is_written_as_it_is():
    assert json.loads(written([spec("a")], [np.array(3, np.int64)], ["b"], ("b",))) == {"a": 3}


def test_a_tensor_that_may_hold_a_masked_column_is_told_by_its_shape_alone():
    specs = [TensorSpec(name="x", datatype="FP32", shape=(-1, 3)), TensorSpec(name="age", datatype="FP32", shape=(-1, 1))]
    arrays = [np.array([[1.0, 2.0, 3.0]], dtype=np.float32), np.array([[42.0]], dtype=np.float32)]
    assert json.loads(written(specs, arrays, ["salary"], [])) == {"x": {"shape": [1, 3]}, "age": [[42.0]]}
    assert json.loads(written(specs, arrays, ["salary"], ["a", "salary"])) == {"x": {"shape": [1, 3]}, "age": [[42.0]]}
    assert json.loads(written(specs, arrays, ["b"], ["a", "b", "c"])) == {"x": [[1.0, None, 3.0]], "age": [[42.0]]}
    assert json.loads(written(specs, arrays, ["age"], [])) == {"x": [[1.0, 2.0, 3.0]], "age": "masked"}
