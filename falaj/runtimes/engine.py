"""What every engine is: a loaded model that takes arrays and gives arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from falaj.base.values import value

Array: TypeAlias = npt.NDArray[np.generic]


@value
class TensorSpec:
    """`datatype` is the Open Inference Protocol's word (FP32, INT64, BYTES, ...); `shape` has -1 where any length will do."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@value
class ModelFiles:
    """A model as it came from the registry, in memory: nothing is ever opened by a path. `main` is one of `contents`.
    `settings` are how it is to be run, by the words of `runtimes.settings`; they go before what the placement says."""

    runtime: str
    main: str
    contents: Mapping[str, bytes]
    columns: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@value
class Placement:
    """Where and how a model is to run; `threads` 0 is what suits most: one. `batch` is the most rows that will be asked at
    once, for engines that prepare for it; 0 lets them choose. `python` is the interpreter that may run models by their own
    code, in a sandbox; empty where none may."""

    device: Literal["cpu", "gpu"] = "cpu"
    threads: int = 0
    batch: int = 0
    python: str = ""


class Engine(Protocol):
    """A loaded model. Belongs to one thread at a time: calls never overlap.

    `run` takes one array per input, in the order of `inputs`, and gives one per output, in the order of `outputs`; what it
    gives belongs to the caller. Where `batches`, the first axis of every input and output counts rows, any number of rows but
    none may be asked at once, and each row's answer depends on that row alone. Raises `Rejected` for inputs the model cannot
    take, `EngineFailed` for everything else; after the second the engine may be used again unless it says otherwise by raising
    it again. `close` may be called twice; a closed engine raises `EngineFailed`.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    batches: bool
    device: str

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]: ...

    def close(self) -> None: ...


@runtime_checkable
class Stoppable(Protocol):
    """An engine that can be told to give up a run that takes too long."""

    def stop(self) -> None:
        """From any thread: the run under way, or the next one where there is none, ends soon with `EngineFailed`."""
        ...


@runtime_checkable
class Columned(Protocol):
    """An engine whose model knows what the columns of its one input are called."""

    columns: Sequence[str]


@runtime_checkable
class Labelled(Protocol):
    """An engine whose model knows what the columns of an output stand for: classes by the output's name."""

    labels: Mapping[str, Sequence[int | bytes]]


class Memory(Protocol):
    """Of the kind from which a device reads fastest: bytes, which are used again when nobody sees any of them any more."""

    array: Array

    def put(self, parts: Sequence[bytes | bytearray | memoryview], at: int) -> None:
        """Write them one after the other, from that byte on. Whoever calls sees to it that they fit."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """An engine whose device has a favourite memory."""

    def memory(self, length: int) -> Memory | None:
        """At least so many bytes of it; none where so few are read as fast from anywhere, and where the device is lost."""
        ...


class UnderWay(Protocol):
    """A run that has begun."""

    def is_done(self) -> bool: ...

    def answers(self) -> Sequence[Array]:
        """Waits for them. To be called once, also where nobody wants them any more; raises what `run` raises."""
        ...


@runtime_checkable
class Overlapping(Protocol):
    """An engine that has several runs under way at once: while one is answered and the next is gathered, the device works.

    `most_rows` is what one run takes at once; what is larger is run in pieces, and nothing beside it.
    """

    lanes: int
    most_rows: int

    def begin(self, arrays: Sequence[Array]) -> UnderWay:
        """What `run` does, without waiting for its end. Where fewer than `lanes` are under way, `run` may be called too."""
        ...
