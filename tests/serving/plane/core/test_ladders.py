"""A model that is overloaded answers by faster variants of itself, and by itself again when that has passed."""

import asyncio
import time
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from falaj.runtimes import loading
from falaj.runtimes.errors import EngineFailed
from falaj.runtimes.hosts import Host
from falaj.serving.plane.core import ladders
from falaj.serving.plane.core.models import Model
from falaj.serving.plane.core.reading import Room
from falaj.serving.states import File, Revision, Rung
from tests.serving.graphs import same, times
from tests.serving.plane.core.worker import PATIENCE, Timing, Watched, Worker, endpoint, played, until

SLOW = 0.004  # seconds that a row takes in a model that is slow


def tune(engine: Watched) -> Timing:
    return Timing(batch=1, one_row_s=SLOW if engine._fault is not None else 20e-6)


def with_ladder(worker: Worker, *rungs: tuple[str, bytes], host: str = "", own: bytes = b"") -> Revision:
    """A revision that gives back what it is given, slowly, and rungs that multiply."""
    made = []
    for name, content in rungs:
        worker.keep(content)
        file = File(name=f"ladder/{name}/m.onnx", size=len(content), digest=sha256(content).hexdigest())
        made.append(Rung(name=name, runtime="onnx", file=file.name, files=(file,), host=host, latency_ms=0.1))
    return replace(worker.revision(1, own or times(1.0)), ladder=tuple(made))


def slowly(worker: Worker, factor: float = 1.0) -> None:
    """The engine of the model that multiplies by this takes its time."""
    load, slow = worker._load, sha256(times(factor)).hexdigest()

    def pick(files, placement):
        engine = load(files, placement)
        if sha256(files.contents[files.main]).hexdigest() == slow:
            engine._fault = lambda arrays: time.sleep(SLOW * len(arrays[0]))
        return engine

    worker.core._fleet.reader.load = pick


def model_of(worker: Worker) -> Model:
    (live,) = worker.core._adoption.lives.values()
    return live.models[1]


async def overload(worker: Worker, until_true):
    """Sixty callers who ask again as soon as they are answered; what they were told, by variant."""
    token, replies, told = worker.token(), {}, {}
    end = time.monotonic() + PATIENCE
    while not until_true():
        assert time.monotonic() < end, "it did not come to that"
        for caller in range(60):
            reply = replies.get(caller)
            if reply is not None and not reply.done:
                continue
            if reply is not None and reply.answers:
                variant = reply.answers[0].variant
                told.setdefault(variant, []).append(reply.first.tolist())
            replies[caller] = worker.ask("scores", [[1.0] * 4], token=token)
        await asyncio.sleep(0.001)
    await worker.answered(*replies.values())
    return told


@played(tune=tune)
async def test_an_overloaded_model_falls_answers_rightly_and_returns_when_it_is_calm(worker: Worker):
    slowly(worker)
    await worker.serve(endpoint("scores", [with_ladder(worker, ("int8", times(2.0)))], latency_ms=100))
    model = model_of(worker)
    told = await overload(worker, lambda: model.at == 1 and model.rungs[1].tally.requests > 200)
    assert {variant: {tuple(map(tuple, rows)) for rows in answers} for variant, answers in told.items()} == {
        "original": {((1.0,) * 4,)},
        "int8": {((2.0,) * 4,)},
    }
    report = worker.core.drain_report()
    assert report.rungs == {model.revision.id: 1}
    original, int8 = report.revisions[0].rungs
    assert (original.name, int8.name, int8.falls) == ("original", "int8", 1)
    assert original.requests + int8.requests == report.revisions[0].requests
    assert report.revisions[0].errors == 0
    model.course = replace(model.course, calm_for=0.5)  # nobody has time for more
    await until(lambda: model.at == 0)
    reply = worker.ask("scores", [[1.0] * 4])
    await worker.answered(reply)
    assert (reply.answers[0].variant, reply.answers[0].revision) == ("original", 1)
    assert worker.core.drain_report().revisions[0].rungs[1].falls == 0


@played(tune=tune)
async def test_what_a_rung_fails_at_the_model_itself_answers_and_the_rung_is_left(worker: Worker):
    slowly(worker)
    await worker.serve(endpoint("scores", [with_ladder(worker, ("int8", times(2.0)))]))
    model = model_of(worker)
    model.stand_on(1)

    def fail(arrays):
        raise EngineFailed("no kernel for this")

    worker.engines[-1]._fault = fail
    replies = [worker.ask("scores", [[float(number)] * 4]) for number in range(20)]
    await worker.answered(*replies)
    assert [reply.answers[0].variant for reply in replies] == ["original"] * 20
    assert all(np.array_equal(reply.first, [[number] * 4]) for number, reply in enumerate(replies))
    await until(lambda: model.at == 0)
    ladders.look(model, time.monotonic())
    assert ladders._below(model) is None  # for a while
    told = worker.core.drain_report().revisions[0]
    assert (told.requests, told.errors, told.quarantined, told.problem, told.aside) == (20, 0, False, "", 0)


@played(tune=tune)
async def test_a_rung_that_cannot_be_loaded_or_has_other_tensors_is_passed_over_with_a_remark(worker: Worker):
    slowly(worker)
    revision = with_ladder(worker, ("broken", b"not a model"), ("other", same(1)), ("int8", times(2.0)))
    problems = await worker.serve(endpoint("scores", [revision]))
    assert problems == {}
    model = model_of(worker)
    broken, other, int8 = model.rungs[1:]
    assert broken.batches is None
    assert "could not be loaded" in broken.remark
    assert "other tensors" in other.remark
    assert ladders._below(model) == 3
    assert not int8.remark
    told = worker.core.drain_report().revisions[0].rungs
    assert [one.name for one in told if one.remark] == ["broken", "other"]
    assert len([engine for engine in worker.engines if engine.closed]) == 1


@played(tune=tune)
async def test_a_form_made_for_processors_that_multiply_eight_bits_is_not_used_on_another(worker: Worker):
    """Neither behind its original nor by itself."""
    needs = {"needs": "int8-multiply"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loading, "this_host", lambda: Host(cpu="Old One", instruction_sets=(), cores=2, memory_mib=4096))
        behind = with_ladder(worker, ("int8", times(2.0)))
        behind = replace(behind, ladder=tuple(replace(rung, settings=needs) for rung in behind.ladder))
        alone = replace(worker.revision(1, times(3.0), endpoint="f"), variant="int8", settings=needs)
        problems = await worker.serve(endpoint("scores", [behind]), endpoint("alone", [alone]))
    assert "would answer otherwise on this one (Old One)" in problems[alone.id]
    (rung,) = next(live for live in worker.core._adoption.lives.values() if live.endpoint.name == "scores").models[1].rungs[1:]
    assert rung.batches is None
    assert rung.is_unfit
    assert "It could not be loaded, and is not used: it was made for processors that multiply in eight bits" in rung.remark
    reply = worker.ask("scores", [[1.0] * 4])
    await worker.answered(reply)
    assert reply.first.tolist() == [[1.0] * 4]


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_on_another_kind_of_host_a_rung_is_measured_again_and_used_only_where_it_is_faster(factor):
    """The slow one is the revision itself, or the rung."""

    @played(tune=tune)
    async def story(worker: Worker):
        slowly(worker, factor)
        worker.core._fleet.reader.room = Room(host="here")
        await worker.serve(endpoint("scores", [with_ladder(worker, ("int8", times(2.0)), host="there")]))
        rung = model_of(worker).rungs[1]
        assert rung.latency is not None
        assert 0 < rung.latency.p50_low <= rung.latency.p50_ms <= rung.latency.p99_ms <= rung.latency.p99_high
        assert (rung.latency.p50_ms >= SLOW * 1000) == (factor == 2.0)
        assert (rung.batches is not None) == (factor == 1.0)
        assert ("no faster than original" in rung.remark) == (factor == 2.0)
        assert worker.core.drain_report().revisions[0].rungs[1].latency == rung.latency

    story()


@played(tune=tune)
async def test_on_the_same_kind_of_host_the_certificate_is_believed(worker: Worker):
    slowly(worker, 2.0)
    worker.core._fleet.reader.room = Room(host="here")
    await worker.serve(endpoint("scores", [with_ladder(worker, ("int8", times(2.0)), host="here")]))
    rung = model_of(worker).rungs[1]
    assert rung.batches is not None
    assert (rung.latency, rung.remark) == (None, "")


@played(tune=tune)
async def test_a_variant_by_itself_is_measured_again_on_another_kind_of_host(worker: Worker):
    worker.core._fleet.reader.room = Room(host="here")
    alone = replace(worker.revision(1, times(3.0)), variant="int8", host="there", latency_ms=0.1)
    await worker.serve(endpoint("scores", [alone]))
    (told,) = worker.core.drain_report().revisions[0].rungs
    assert told.name == "int8"
    assert told.latency is not None
    assert 0 < told.latency.p50_ms <= told.latency.p99_high


@played(tune=tune)
async def test_rungs_take_only_memory_that_is_free_and_give_it_up_for_other_models(worker: Worker):
    content = times(1.0) + b""
    size = len(content)
    fleet = worker.core._fleet
    fleet.reader.room = Room(memory_bytes=int(2 * 2.5 * size))  # each takes twice its files: two models, and a bit
    await worker.serve(endpoint("scores", [with_ladder(worker, ("int8", times(2.0)), ("int4", times(3.0)))]))
    model = model_of(worker)
    assert [rung.batches is not None for rung in model.rungs] == [True, True, False]
    assert "memory" in model.rungs[2].remark
    reply = worker.ask("scores", [[1.0] * 4])  # it is in use, and stays
    await worker.answered(reply)
    both = endpoint("scores", [model.revision]), endpoint("more", [worker.revision(1, times(4.0), endpoint="f")])
    assert await worker.serve(*both) == {}
    await until(lambda: model.rungs[1].batches is None)
    assert model.own is not None
    assert "Other models needed its memory" in model.rungs[1].remark


@played(tune=tune)
async def test_a_model_leaves_memory_with_its_rungs_and_comes_back_with_them(worker: Worker):
    await worker.serve(endpoint("scores", [with_ladder(worker, ("int8", times(2.0)))]))
    model, token = model_of(worker), worker.token(manage=True)
    model.stand_on(1)
    waiting = worker.ask("scores", [[1.0] * 4])
    await worker.core.unload(token, "scores")
    assert waiting.first.tolist() == [[2.0] * 4]
    assert all(engine.closed for engine in worker.engines)
    await worker.core.load(token, "scores")
    assert model.at == 0
    assert all(rung.batches is not None for rung in model.rungs)


@played(tune=tune)
async def test_a_revision_without_variant_and_ladder_says_nothing_of_them(worker: Worker):
    await worker.serve(endpoint("scores", [worker.revision(1, times(1.0))]))
    reply = worker.ask("scores", [[1.0] * 4])
    await worker.answered(reply)
    told = worker.core.drain_report()
    assert (reply.answers[0].variant, told.revisions[0].rungs, told.rungs) == ("", (), {})
