"""Calls whose caller chose the revision: answered as all are, and counted apart, for revisions are not judged by them."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pytest

from falaj.runtimes.engine import Array
from falaj.runtimes.errors import EngineFailed
from falaj.serving.operations.planes import PinnedReport, RevisionReport
from falaj.serving.plane.core.taps import Seen, Tap
from falaj.serving.states import Arm
from tests.serving.plane.core.worker import Worker, endpoint, linear, played, played_both_ways, until

POISON = 13.0


def fails_on_poison(arrays: Sequence[Array]) -> None:
    if (arrays[0] == POISON).any():
        raise EngineFailed("broken")


async def canary(worker: Worker) -> None:
    """Whose second revision gets every other call, by chance, and fails on poison."""
    arms = [Arm(revision=1, share=5_000), Arm(revision=2, share=5_000)]
    one = endpoint("scores", [worker.revision(1, linear(1.0)), worker.revision(2, linear(2.0))], arms, latency_ms=60_000)
    await worker.serve(one)
    (live,) = worker.core._adoption.lives.values()
    batches = live.models[2].batches
    assert batches is not None
    batches.engine._fault = fails_on_poison


def told(worker: Worker) -> dict[int, RevisionReport]:
    return {one.revision: one for one in worker.core.drain_report().revisions}


@played_both_ways
async def test_failing_calls_that_were_sent_to_a_canary_on_purpose_are_not_held_against_it(worker: Worker):
    await canary(worker)
    drawn = [worker.ask("scores", [[1.0] * 4]) for _ in range(40)]
    ways = cycle([{"override": "2"}, {"version": "2"}])
    pinned = [worker.ask("scores", [[POISON] * 4, [1.0] * 4], **next(ways)) for _ in range(10)]
    await worker.answered(*drawn, *pinned)
    assert all(isinstance(reply.error, EngineFailed) for reply in pinned)
    did = told(worker)
    mine = sum(reply.answers[0].revision == 2 for reply in drawn)
    assert 0 < mine < 40
    assert (did[2].requests, did[2].errors, did[2].rows, sum(did[2].latencies)) == (mine, 0, mine, mine)
    assert did[2].pinned == PinnedReport(requests=10, errors=10, latencies=did[2].pinned.latencies)
    assert (did[1].requests, did[1].pinned) == (40 - mine, None)
    assert told(worker)[2].pinned is None  # said once


@played_both_ways
async def test_good_calls_that_were_sent_to_a_canary_on_purpose_do_not_hide_that_it_fails(worker: Worker):
    await canary(worker)
    drawn = [worker.ask("scores", [[POISON] * 4]) for _ in range(40)]
    pinned = [worker.ask("scores", [[1.0] * 4, [2.0] * 4], override="2") for _ in range(30)]
    await worker.answered(*drawn, *pinned)
    assert all((reply.first[1] == 4).all() for reply in pinned)
    did, failed = told(worker)[2], sum(bool(reply.errors) for reply in drawn)
    assert failed > 0
    assert (did.requests, did.errors, did.rows, did.batches) == (failed, failed, 0, 0)
    assert did.pinned is not None
    assert (did.pinned.requests, did.pinned.errors, did.pinned.rows, sum(did.pinned.latencies)) == (30, 0, 60, 30)
    assert did.pinned.batches > 0


@played()
async def test_a_batch_of_both_kinds_is_counted_once(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, linear(2.0))]))
    replies = [worker.ask("scores", [[1.0] * 4] * (1 + place % 2), override="1" * (place % 3 == 0)) for place in range(9)]
    await worker.answered(*replies)
    assert worker.engines[0].runs == [13]
    did = told(worker)[1]
    assert did.pinned is not None
    assert (did.requests, did.rows, did.batches) == (6, 9, 1)
    assert (did.pinned.requests, did.pinned.rows, did.pinned.batches) == (3, 4, 0)


@played()
async def test_what_is_refused_counts_where_it_would_have_counted(worker: Worker):
    one = endpoint("scores", [worker.revision(1, linear(2.0))], concurrency=1)
    await worker.serve(one)
    replies = [worker.ask("scores", [[1.0] * 4], override=override) for override in ("1", "1", "1", "")]
    await worker.answered(*replies)
    assert [bool(reply.errors) for reply in replies] == [False, True, True, True]
    did = told(worker)[1]
    assert did.pinned is not None
    assert (did.shed, did.pinned.shed) == (1, 2)


class Spy(Tap):
    share = 10_000

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.missed = 0

    def see(self, seen: Seen) -> None:
        self.seen.append(seen)

    def miss(self, endpoint: str, revision: int, rows: int) -> None:
        self.missed += rows


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
def test_taps_see_what_the_split_gave_and_nothing_else(together: bool):
    spy = Spy()

    @played(taps=[spy])
    async def story(worker: Worker) -> None:
        await worker.serve(endpoint("scores", [worker.revision(1, linear(2.0))]))
        for number in range(1, 7):
            chosen = "1" if number % 2 else ""
            reply = worker.ask("scores", [[float(number)] * 4] * number, override=chosen)
            if not together:
                await worker.answered(reply)
        last = worker.ask("scores", [[9.0] * 4])
        await worker.answered(last)
        await until(lambda: bool(spy.seen) and (spy.seen[-1].inputs[0] == 9).any())

    story()
    inputs = np.concatenate([seen.inputs[0] for seen in spy.seen])
    outputs = np.concatenate([seen.outputs[0] for seen in spy.seen])
    assert inputs[:, 0].tolist() == [2.0] * 2 + [4.0] * 4 + [6.0] * 6 + [9.0]
    assert np.array_equal(inputs * 2, outputs)
    assert [seen.rows for seen in spy.seen] == ([13] if together else [2, 4, 6, 1])
    assert spy.missed == 0


def test_a_copy_for_a_shadow_counts_as_the_call_did_that_it_is_of():
    spy = Spy()

    @played(taps=[spy])
    async def story(worker: Worker) -> None:
        arms = [Arm(revision=1, share=10_000), Arm(revision=2, share=10_000, role="shadow")]
        revisions = [worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))]
        await worker.serve(endpoint("scores", revisions, arms, latency_ms=60_000))
        replies = [worker.ask("scores", [[1.0] * 4], version="1" * (place % 4 == 0)) for place in range(8)]
        await worker.answered(*replies)
        assert await worker.core.drain(60.0)
        did = told(worker)[2]
        assert did.pinned is not None
        assert (did.requests, did.compared, did.differed) == (6, 6, 6)
        assert (did.pinned.requests, did.pinned.compared, did.pinned.differed) == (2, 2, 2)

    story()
    assert {revision: sum(one.rows for one in spy.seen if one.revision == revision) for revision in (1, 2)} == {1: 6, 2: 6}
