"""What a maker of variants is given and gives."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy.typing as npt

from falaj.base.errors import PermanentError
from falaj.base.values import value

Array: TypeAlias = npt.NDArray[Any]


class CannotBeMade(PermanentError):
    """This step cannot be done with this model; the message says why, and by which operator or library."""


@value
class Made:
    """A model in a form that `falaj.runtimes` loads: `file` is the one that is loaded, among `files`, which are in memory.
    `settings` are how it is to be run, as `runtimes.engine.ModelFiles` has them; `notes` say what was done to it."""

    runtime: str
    file: str
    files: Mapping[str, bytes]
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def content(self) -> bytes:
        return self.files[self.file]

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))


@value
class Sample:
    """Rows as the model takes them: an array for each of its inputs, in order, with as many rows each. `truth` is what the
    model should answer: numbers of classes (int64), or numbers; None where nobody knows."""

    inputs: tuple[Array, ...]
    truth: Array | None = None

    @property
    def rows(self) -> int:
        return len(self.inputs[0])

    def part(self, start: int, end: int) -> "Sample":
        return Sample(
            inputs=tuple(one[start:end] for one in self.inputs), truth=None if self.truth is None else self.truth[start:end]
        )


@value
class Material:
    """What steps may use. `training` may be learnt from; `calibration` is a part of it; `selection` is for comparing
    candidates, never learnt from. `drop` tells how much worse than the original a model is on the selection rows (0.005 is
    half a point), and `allowed` how much may be. `seconds` is what one candidate may take, about.
    `output` is the one of the model's outputs that answers are read from."""

    calibration: Sample
    training: Sample
    selection: Sample
    drop: Callable[[Made], float]
    allowed: float = 0.005
    seconds: float = 300.0
    seed: int = 0
    output: int = 0


# A step makes one form of a model into another. The text is what stands behind the step's name: "prune:0.5" is step "prune"
# with "0.5". Raises `CannotBeMade`.
Step: TypeAlias = Callable[[Made, str, Material], Made]
