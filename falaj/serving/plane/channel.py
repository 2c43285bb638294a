"""What the supervisor and a worker say to each other, over a pair of sockets that both are born with."""

import asyncio
import socket
from typing import Final, TypeAlias

import msgspec

from falaj.base.clock import Moment
from falaj.serving.operations.planes import CallReport, RevisionReport, WatchReport

_LENGTH: Final = 4
_LONGEST: Final = 256 * 1024 * 1024


class Setup(msgspec.Struct, tag=True, frozen=True):
    """What a worker must know first. `key` opens models and answers; certificate and private key are PEM files, or empty;
    `python` is the interpreter that may run models by their own code, or empty. `taps` are who watches, as `module:maker`, and
    `watched` is the folder that they are made with. `threads` are those of one model; 0 has them measured, up to `cores`.
    Features are looked up in `features_folder` or at `features_redis`; neither: this host has no way to them."""

    key: bytes
    models: str
    answers: str
    certificate: str
    private_key: str
    body_bytes: int
    memory_bytes: int
    threads: int
    cores: int = 1
    python: str = ""
    taps: tuple[str, ...] = ()
    watched: str = ""
    features_folder: str = ""
    features_redis: str = ""


class Adopt(msgspec.Struct, tag=True, frozen=True):
    """Serve by this state (verified already). `broken` are the revisions that this host must not run, `unloaded` the endpoints
    that somebody unloaded here."""

    body: bytes
    broken: tuple[str, ...] = ()
    unloaded: tuple[str, ...] = ()


class Drain(msgspec.Struct, tag=True, frozen=True):
    """Take nothing new, finish what is under way, end. With `leaving` the whole host does."""

    leaving: bool


class Ease(msgspec.Struct, tag=True, frozen=True):
    """Another worker takes calls now: let this share of the clients connect anew."""

    share: float


class Figures(msgspec.Struct, tag=True, frozen=True):
    """What all workers together did, as Prometheus wants it; answers are in the order they were asked for."""

    text: str


class SetLoaded(msgspec.Struct, tag=True, frozen=True):
    """Have the models of an endpoint in memory, or refuse it until somebody loads it; then say `WasSet` by the same number."""

    number: int
    endpoint: str
    loaded: bool


class AllSet(msgspec.Struct, tag=True, frozen=True):
    """What this worker wanted, by its own number, was done by all; or why not."""

    number: int
    problem: str = ""


class Adopted(msgspec.Struct, tag=True, frozen=True):
    """Everything that can be served by that state is; `problems` says what cannot, by revision."""

    serial: int
    problems: dict[str, str] = {}


class Did(msgspec.Struct, tag=True, frozen=True):
    """What the worker did since it last said so; `under_way` counts the calls that it has in hand now, `waiting` the rows that
    wait or are at work, by revision. `taps` are by name: batches seen and missed, and failures. `rungs` are the places on their
    ladders at which revisions answer, by their id. `watched` is what taps have to say."""

    revisions: tuple[RevisionReport, ...]
    calls: tuple[CallReport, ...]
    problems: dict[str, str]
    connections: int
    under_way: int = 0
    taps: dict[str, tuple[int, int, int]] = {}
    rungs: dict[str, int] = {}
    watched: tuple[WatchReport, ...] = ()
    waiting: dict[str, int] = {}


class WantsFigures(msgspec.Struct, tag=True, frozen=True):
    """Somebody asked this worker for metrics: of this project, or of the host alone. Who has a token for some endpoints sees
    `only` those."""

    project: str
    only: frozenset[str] = frozenset()


class WantsSet(msgspec.Struct, tag=True, frozen=True):
    """Somebody who may asked this worker to load or unload an endpoint: all workers are to do it."""

    number: int
    endpoint: str
    loaded: bool


class WasSet(msgspec.Struct, tag=True, frozen=True):
    """This worker did so; or why not."""

    number: int
    problem: str = ""


Order: TypeAlias = Setup | Adopt | Drain | Ease | Figures | SetLoaded | AllSet
Word: TypeAlias = Adopted | Did | WantsFigures | WantsSet | WasSet


def _moment_written(found: object) -> int:
    if isinstance(found, Moment):
        return int(found)
    raise NotImplementedError(f"{type(found).__name__} is not among what is said here")


def _moment_read(kind: type, told: int) -> Moment:
    if kind is Moment:
        return Moment(told)
    raise NotImplementedError(f"{kind.__name__} is not among what is said here")


class Channel:
    """One end. Messages arrive whole and in order; `read` gives None once the other side is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kind: object) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = msgspec.msgpack.Decoder(kind, dec_hook=_moment_read)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_moment_written)

    @classmethod
    async def over(cls, end: socket.socket, kind: object) -> "Channel":
        """`kind` is what this end reads: `Order` for a worker, `Word` for the supervisor."""
        reader, writer = await asyncio.open_unix_connection(sock=end)
        return cls(reader, writer, kind)

    def send(self, message: Order | Word) -> None:
        body = self._encoder.encode(message)
        if not self._writer.is_closing():
            self._writer.write(len(body).to_bytes(_LENGTH) + body)

    async def read(self) -> Order | Word | None:
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH))
            if length > _LONGEST:
                return None
            return self._decoder.decode(await self._reader.readexactly(length))  # type: ignore[no-any-return]
        except (asyncio.IncompleteReadError, OSError):
            return None

    def close(self) -> None:
        self._writer.close()
