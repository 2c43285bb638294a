"""A core as a worker has it: small real ONNX models, real tokens, and replies that remember."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from onnx import TensorProto, helper, numpy_helper

from falaj.base.clock import HOUR, Clock, Moment, SystemClock
from falaj.runtimes.engine import Array, Engine, ModelFiles, Placement
from falaj.runtimes.loading import load
from falaj.serving.plane.asking import Answer, Ask, Given
from falaj.serving.plane.core.core import ServingCore
from falaj.serving.plane.core.reading import Room
from falaj.serving.states import Arm, Column, Endpoint, File, Revision, State
from falaj.serving.tokens import Claims, issue

PROJECT, OTHER_PROJECT = "a" * 32, "b" * 32
ISSUER = "https://falaj.test"
FEATURES = 4
PATIENCE = 60.0  # seconds, for what is over in a moment unless the machine has other work


def linear(factor: float = 2.0, features: int = FEATURES) -> bytes:
    """y = factor * x, row by row: one input x [-1, features], one output y."""
    weights = numpy_helper.from_array(np.float32(factor), "factor")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", features])],
        [weights],
    )
    return _serialized(graph)


def sums() -> bytes:
    """Two inputs of any width, two outputs: total = a + b, and same = a."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["total"]), helper.make_node("Identity", ["a"], ["same"])],
        "sums",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "W"]) for name in ("a", "b")],
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "W"]) for name in ("total", "same")],
    )
    return _serialized(graph)


def _serialized(graph: Any) -> bytes:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()  # type: ignore[no-any-return]


@dataclass
class Timing:
    batch: int = 32
    one_row_s: float = 20e-6
    row_s_at_batch: float = 0.0


def tune(engine: Engine) -> Timing:
    return Timing()


def tune_as_slow(engine: Engine) -> Timing:
    """So that the model gets a thread."""
    return Timing(one_row_s=0.01)


class Watched:
    """An engine that remembers what it ran, and fails or waits as it is told."""

    def __init__(self, engine: Engine, fault: Callable[[Sequence[Array]], None] | None = None) -> None:
        self._engine, self._fault = engine, fault
        self.inputs, self.outputs, self.batches, self.device = engine.inputs, engine.outputs, engine.batches, engine.device
        self.runs: list[int] = []
        self.closed = False

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self.runs.append(len(arrays[0]))
        if self._fault is not None:
            self._fault(arrays)
        return self._engine.run(arrays)

    def close(self) -> None:
        self.closed = True
        self._engine.close()


@dataclass
class Saved:
    """A reply that remembers."""

    gone: bool = False
    answers: list[Answer] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def answer(self, answer: Answer) -> None:
        self.answers.append(answer)

    def refuse(self, error: Exception) -> None:
        self.errors.append(error)

    @property
    def done(self) -> bool:
        return bool(self.answers or self.errors)

    @property
    def first(self) -> Array:
        assert not self.errors, self.errors
        return self.answers[0].arrays[0]

    @property
    def error(self) -> Exception:
        assert len(self.errors) == 1
        assert not self.answers
        return self.errors[0]


class Signer:
    key_id = "k1"

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def revision(
    number: int, content: bytes, *, columns: Sequence[str] = (), endpoint: str = "e", quarantined: bool = False
) -> Revision:
    digest = sha256(content).hexdigest()
    return Revision(
        id=sha256(f"{endpoint} {number}".encode()).hexdigest()[:32],
        number=number,
        model="fraud",
        version=number + 10,
        runtime="onnx",
        file="model.onnx",
        files=(File(name="model.onnx", size=len(content), digest=digest),),
        columns=tuple(Column(name=name) for name in columns),
        quarantined=quarantined,
    )


def endpoint(
    name: str, revisions: Sequence[Revision], arms: Sequence[Arm] = (), *, project: str = PROJECT, **options: Any
) -> Endpoint:
    return Endpoint(
        id=sha256(f"{project} {name}".encode()).hexdigest()[:32],
        project=project,
        project_name="demo",
        name=name,
        arms=tuple(arms) or (Arm(revision=revisions[-1].number, share=10_000),),
        revisions=tuple(revisions),
        **options,
    )


class Worker:
    """A core, the models on its disk by digest, and who signs for it."""

    def __init__(
        self, *, clock: Clock | None = None, tune: Any = tune, fault: Any = None, memory_bytes: int = 0, **more: Any
    ) -> None:
        self.clock = clock or SystemClock()
        self.signer = Signer()
        self.contents: dict[str, bytes] = {}
        self.engines: list[Watched] = []
        self.opened = 0
        self.serial = 0
        self._fault = fault
        self.core = ServingCore(
            clock=self.clock, load=self._load, tune=tune, room=Room(memory_bytes=memory_bytes), random=Random(7), **more
        )

    def keep(self, content: bytes) -> bytes:
        self.contents[sha256(content).hexdigest()] = content
        return content

    def revision(self, number: int, content: bytes, **more: Any) -> Revision:
        return revision(number, self.keep(content), **more)

    def open(self, revision: Revision) -> ModelFiles:
        self.opened += 1
        contents = {file.name: self.contents[file.digest] for file in revision.files}
        return ModelFiles(runtime=revision.runtime, main=revision.file, contents=contents, settings=revision.settings)

    def _load(self, files: ModelFiles, placement: Placement) -> Engine:
        engine = Watched(load(files, placement), self._fault)
        self.engines.append(engine)
        return engine

    def state(self, *endpoints: Endpoint, revoked: Sequence[str] = ()) -> State:
        self.serial += 1
        return State(
            format=1,
            serial=self.serial,
            issued=0,
            issuer=ISSUER,
            zone="main",
            endpoints=endpoints,
            token_keys={self.signer.key_id: self.signer.public},
            revoked=tuple(revoked),
        )

    async def serve(self, *endpoints: Endpoint, revoked: Sequence[str] = (), broken: Sequence[str] = ()) -> dict[str, str]:
        return await self.core.adopt(self.state(*endpoints, revoked=revoked), self.open, broken)

    def token(
        self, *endpoints: str, project: str = PROJECT, principal: str = "1" * 32, id: str = "2" * 32, manage: bool = False
    ) -> str:
        now = self.clock.now()
        claims = Claims(
            principal=principal,
            id=id,
            project=project,
            endpoints=frozenset(endpoints),
            manage=manage,
            not_before=now,
            expires=Moment(now + HOUR),
        )
        return issue(self.signer, claims, issuer=ISSUER, now=now)

    def ask(self, name: str, rows: Any, *, token: str | None = None, **more: Any) -> Saved:
        """With rows of numbers for the input x, as JSON has them."""
        shape = [len(rows), len(rows[0])]
        return self.ask_given(
            name, [Given("x", "FP32", shape, [float(one) for row in rows for one in row])], token=token, **more
        )

    def ask_given(self, name: str, given: Sequence[Given], *, token: str | None = None, **more: Any) -> Saved:
        reply = more.pop("reply", None) or Saved()
        token = self.token() if token is None else token
        self.core.submit(Ask(token=token, endpoint=name, given=given, reply=reply, arrived=time.monotonic(), **more))
        return reply  # type: ignore[no-any-return]

    async def answered(self, *replies: Saved) -> None:
        await until(lambda: all(reply.done for reply in replies))


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.001)


def played(**options: Any) -> Callable[[Callable[[Worker], Any]], Callable[[], None]]:
    """A story about a worker, as a test: on a loop of its own, with everything closed at its end."""

    def decorate(story: Callable[[Worker], Any]) -> Callable[[], None]:
        def test() -> None:
            asyncio.run(_play(story, options))

        test.__name__, test.__doc__ = story.__name__, story.__doc__
        return test

    return decorate


def played_both_ways(story: Callable[[Worker], Any]) -> Callable[[str], None]:
    """On the loop, and in a thread."""

    @pytest.mark.parametrize("way", ["on the loop", "in a thread"])
    def test(way: str) -> None:
        asyncio.run(_play(story, {"tune": tune if way == "on the loop" else tune_as_slow}))

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


async def _play(story: Callable[[Worker], Any], options: dict[str, Any]) -> None:
    worker = Worker(**options)
    try:
        await story(worker)
    finally:
        await worker.core.close()
