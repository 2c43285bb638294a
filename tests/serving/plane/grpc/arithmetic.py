"""A small core that computes with numpy, in batches of one turn of the loop, as the real one does."""

import asyncio

import numpy as np

from falaj.base.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    OutOfSpace,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from falaj.runtimes.engine import TensorSpec
from falaj.serving.plane.asking import Answer, Ask, DeadlinePassed, Described, Given, Indexed

DTYPES = {
    "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
    "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip
ERRORS = {
    "invalid": Invalid("the request is wrong"),
    "unauthenticated": Unauthenticated("nobody"),
    "forbidden": Forbidden("not for you"),
    "missing": NotFound("no such endpoint"),
    "conflict": Conflict("not now"),
    "large": TooLarge("too much"),
    "often": TooMany("too often", delay=2.5),
    "away": Unavailable("away", delay=3.0),
    "full": OutOfSpace("full"),
    "late": DeadlinePassed("too late"),
    "odd": Invalid("100 % größer\nals erlaubt"),
    "broken": ValueError("a secret of the inside"),
}


def array_of(given: Given) -> np.ndarray:
    if given.datatype == "BYTES":
        texts = given.data if isinstance(given.data, list) else _texts(bytes(given.data))
        return np.array(texts, dtype=object).reshape(given.shape)
    dtype = DTYPES[given.datatype]
    if isinstance(given.data, list):
        return np.array(given.data, dtype).reshape(given.shape)
    return np.frombuffer(given.data, dtype).reshape(given.shape)


def _texts(raw: bytes) -> list[bytes]:
    texts, position = [], 0
    while position < len(raw):
        size = int.from_bytes(raw[position : position + 4], "little")
        texts.append(raw[position + 4 : position + 4 + size])
        position += 4 + size
    return texts


class ArithmeticCore:
    """Endpoints: `double` gives every input twice itself; `echo` as it is; `slow` after a while; `grow` makes zeros of as many
    bytes as asked; `never` waits for a test; the names of `ERRORS` fail. The token `good` may do everything."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.asks: list[Ask] = []
        self.waiting: list[Ask] = []
        self.seen: Ask | None = None
        self.ready = True
        self.loaded: list[str] = []
        self.computed = 0
        self.needs_token = False
        self.sources: set[str] = set()  # that tokens came from
        self.held: list[Ask] = []  # asks of `never`, which are answered when a test says so

    def submit(self, ask: Ask) -> None:
        if ask.endpoint == "raises":
            raise ValueError("a core that breaks its promise")
        if not self.waiting:
            self.loop.call_soon(self._run)
        self.waiting.append(ask)

    def _run(self) -> None:
        asks, self.waiting = self.waiting, []
        for ask in asks:
            self.seen = ask
            if ask.endpoint == "never":
                self.held.append(ask)
            elif ask.endpoint == "slow":
                self.loop.call_later(0.2, self._answer, ask)
            else:
                self._answer(ask)

    def _answer(self, ask: Ask) -> None:
        if ask.reply.gone:
            ask.reply.refuse(DeadlinePassed("nobody waits"))
            return
        if self.needs_token and ask.token != "good":
            ask.reply.refuse(Unauthenticated("a token is needed"))
            return
        error = ERRORS.get(ask.endpoint)
        if error is not None:
            ask.reply.refuse(error)
            return
        if ask.deadline is not None and ask.deadline < self.loop.time():
            ask.reply.refuse(DeadlinePassed("too late"))
            return
        self.computed += 1
        try:
            arrays = [array_of(given) for given in ask.given]
        except ValueError as wrong:
            ask.reply.refuse(Invalid(str(wrong)))
            return
        datatypes = [given.datatype for given in ask.given]
        names = [f"{given.name}_out" for given in ask.given]
        if ask.endpoint == "double":
            arrays = [array * 2 if array.dtype != object else array + array for array in arrays]
        elif ask.endpoint == "unwritable":
            names = names * 2
        elif ask.endpoint == "grow":
            arrays, datatypes, names = [np.zeros(int(arrays[0].ravel()[0]), np.uint8)], ["UINT8"], ["zeros"]
        ask.reply.answer(Answer(ask.endpoint, 3, 7, ask.id, names, datatypes, arrays, model="arithmetic"))

    def is_ready(self) -> bool:
        return self.ready

    def admit(self, token: str, source: str = "") -> str:
        self.sources.add(source)
        if self.needs_token and token != "good":
            raise Unauthenticated("a token is needed")
        return token or "anybody's"

    def describe(self, token: str, endpoint: str, version: str = "") -> Described:
        if endpoint in ERRORS:
            raise ERRORS[endpoint]
        return Described(
            name=endpoint,
            versions=("3",),
            platform="numpy",
            inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 32)),),
            outputs=(TensorSpec(name="x_out", datatype="FP32", shape=(-1, 32)),),
            columns=(),
        )

    def is_model_ready(self, token: str, endpoint: str, version: str = "") -> bool:
        if endpoint in ERRORS:
            raise ERRORS[endpoint]
        return self.ready and version in ("", "3")

    def index(self, token: str) -> tuple[Indexed, ...]:
        if token != "good":
            raise Unauthenticated("a token is needed")
        return (
            Indexed(name="double", version="3", state="READY"),
            Indexed(name="echo", version="1", state="UNAVAILABLE", reason="unloaded"),
        )

    async def load(self, token: str, endpoint: str) -> None:
        await asyncio.sleep(0)
        if token != "good":
            raise Forbidden("loading needs a token that may manage")
        self.loaded.append(endpoint)

    async def unload(self, token: str, endpoint: str) -> None:
        await asyncio.sleep(0)
        if endpoint not in self.loaded:
            raise NotFound(f"{endpoint} is not loaded")
        self.loaded.remove(endpoint)
