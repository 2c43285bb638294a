"""The state that planes serve by: made and signed by the control plane, verified and kept by each plane.

It says everything that answering needs, so that a plane can go on by it alone. Times are microseconds.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from falaj.base.values import value

PURPOSE: Final = "serving"  # of the keys that sign the state and the tokens
FORMAT: Final = 1
Device: TypeAlias = Literal["auto", "cpu", "gpu"]


@value
class File:
    """A file of a revision, by the SHA-256 of its bytes."""

    name: str
    size: int
    digest: str


@value
class Column:
    """A column of the model's signature; `type` as MLflow names it (`double`, `long`, ...), or empty."""

    name: str
    type: str = ""


@value
class Revision:
    """`file` is the model among `files`; `runtime` says which engine takes it. `columns` name what a plain record holds, in
    the order the model wants; empty where the model has no signature of columns."""

    id: str
    number: int
    model: str
    version: int
    runtime: str
    file: str
    files: tuple[File, ...]
    columns: tuple[Column, ...] = ()
    quarantined: bool = False


@value
class Arm:
    """`share` is in hundredths of a per cent; the live ones sum to 10,000."""

    revision: int
    share: int
    role: Literal["live", "shadow"] = "live"
    label: str = ""


@value
class Endpoint:
    """`fallback` is the revision that takes over when one of the arms is broken; 0 for none. The rest is as in `Options`."""

    id: str
    project: str  # the project's id, as tokens name it
    project_name: str
    name: str
    arms: tuple[Arm, ...]
    revisions: tuple[Revision, ...]
    fallback: int = 0
    latency_ms: int = 100
    concurrency: int = 0
    calls_per_second: int = 0
    nan: Literal["allow", "refuse"] = "allow"
    idle_seconds: int = 0
    log_share: int = 0
    masked: tuple[str, ...] = ()
    callbacks: tuple[str, ...] = ()
    callback_secret: str = ""  # that answers sent to `callbacks` are signed with
    device: Device = "auto"


@value
class State:
    """`token_keys` are public keys, in hex by their id, that sign tokens; `revoked` are ids of tokens that hold no more."""

    format: int
    serial: int
    issued: int
    issuer: str
    zone: str
    endpoints: tuple[Endpoint, ...]
    token_keys: dict[str, str]
    revoked: tuple[str, ...] = ()


def encode(state: State) -> bytes:
    return msgspec.json.encode(state)


def decode(body: bytes) -> State:
    """Raises `msgspec.DecodeError` for anything that is not a state."""
    return msgspec.json.decode(body, type=State)
