"""One prediction on its way: what a face (REST, gRPC) understood, and how it is told the outcome.

Faces read and write protocols; what lies between (who may ask, which revision, batching) is the same for all of them.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from falaj.base.errors import TemporaryError, TooLarge
from falaj.base.values import value
from falaj.runtimes.engine import Array, TensorSpec

# BYTES elements of one request: each becomes an object of its own, and everybody waits meanwhile.
TEXTS_MOST: Final = 100_000


class DeadlinePassed(TemporaryError):
    """The answer would come too late for whoever asked."""


def check_texts(count: int) -> None:
    """Raises `TooLarge` for more BYTES elements than one request may have."""
    if count > TEXTS_MOST:
        raise TooLarge(
            f"The request has {count} BYTES elements; at most {TEXTS_MOST} are taken: send them in several requests."
        )


class Given:
    """An input as it was sent: `data` is a flat list of numbers, booleans or bytes, or the raw little-endian bytes of it."""

    __slots__ = ("data", "datatype", "name", "shape")

    def __init__(self, name: str, datatype: str, shape: Sequence[int], data: list[Any] | bytes | memoryview) -> None:
        self.name = name
        self.datatype = datatype
        self.shape = shape
        self.data = data


class Answer:
    """What the model said. `arrays` are in the order of `names`; a face writes them as its protocol wants.

    `model` and `version` are the registered ones; without a name of its own the model is called as the endpoint is. `variant`
    is the form of it that answered, empty where there is but one. `unknown` counts the rows with an entity of which nothing was
    known, where features were looked up.
    """

    __slots__ = ("arrays", "datatypes", "endpoint", "id", "model", "names", "revision", "unknown", "variant", "version")

    def __init__(
        self,
        endpoint: str,
        revision: int,
        version: int,
        id: str,
        names: Sequence[str],
        datatypes: Sequence[str],
        arrays: Sequence[Array],
        model: str = "",
        variant: str = "",
    ) -> None:
        self.endpoint = endpoint
        self.revision = revision
        self.version = version
        self.id = id
        self.names = names
        self.datatypes = datatypes
        self.arrays = arrays
        self.model = model or endpoint
        self.variant = variant
        self.unknown = 0


class Reply(Protocol):
    """The face's side of one prediction; exactly one of the two is called, once, on the loop's thread. Neither raises.

    `gone` turns true when the client hung up or cancelled: nobody waits, so nothing need be computed.
    """

    @property
    def gone(self) -> bool: ...

    def answer(self, answer: Answer) -> None: ...

    def refuse(self, error: Exception) -> None:
        """An error of `base.errors`; the face knows which status of its protocol that is."""
        ...


class Ask:
    """One prediction that is wanted. `arrived` and `deadline` are by `time.monotonic()`, which the loop's time is too, but
    only to the millisecond; `wanted` names outputs, empty for all.

    `version` is what the client put into the protocol's place for versions: empty, or a revision's number. `key` holds a
    caller to one arm of a split; `override` names a revision by number, for tests. With either of those it `is_pinned`: the
    caller chose the revision, and not the split. Once features were looked up, `entities` are the keys it was done by, `looked`
    what was found, `given` has what the model takes, and `sent` what the caller gave.
    """

    __slots__ = (
        "arrived",
        "deadline",
        "endpoint",
        "entities",
        "given",
        "id",
        "is_pinned",
        "key",
        "looked",
        "override",
        "reply",
        "sent",
        "token",
        "version",
        "wanted",
    )

    def __init__(
        self,
        *,
        token: str,
        endpoint: str,
        given: Sequence[Given],
        reply: Reply,
        arrived: float,
        version: str = "",
        wanted: Sequence[str] = (),
        id: str = "",
        key: str = "",
        override: str = "",
        deadline: float | None = None,
    ) -> None:
        self.token = token
        self.endpoint = endpoint
        self.given = given
        self.reply = reply
        self.arrived = arrived
        self.version = version
        self.wanted = wanted
        self.id = id
        self.key = key
        self.override = override
        self.is_pinned = bool(version or override)
        self.deadline = deadline
        self.entities: dict[str, list[Any]] | None = None
        self.looked: Any = None
        self.sent: Sequence[Given] | None = None


@value
class Described:
    """A model as the protocol's metadata shows it. `versions` are the revisions that have traffic or can be asked for."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    columns: tuple[str, ...]  # of a plain record; empty where the model has no signature of columns
    looked_up: tuple[str, ...] = ()  # columns of the model that callers do not give


@value
class Indexed:
    """An entry of the protocol's repository index; `state` is READY, LOADING, UNAVAILABLE."""

    name: str
    version: str
    state: str
    reason: str = ""


class Core(Protocol):
    """What every face stands on. Everything runs on the loop's thread; errors are those of `base.errors`.

    A token's project is where the names are looked up: an endpoint of another project does not exist for its holder.
    """

    def submit(self, ask: Ask) -> None:
        """Never raises: whatever is wrong goes to the ask's reply."""
        ...

    def is_ready(self) -> bool:
        """Whether this worker answers by a state. One project's broken model does not make it unready for the others."""
        ...

    def admit(self, token: str, source: str = "") -> str:
        """Gives the token's project. Raises where it does not hold: nothing large is received or read for strangers.

        To be asked before anything else where a token is new to a face, with the caller's address as `source`: who sends many
        bad ones is told from those who do not.
        """
        ...

    def describe(self, token: str, endpoint: str, version: str = "") -> Described: ...

    def is_model_ready(self, token: str, endpoint: str, version: str = "") -> bool: ...

    def index(self, token: str) -> tuple[Indexed, ...]: ...

    async def load(self, token: str, endpoint: str) -> None: ...

    async def unload(self, token: str, endpoint: str) -> None: ...
