"""A small core that computes with numpy, and a server around it in a thread of its own."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import uvloop

from falaj.base.clock import SystemClock
from falaj.base.errors import Forbidden, Invalid, NotFound, TooMany, Unauthenticated, Unavailable
from falaj.runtimes.engine import Array, TensorSpec
from falaj.serving.plane.asking import Answer, Ask, Core, DeadlinePassed, Described, Given, Indexed
from falaj.serving.plane.rest.apart import Apart
from falaj.serving.plane.rest.deferring import Callbacks, Deferrals, Patience
from falaj.serving.plane.rest.edge import Edge
from falaj.serving.plane.rest.limits import Limits
from falaj.serving.plane.rest.routes import Routes
from falaj.serving.plane.rest.stores import Store
from tests.serving.plane.rest.memory import MemoryStore

TOKEN = "good"
PROJECTS = {"beta": "beta"}  # of tokens; others are alpha's
NUMPY = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}


def to_array(given: Given) -> Array:
    """What the real core does with an input, in short. BF16 stays as its bits."""
    if given.datatype == "BYTES":
        made = np.empty(len(given.data), dtype=np.object_)
        made[:] = given.data
        return made.reshape(given.shape)
    dtype = np.uint16 if given.datatype == "BF16" else NUMPY[given.datatype]
    if isinstance(given.data, list):
        return np.array(given.data, dtype=dtype).reshape(given.shape)
    return np.frombuffer(given.data, dtype=dtype).reshape(given.shape)


def _spec(name: str, datatype: str, *shape: int) -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, shape=shape)


COLUMNS = ("age", "height", "weight")
MODELS = {
    # Gives back whatever it got, under the names it got, with "_out" after them.
    "echo": Described(name="echo", versions=("1", "2"), platform="numpy", inputs=(), outputs=(), columns=()),
    "sum": Described(
        name="sum",
        versions=("1",),
        platform="numpy",
        inputs=(_spec("x", "FP32", -1, 3),),
        outputs=(_spec("sum", "FP32", -1, 1),),
        columns=COLUMNS,
    ),
    "columns": Described(
        name="columns",
        versions=("1",),
        platform="numpy",
        inputs=(_spec("age", "INT64", -1, 1), _spec("city", "BYTES", -1, 1), _spec("size", "FP64", -1, 1)),
        outputs=(_spec("label", "BYTES", -1), _spec("scores", "FP64", -1, 2)),
        columns=("age", "city", "size"),
    ),
}


class Arithmetic:
    """`busy` refuses so many asks before it answers; `held` keeps asks until `release` is called."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self.held: list[Ask] = []
        self.hold = False
        self.busy = 0
        self.ready = True
        self.loaded: list[str] = []
        self.sources: set[str] = set()  # that tokens came from

    def _check(self, token: str, endpoint: str) -> Described:
        if not token or token == "bad":
            raise Unauthenticated("no token, or one that does not hold")
        if token == "elsewhere":
            raise Forbidden("the token is not for this endpoint")
        if endpoint not in MODELS:
            raise NotFound(f"there is no endpoint {endpoint!r}")
        return MODELS[endpoint]

    def submit(self, ask: Ask) -> None:
        self.asks.append(ask)
        if self.hold:
            self.held.append(ask)
            return
        self.answer(ask)

    def release(self) -> None:
        held, self.held, self.hold = self.held, [], False
        for ask in held:
            self.answer(ask)

    def answer(self, ask: Ask) -> None:
        try:
            self._check(ask.token, ask.endpoint)
            if self.busy:
                self.busy -= 1
                raise Unavailable("busy", delay=0.05)
            if ask.key == "often":
                raise TooMany("too often", delay=3)
            if ask.key == "broken":
                raise RuntimeError("a secret of the inside")
            if ask.deadline is not None and ask.deadline <= ask.arrived:
                raise DeadlinePassed("too late")
            names, datatypes, arrays = self._compute(ask)
        except Exception as error:  # noqa: BLE001 - as the real one: whatever is wrong goes to the reply
            ask.reply.refuse(error)
            return
        wanted = [at for at, name in enumerate(names) if not ask.wanted or name in ask.wanted]
        ask.reply.answer(
            Answer(
                ask.endpoint,
                int(ask.override or ask.version or 3),
                7,
                ask.id,
                tuple(names[at] for at in wanted),
                tuple(datatypes[at] for at in wanted),
                [arrays[at] for at in wanted],
                "adder",
            )
        )

    def _compute(self, ask: Ask) -> tuple[Sequence[str], Sequence[str], Sequence[Array]]:
        arrays = {given.name: to_array(given) for given in ask.given}
        if ask.endpoint == "echo":
            named = [f"{given.name}_out" for given in ask.given]
            return named, [given.datatype for given in ask.given], list(arrays.values())
        if ask.endpoint == "sum":
            if "x" not in arrays:
                raise Invalid(f"the model's input is 'x', not {sorted(arrays)}")
            return ("sum",), ("FP32",), [arrays["x"].sum(axis=1, keepdims=True, dtype=np.float32)]
        labels = np.array([city + b"!" for city in arrays["city"].reshape(-1).tolist()], dtype=np.object_)
        scores = np.stack([arrays["age"].reshape(-1).astype(np.float64), arrays["size"].reshape(-1)], axis=1)
        return ("label", "scores"), ("BYTES", "FP64"), [labels, scores]

    def is_ready(self) -> bool:
        return self.ready

    def admit(self, token: str, source: str = "") -> str:
        self.sources.add(source)
        if not token or token == "bad":
            raise Unauthenticated("no token, or one that does not hold")
        return PROJECTS.get(token, "alpha")

    def describe(self, token: str, endpoint: str, version: str = "") -> Described:
        return self._check(token, endpoint)

    def is_model_ready(self, token: str, endpoint: str, version: str = "") -> bool:
        self._check(token, endpoint)
        return self.ready

    def index(self, token: str) -> tuple[Indexed, ...]:
        self._check(token, "echo")
        return (
            Indexed(name="echo", version="1", state="READY"),
            Indexed(name="sum", version="1", state="UNAVAILABLE", reason="unloaded"),
        )

    async def load(self, token: str, endpoint: str) -> None:
        self._check(token, endpoint)
        await asyncio.sleep(0)
        self.loaded.append(endpoint)

    async def unload(self, token: str, endpoint: str) -> None:
        self._check(token, endpoint)
        await asyncio.sleep(0)
        self.loaded.remove(endpoint)


async def _metrics(_token: str) -> bytes:
    return b"requests_total 1\n"


def caller_of(token: str, source: str = "") -> str:
    """Tokens "good" and "good2" are of one caller."""
    if not token or token == "bad":
        raise Unauthenticated("no token, or one that does not hold")
    return token.rstrip("0123456789")


class Server:
    """The edge on a free port of this machine, on a uvloop of its own thread."""

    def __init__(
        self,
        core: Core,
        *,
        limits: Limits | None = None,
        h2: Callable[[], asyncio.Protocol] | None = None,
        tls: ssl.SSLContext | None = None,
        store: Store | None = None,
        callbacks: Callbacks | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.core = core
        self.errors: list[Exception] = []
        self.port = 0
        self._options = (limits, h2, tls, store, callbacks, patience)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Server":
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def call(self, work: Callable[[], Any]) -> Any:
        """Runs something on the loop's thread and gives what it gave."""

        async def there() -> Any:
            made = work()
            return await made if asyncio.iscoroutine(made) else made

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result(10)

    def _run(self) -> None:
        uvloop.run(self._serve())

    async def _serve(self) -> None:
        limits, h2, tls, store, callbacks, patience = self._options
        self.loop, self._stop, clock = asyncio.get_running_loop(), asyncio.Event(), SystemClock()
        self.deferrals = Deferrals(store or MemoryStore(clock), caller_of, clock, callbacks=callbacks, patience=patience)
        self.apart = Apart()
        routes = Routes(self.core, version="1.0", limits=limits, metrics=_metrics, deferrals=self.deferrals, apart=self.apart)
        self.edge = Edge(routes, limits=limits, h2=h2, report=self.errors.append)
        server = await self.loop.create_server(self.edge, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        await self.edge.drain(0.2)
        self.apart.close()
