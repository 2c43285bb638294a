"""Everything at once, at random: splits, quarantines, unloads, bad requests. No wrong answer, nothing lost or left over."""

import asyncio
import random
import time
from functools import partial

import pytest

from falaj.base.errors import Conflict, FalajError, Invalid, NotFound, Unavailable
from falaj.runtimes.tuning import tune
from falaj.serving.operations.words import WHOLE
from falaj.serving.plane.asking import DeadlinePassed, Given
from falaj.serving.states import Arm, Endpoint, Revision
from tests.serving.plane.core.worker import Saved, Worker, endpoint, linear

SECONDS = 3.0
REVISIONS = 5


def any_split(draw: random.Random, name: str, revisions: list[Revision]) -> Endpoint:
    listed = sorted(draw.sample(revisions, draw.randint(2, len(revisions))), key=lambda one: one.number)
    live = draw.sample(listed, draw.randint(1, min(3, len(listed))))
    cuts = sorted(draw.sample(range(1, WHOLE), len(live) - 1))
    shares = [end - start for start, end in zip([0, *cuts], [*cuts, WHOLE], strict=True)]
    arms = [Arm(revision=one.number, share=share) for one, share in zip(live, shares, strict=True)]
    arms += [Arm(revision=one.number, share=3000, role="shadow") for one in listed if one not in live][:1]
    return endpoint(
        name,
        listed,
        arms,
        fallback=draw.choice([0, listed[0].number]),
        latency_ms=draw.choice([1000, 60_000]),
        log_share=draw.choice([0, 5000]),
        idle_seconds=draw.choice([0, 1]),
    )


def ask(worker: Worker, draw: random.Random, tokens: list[str], name: str) -> tuple[float, int, Saved]:
    number, rows, kind = draw.randint(1, 1000), draw.choice([1, 1, 1, 2, 5, 200]), draw.random()
    deadline = time.monotonic() + draw.choice([0.0, 0.05, 10.0]) if kind < 0.1 else None
    data = [float(number)] * (4 * rows)
    if 0.1 < kind < 0.15:
        data[draw.randrange(len(data))] = draw.choice(["x", None, 1e300])  # type: ignore[call-overload]
    reply = Saved(gone=0.15 < kind < 0.17)
    version = str(draw.randint(1, REVISIONS)) if 0.2 < kind < 0.3 else ""
    given = [Given("x", "FP32", [rows, 4], data)]
    worker.ask_given(name, given, token=draw.choice(tokens), deadline=deadline, version=version, reply=reply, key=str(number))
    return float(number), rows, reply


async def soak(slow: bool, seed: int) -> None:
    draw = random.Random(seed)
    fault = (lambda arrays: time.sleep(0.002)) if slow else None
    worker = Worker(tune=partial(tune, objective_s=0.05), fault=fault)
    names = ["one", "two"]
    revisions = {
        name: [worker.revision(number, linear(float(number + 1)), endpoint=name) for number in range(1, REVISIONS + 1)]
        for name in names
    }
    tokens = [worker.token(principal=f"{number:032x}") for number in range(8)]
    manager = worker.token(manage=True)
    asked: list[tuple[float, int, Saved]] = []
    await worker.serve(*(any_split(draw, name, revisions[name]) for name in names))
    adoptions: list[asyncio.Task[dict[str, str]]] = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if draw.random() < 0.05:
            broken = [one.id for name in names for one in revisions[name] if draw.random() < 0.1]
            split = [any_split(draw, name, revisions[name]) for name in names]
            adoptions.append(asyncio.ensure_future(worker.serve(*split, broken=broken)))
        if draw.random() < 0.02:
            await worker.core.unload(manager, draw.choice(names))
        asked += [ask(worker, draw, tokens, draw.choice(names)) for _ in range(draw.randint(0, 12))]
        await asyncio.sleep(draw.choice([0, 0, 0.001, 0.01]))
    await asyncio.gather(*adoptions)
    await worker.answered(*(reply for _, _, reply in asked))
    check(asked)
    assert await worker.core.drain(5.0)
    assert worker.core._waiting.taken == 0
    assert all(live.gate.open == 0 for live in worker.core._adoption.lives.values())
    await worker.core.close()
    assert all(engine.closed for engine in worker.engines)


def check(asked: list[tuple[float, int, Saved]]) -> None:
    answered = 0
    for number, rows, reply in asked:
        assert len(reply.answers) + len(reply.errors) == 1
        if reply.answers:
            answered += 1
            assert reply.first.shape == (rows, 4)
            assert (reply.first == number * (reply.answers[0].revision + 1)).all()
        else:
            # Bad elements, versions that are not listed or in quarantine, overload and deadlines: nothing else may go wrong.
            assert isinstance(reply.error, (Invalid, NotFound, Conflict, Unavailable, DeadlinePassed)), reply.error
            assert isinstance(reply.error, FalajError)
    assert answered > len(asked) / 2


@pytest.mark.parametrize("slow", [False, True], ids=["fast model", "slow model"])
def test_whatever_happens_every_answer_is_right_and_nothing_is_left_over(slow: bool):
    asyncio.run(soak(slow, seed=11))
