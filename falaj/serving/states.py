"""The state that planes serve by: made and signed by the control plane, verified and kept by each plane.

It says everything that answering needs, so that a plane can go on by it alone. Times are microseconds.
"""

from dataclasses import field, replace
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
    """A column of the model's signature; `type` as MLflow names it (`double`, `long`, ...), or empty. One that is not
    `required` may be null."""

    name: str
    type: str = ""
    required: bool = True

    @property
    def takes_null(self) -> bool:
        return self.type in ("double", "float", "") or not self.required


@value
class Field:
    """A column of a feature view; `type` is a word of `falaj.tables.types`."""

    name: str
    type: str


@value
class LookupView:
    """A version of a feature view that is looked up before the model is asked: `keys` are what callers give, `features` all
    that its rows hold, and `wanted` those that the model takes; of these `counts` are 0 where nothing is known of an entity.
    `hidden` are keys and features that come from classified columns: they are not logged.

    `place` and `entities` say where the rows of an entity are in the online store, `seals` opens them, by version: in hex, of
    this view alone. `problem` says why it cannot be looked up; the rest is empty then."""

    reference: str
    problem: str = ""
    keys: tuple[Field, ...] = ()
    features: tuple[Field, ...] = ()
    wanted: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    time_to_live: int | None = None
    place: str = ""
    entities: str = ""
    seals: dict[int, str] | None = None


@value
class Rung:
    """A faster variant of a revision that may answer in its place while that is overloaded. `name` is the variant's; `file`,
    `files` and `settings` are as a revision has them. `latency_ms` is what a row takes on hosts of the kind `host`."""

    name: str
    runtime: str
    file: str
    files: tuple[File, ...]
    settings: dict[str, str] = field(default_factory=dict)
    host: str = ""
    latency_ms: float = 0.0


@value
class WatchedColumn:
    """One column that is counted. Numbers by `edges`, which rise: a number lies in the bin of as many edges as are below it, so
    that k edges make k + 1 bins, infinite ones in the outer bins, and one bin more is for what is missing. Others by `kinds`: a
    bin each, then one for all other kinds and one for what is missing. With neither it is still being learnt: it is sketched
    and not counted."""

    name: str
    edges: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()


@value
class Watch:
    """What is watched of a revision, in windows of so many `seconds` since 1970. Of each window, `sample` rows are kept whole.
    Where `columns` or `outputs` are empty, all that there are are learnt. Counts are told with `key` and hold for it alone:
    whoever draws another plan gives it another key."""

    key: str
    seconds: int
    columns: tuple[WatchedColumn, ...] = ()
    outputs: tuple[WatchedColumn, ...] = ()
    sample: int = 0


@value
class Revision:
    """`file` is the model among `files`; `runtime` says which engine takes it. `columns` name what a plain record holds, in
    the order the model wants; empty where the model has no signature of columns. `lookups` give some of them.

    `variant` is what of its version it is, where that is not the original form; `settings` are how that is to be run, and
    `host` and `latency_ms` where it was certified, and how fast. `ladder` are faster ones, the fastest last.
    `watch` is what is counted of what it is asked and answers."""

    id: str
    number: int
    model: str
    version: int
    runtime: str
    file: str
    files: tuple[File, ...]
    columns: tuple[Column, ...] = ()
    quarantined: bool = False
    lookups: tuple[LookupView, ...] = ()
    variant: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    host: str = ""
    latency_ms: float = 0.0
    ladder: tuple[Rung, ...] = ()
    watch: Watch | None = None

    @property
    def all_files(self) -> tuple[File, ...]:
        """With those of its ladder."""
        return (*self.files, *(file for rung in self.ladder for file in rung.files))

    def as_rung(self, rung: Rung) -> "Revision":
        """The same revision in the form of one of its rungs."""
        return replace(
            self,
            runtime=rung.runtime,
            file=rung.file,
            files=rung.files,
            variant=rung.name,
            settings=rung.settings,
            host=rung.host,
            latency_ms=rung.latency_ms,
            ladder=(),
        )


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
