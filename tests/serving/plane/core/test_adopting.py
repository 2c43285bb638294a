"""New states under load: nothing fails, nothing goes to the wrong revision."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence

from falaj.base.errors import Conflict, NotFound, Unavailable
from falaj.runtimes.engine import ModelFiles
from falaj.serving.states import Arm, Revision
from tests.serving.plane.core.worker import Saved, Worker, endpoint, linear, played, played_both_ways, until

BROKEN = b"this is no model"


class Load:
    """Asks without pause, and keeps every reply with the moment it was asked."""

    def __init__(self, worker: Worker, name: str = "scores") -> None:
        self.worker, self.name, self.replies = worker, name, []
        self._task = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        token = self.worker.token()
        while True:
            for number in range(4):
                self.replies.append((number, self.worker.ask(self.name, [[number + 1] * 4], token=token)))
            await asyncio.sleep(0.001)

    async def stop(self) -> list[tuple[int, Saved]]:
        self._task.cancel()
        await self.worker.answered(*(reply for _, reply in self.replies))
        return self.replies


def check(replies: Sequence[tuple[int, Saved]], factors: dict[int, float]) -> Counter[int]:
    """Every answer is right for the revision that it names; gives how many each had."""
    seen: Counter[int] = Counter()
    for number, reply in replies:
        revision = reply.answers[0].revision
        assert reply.first[0, 0] == (number + 1) * factors[revision]
        seen[revision] += 1
    return seen


@played_both_ways
async def test_updates_canaries_and_rollbacks_under_load_fail_nothing(worker: Worker):
    first, second, third = (worker.revision(number, linear(float(number + 1))) for number in (1, 2, 3))
    await worker.serve(endpoint("scores", [first], latency_ms=60_000))
    load = Load(worker)
    splits = [
        ([first, second], [Arm(revision=1, share=9000), Arm(revision=2, share=1000)]),
        ([first, second], [Arm(revision=1, share=5000), Arm(revision=2, share=5000)]),
        ([first, second], [Arm(revision=2, share=10_000)]),
        ([first, second], [Arm(revision=1, share=10_000)]),
        ([second, third], [Arm(revision=3, share=10_000)]),
        ([second, third], [Arm(revision=2, share=10_000)]),
    ]
    for revisions, arms in splits:
        assert await worker.serve(endpoint("scores", revisions, arms, latency_ms=60_000)) == {}
        await asyncio.sleep(0.03)
    seen = check(await load.stop(), {1: 2.0, 2: 3.0, 3: 4.0})
    assert set(seen) == {1, 2, 3}
    last = worker.ask("scores", [[1] * 4])
    await worker.answered(last)
    assert last.answers[0].revision == 2


@played()
async def test_from_one_turn_to_the_next_everyone_gets_the_new_revision(worker: Worker):
    first, second = worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))
    await worker.serve(endpoint("scores", [first]))
    before = [worker.ask("scores", [[1] * 4]) for _ in range(5)]
    await worker.serve(endpoint("scores", [first, second]))
    after = [worker.ask("scores", [[1] * 4]) for _ in range(5)]
    await worker.answered(*before, *after)
    assert [reply.answers[0].revision for reply in (*before, *after)] == [1] * 5 + [2] * 5


@played()
async def test_a_split_gives_each_revision_its_share_and_a_key_always_the_same(worker: Worker):
    revisions = [worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))]
    await worker.serve(endpoint("scores", revisions, [Arm(revision=1, share=7000), Arm(revision=2, share=3000)]))
    token = worker.token()
    free = [worker.ask("scores", [[1] * 4], token=token) for _ in range(1000)]
    await worker.answered(*free)
    keyed = [worker.ask("scores", [[1] * 4], token=token, key=f"k{number % 50}") for number in range(1000)]
    await worker.answered(*keyed)
    shares = Counter(reply.answers[0].revision for reply in free)
    assert 220 < shares[2] < 380
    by_key = {(number % 50, reply.answers[0].revision) for number, reply in enumerate(keyed)}
    assert len(by_key) == 50
    assert {revision for _, revision in by_key} == {1, 2}


@played()
async def test_a_revision_that_cannot_be_loaded_is_reported_and_the_old_split_goes_on(worker: Worker):
    good, bad = worker.revision(1, linear(2.0)), worker.revision(2, BROKEN)
    await worker.serve(endpoint("scores", [good]))
    load = Load(worker)
    problems = await worker.serve(endpoint("scores", [good, bad], [Arm(revision=1, share=5000), Arm(revision=2, share=5000)]))
    assert list(problems) == [bad.id]
    assert "Revision 2 could not be loaded" in problems[bad.id]
    await asyncio.sleep(0.02)
    assert set(check(await load.stop(), {1: 2.0})) == {1}
    told = {one.revision: one for one in worker.core.drain_report().revisions}
    assert (told[1].ready, told[2].ready) == (True, False)
    assert told[2].problem


@played()
async def test_a_fresh_worker_with_a_broken_canary_serves_by_the_rest(worker: Worker):
    good, bad = worker.revision(1, linear(2.0)), worker.revision(2, BROKEN)
    split = [Arm(revision=1, share=5000), Arm(revision=2, share=5000)]
    assert list(await worker.serve(endpoint("scores", [good, bad], split))) == [bad.id]
    replies = [worker.ask("scores", [[1] * 4]) for _ in range(50)]
    await worker.answered(*replies)
    assert {reply.answers[0].revision for reply in replies} == {1}


@played()
async def test_an_endpoint_with_nothing_to_answer_says_why(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, BROKEN)]))
    error = worker.ask("scores", [[1] * 4]).error
    assert isinstance(error, Unavailable)
    assert "Revision 1 could not be loaded" in str(error)
    assert worker.core.is_ready()  # for the other endpoints of this host


@played()
async def test_a_broken_shadow_disturbs_nobody(worker: Worker):
    good, bad = worker.revision(1, linear(2.0)), worker.revision(2, BROKEN)
    await worker.serve(endpoint("scores", [good]))
    await worker.serve(
        endpoint("scores", [good, bad], [Arm(revision=1, share=10_000), Arm(revision=2, share=5000, role="shadow")])
    )
    replies = [worker.ask("scores", [[1] * 4]) for _ in range(20)]
    await worker.answered(*replies)
    assert all(reply.answers for reply in replies)


@played_both_ways
async def test_a_quarantined_revision_is_taken_over_by_the_fallback_at_once(worker: Worker):
    first, second = worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))
    split = endpoint("scores", [first, second], [Arm(revision=2, share=10_000)], fallback=1, latency_ms=60_000)
    await worker.serve(split)
    load = Load(worker)
    await asyncio.sleep(0.02)
    adopting = asyncio.ensure_future(worker.serve(split, broken=[second.id]))
    await asyncio.sleep(0)
    after = [worker.ask("scores", [[1] * 4]) for _ in range(5)]
    await adopting
    await worker.answered(*after)
    assert {reply.answers[0].revision for reply in after} == {1}
    assert set(check(await load.stop(), {1: 2.0, 2: 3.0})) == {1, 2}
    assert isinstance(worker.ask("scores", [[1] * 4], version="2").error, Conflict)
    told = {one.revision: one for one in worker.core.drain_report().revisions}
    assert told[2].quarantined
    assert not told[1].quarantined


@played()
async def test_a_rollback_does_not_wait_for_a_load(worker: Worker):
    first, second, third = (worker.revision(number, linear(float(number))) for number in (1, 2, 3))
    other = worker.revision(1, linear(5.0), endpoint="f")
    hold = threading.Event()

    def slow(revision: Revision) -> ModelFiles:
        if revision.number == 3:
            hold.wait(60)
        return worker.open(revision)

    good = endpoint("scores", [first, second], [Arm(revision=2, share=10_000)])
    await worker.core.adopt(worker.state(good, endpoint("other", [other])), slow)
    loading = endpoint("other", [other, third], [Arm(revision=3, share=10_000)])
    deploying = asyncio.ensure_future(worker.core.adopt(worker.state(good, loading), slow))
    await asyncio.sleep(0.01)
    back = endpoint("scores", [first, second], [Arm(revision=1, share=10_000)])
    rolling = asyncio.ensure_future(worker.core.adopt(worker.state(back, loading), slow))
    while True:
        reply = worker.ask("scores", [[1] * 4])
        await worker.answered(reply)
        if reply.answers[0].revision == 1:
            break
        assert not deploying.done()
    hold.set()
    await asyncio.gather(deploying, rolling)
    reply = worker.ask("other", [[1] * 4])
    await worker.answered(reply)
    assert reply.answers[0].revision == 3


@played()
async def test_of_two_states_on_their_way_the_newer_wins_whichever_is_loaded_first(worker: Worker):
    first, second, third = (worker.revision(number, linear(float(number))) for number in (1, 2, 3))
    hold = threading.Event()

    def slow(revision: Revision) -> ModelFiles:
        if revision.number == 2:
            hold.wait(10)
        return worker.open(revision)

    await worker.core.adopt(worker.state(endpoint("scores", [first])), slow)
    older = asyncio.ensure_future(worker.core.adopt(worker.state(endpoint("scores", [first, second])), slow))
    await asyncio.sleep(0.01)
    await worker.core.adopt(worker.state(endpoint("scores", [first, third])), slow)
    hold.set()
    await older
    reply = worker.ask("scores", [[1] * 4])
    await worker.answered(reply)
    assert reply.answers[0].revision == 3
    assert isinstance(worker.ask("scores", [[1] * 4], version="2").error, NotFound)


@played()
async def test_who_asks_a_new_endpoint_waits_for_it_to_be_loaded(worker: Worker):
    adopting = asyncio.ensure_future(worker.serve(endpoint("scores", [worker.revision(1, linear())])))
    await asyncio.sleep(0)
    reply = worker.ask("scores", [[1] * 4])
    assert not reply.done
    await adopting
    await worker.answered(reply)
    assert reply.answers


@played_both_ways
async def test_a_revision_that_no_state_names_is_unloaded_after_its_last_request(worker: Worker):
    first, second = worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))
    await worker.serve(endpoint("scores", [first], latency_ms=60_000))
    pending = [worker.ask("scores", [[1] * 4] * 100) for _ in range(10)]
    await worker.serve(endpoint("scores", [second], latency_ms=60_000))
    await worker.answered(*pending)
    assert all(reply.answers[0].revision == 1 for reply in pending)
    await until(lambda: worker.engines[0].closed)
    told = {one.revision: one.requests for one in worker.core.drain_report().revisions}
    assert told == {1: 10, 2: 0}
    await until(lambda: {one.revision for one in worker.core.drain_report().revisions} == {2})


@played()
async def test_a_deleted_endpoint_is_gone_and_its_name_is_free(worker: Worker):
    await worker.serve(
        endpoint("scores", [worker.revision(1, linear())]), endpoint("rest", [worker.revision(1, linear(), endpoint="f")])
    )
    await worker.serve(endpoint("rest", [worker.revision(1, linear(), endpoint="f")]))
    assert isinstance(worker.ask("scores", [[1] * 4]).error, NotFound)
    reply = worker.ask("rest", [[1] * 4])
    await worker.answered(reply)
    assert reply.answers


@played()
async def test_options_hold_at_once(worker: Worker):
    one = worker.revision(1, linear())
    await worker.serve(endpoint("scores", [one]))
    await worker.serve(endpoint("scores", [one], nan="refuse", concurrency=1))
    refused = worker.ask("scores", [[float("nan")] * 4])
    beyond = worker.ask("scores", [[1] * 4])
    await worker.answered(refused)
    assert "NaN" in str(refused.error)
    assert isinstance(beyond.error, Unavailable)
    assert len(worker.engines) == 1


@played()
async def test_what_could_not_be_loaded_is_tried_again(worker: Worker):
    broken = worker.revision(1, linear())
    content = worker.contents.pop(broken.files[0].digest)
    assert list(await worker.serve(endpoint("scores", [broken]))) == [broken.id]
    worker.keep(content)
    for live in worker.core._adoption.lives.values():
        live.models[1].retry_at = 0.0
    worker.core._adoption.try_again(time.monotonic())
    await until(lambda: all(live.arms for live in worker.core._adoption.lives.values()))
    assert not worker.core.drain_report().problems
    reply = worker.ask("scores", [[1] * 4])
    await worker.answered(reply)
    assert reply.answers


@played()
async def test_where_nothing_can_answer_a_new_split_is_waited_for(worker: Worker):
    first, second = worker.revision(1, linear(2.0)), worker.revision(2, linear(3.0))
    await worker.serve(endpoint("scores", [first]))
    await worker.serve(endpoint("scores", [first]), broken=[first.id])
    assert isinstance(worker.ask("scores", [[1] * 4]).error, Unavailable)
    adopting = asyncio.ensure_future(worker.serve(endpoint("scores", [first, second]), broken=[first.id]))
    await asyncio.sleep(0)
    reply = worker.ask("scores", [[1] * 4])
    await adopting
    await worker.answered(reply)
    assert reply.answers[0].revision == 2
