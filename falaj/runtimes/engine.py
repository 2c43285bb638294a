"""What every engine is: a loaded model that takes arrays and gives arrays."""

from collections.abc import Mapping, Sequence
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
    """A model as it came from the registry, in memory: nothing is ever opened by a path. `main` is one of `contents`."""

    runtime: str
    main: str
    contents: Mapping[str, bytes]
    columns: tuple[str, ...] = ()


@value
class Placement:
    """Where and how a model is to run; `threads` 0 is what suits most: one. `batch` is the most rows that will be asked at
    once, for engines that prepare for it; 0 lets them choose."""

    device: Literal["cpu", "gpu"] = "cpu"
    threads: int = 0
    batch: int = 0


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


@runtime_checkable
class Staging(Protocol):
    """An engine that has memory of its own from which its device reads fastest."""

    def stage(self, rows: int) -> Sequence[Array]:
        """Arrays to fill and to give to the very next `run`, one per input; they are the engine's, and used again."""
        ...
