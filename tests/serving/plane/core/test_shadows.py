"""Copies for revisions on trial, and who watches."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from falaj.runtimes.engine import Array
from falaj.runtimes.errors import EngineFailed
from falaj.serving.plane.core.shadows import differ
from falaj.serving.states import Arm
from tests.serving.plane.core.worker import Worker, endpoint, linear, played, played_both_ways, sums


async def compared(worker: Worker, shadow: bytes, *, share: int = 10_000, asks: int = 40, fault=None) -> tuple[int, int]:
    """How often a shadow beside the doubling model was compared, and how often it differed."""
    live, trial = worker.revision(1, linear(2.0)), worker.revision(2, shadow)
    arms = [Arm(revision=1, share=10_000), Arm(revision=2, share=share, role="shadow")]
    await worker.serve(endpoint("scores", [live, trial], arms, latency_ms=60_000))
    if fault is not None:
        (live_one,) = worker.core._adoption.lives.values()
        batches = live_one.models[2].batches
        assert batches is not None
        batches.engine._fault = fault
    replies = []
    for number in range(asks):
        replies.append(worker.ask("scores", [[number + 1] * 4] * (1 + number % 3)))
        if number % 4 == 0:
            await asyncio.sleep(0.002)
    await worker.answered(*replies)
    for number, reply in enumerate(replies):
        assert reply.answers[0].revision == 1
        assert (reply.first == 2 * (number + 1)).all()
    assert await worker.core.drain(60.0)
    told = {one.revision: one for one in worker.core.drain_report().revisions}
    assert told[1].compared == 0
    return told[2].compared, told[2].differed


@played_both_ways
async def test_a_shadow_that_agrees_is_compared_and_differs_never(worker: Worker):
    assert await compared(worker, linear(2.0)) == (40, 0)


@played_both_ways
async def test_a_shadow_that_says_something_else_is_found_out_and_never_heard(worker: Worker):
    assert await compared(worker, linear(3.0)) == (40, 40)


@played()
async def test_a_difference_in_the_last_digits_is_none(worker: Worker):
    assert await compared(worker, linear(2.000001)) == (40, 0)


@played()
async def test_a_shadow_gets_its_share_of_copies(worker: Worker):
    count, _ = await compared(worker, linear(2.0), share=2500, asks=400)
    assert 60 < count < 140


@played()
async def test_a_shadow_with_other_inputs_differs_and_disturbs_nobody(worker: Worker):
    assert await compared(worker, sums()) == (40, 40)


@played_both_ways
async def test_a_shadow_that_fails_disturbs_nobody(worker: Worker):
    def fault(arrays: Sequence[Array]) -> None:
        raise EngineFailed("broken")

    assert await compared(worker, linear(2.0), fault=fault) == (40, 40)


@pytest.mark.parametrize(
    ("one", "other", "different"),
    [
        (np.float32([1.0]), np.float32([1.00001]), False),
        (np.float32([1.0]), np.float32([1.01]), True),
        (np.float64([1.0]), np.float64([1.00001]), True),
        (np.float16([1.0]), np.float16([1.005]), False),
        (np.float32([1.0]), np.float64([1.0]), False),
        (np.float32([np.nan]), np.float32([np.nan]), False),
        (np.float32([np.nan]), np.float32([1.0]), True),
        (np.int64([3]), np.int64([3]), False),
        (np.int64([3]), np.int64([4]), True),
        (np.int64([3]), np.float32([3]), True),
        (np.float32([1.0]), np.float32([[1.0]]), True),
        (np.array([b"a"], object), np.array([b"a"], object), False),
        (np.array([b"a"], object), np.array([b"b"], object), True),
    ],
)
def test_answers_are_compared_as_their_datatype_wants(one: Array, other: Array, different: bool):
    assert differ(one, other) is different
    assert differ(other, one) is different
