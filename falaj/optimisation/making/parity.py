"""How far the answers of two forms of a model are apart, and whether one can be asked in the place of the other."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from falaj.base.values import value
from falaj.optimisation.making.profiles import profile_of
from falaj.optimisation.making.running import answers_of, engine_of
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Material, Sample
from falaj.runtimes.engine import Engine, TensorSpec

_COMPARED_ON: Final = 128
_FEW: Final = 16  # numbers, of which nobody asks in how many bits they are
_AT_FIRST: Final = 16  # of a slow model no more
_OF_THE_TIME: Final = 0.01  # that a candidate may take
EXPORTED: Final = 1e-3  # what float32 may be off by after being added in another order through some dozen layers


@value
class Parity:
    """`largest` is the farthest any number of an answer is off, `usual` the same for 99 of 100: as shares of it, or of what
    numbers of its output usually are. `agreeing` is the share of rows with the same class, where the answers are of classes,
    or the same numbers within the tolerance. `worst` names the output that is farthest."""

    largest: float
    usual: float
    agreeing: float
    tolerance: float
    rows: int
    worst: str = ""

    @property
    def holds(self) -> bool:
        return self.largest <= self.tolerance

    def __str__(self) -> str:
        held = "within" if self.holds else "beyond"
        place = f", in output {self.worst}" if self.worst else ""
        return f"answers to {self.rows} rows are at most {self.largest:.2g} apart, {held} {self.tolerance:.2g}{place}"


def parity(first: Made, second: Made, sample: Sample, *, tolerance: float = EXPORTED) -> Parity:
    """Raises `CannotBeMade` where one of them takes or gives something else than the other."""
    engines = engine_of(first), engine_of(second)
    try:
        check_stands_in(*engines)
        said, given = (answers_of(engine, sample) for engine in engines)
        return apart(said, given, tolerance=tolerance, names=[spec.name for spec in engines[0].outputs])
    finally:
        for engine in engines:
            engine.close()


def apart(first: Sequence[Array], second: Sequence[Array], *, tolerance: float, names: Sequence[str] = ()) -> Parity:
    rows = len(first[0])
    agreeing = np.ones(rows, dtype=bool)
    distances = [distance(*pair) for pair in zip(first, second, strict=True)]
    for one, other, far in zip(first, second, distances, strict=True):
        if one.ndim == 2 and one.shape[1] > 1 and one.dtype.kind == "f":
            agreeing &= one.argmax(axis=1) == other.argmax(axis=1)
        else:
            agreeing &= far.reshape(rows, -1).max(axis=1, initial=0.0) <= tolerance
    largest = [float(far.max(initial=0.0)) for far in distances]
    return Parity(
        largest=max(largest),
        usual=max(float(np.quantile(far, 0.99, method="higher")) if far.size else 0.0 for far in distances),
        agreeing=float(agreeing.mean()) if rows else 1.0,
        tolerance=tolerance,
        rows=rows,
        worst=names[int(np.argmax(largest))] if names and max(largest) > 0 else "",
    )


def with_same_face(made: Made, form: Made) -> Made:
    """The form, where it can be asked in the place of what it was made from."""
    engines = engine_of(made), engine_of(form)
    try:
        check_stands_in(*engines)
    finally:
        for engine in engines:
            engine.close()
    return form


def answering_alike(made: Made, form: Made, material: Material) -> Made:
    """The form, with a note of how far its answers to calibration rows are from those of what it was made from. Raises
    `CannotBeMade` where that is more than float32 explains. What counts in fewer bits need not answer alike, but take and give
    the same."""
    profile = profile_of(made)
    if profile.is_quantised or (profile.parameters >= _FEW and not profile.is_float):
        return with_same_face(made, form)
    began = time.monotonic()
    held = parity(made, form, material.calibration.part(0, _AT_FIRST))
    if held.holds and time.monotonic() - began < _OF_THE_TIME * material.seconds:
        held = parity(made, form, material.calibration.part(0, _COMPARED_ON))
    if not held.holds:
        raise CannotBeMade(f"it answers something else: {held}")
    *before, last = form.notes
    return replace(form, notes=(*before, f"{last}; {held}"))


def check_stands_in(original: Engine, made: Engine) -> None:
    """Raises `CannotBeMade` unless whoever asks the one can ask the other without noticing."""
    for side, said, given in (("input", original.inputs, made.inputs), ("output", original.outputs, made.outputs)):
        if tuple(said) != tuple(given):
            raise CannotBeMade(f"the {side}s have become others: {_listed(given)}, where the original has {_listed(said)}")
    if original.batches and not made.batches:
        raise CannotBeMade("the answer to a row has come to depend on the rows it is asked with; the original's does not")


def distance(first: Array, second: Array) -> npt.NDArray[np.float64]:
    """Of each number, as a share of the first, or of how large its numbers are on average where that is more: answers that are
    all small are no nearer for it. None where neither has a number."""
    if first.shape != second.shape:
        raise CannotBeMade(f"answers have shape {list(second.shape)}, where the original's have {list(first.shape)}")
    if first.dtype.kind not in "fiub":
        return np.asarray(first != second, dtype=np.float64)
    one, other = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        found: npt.NDArray[np.float64] = np.abs(one - other) / np.maximum(_usual(one), np.abs(one))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    found[same] = 0.0
    found[np.isnan(found)] = np.inf  # a number where the other has none
    return found


def _usual(numbers: npt.NDArray[np.float64]) -> float:
    """How large they are on average; 1 where all are nothing."""
    known = np.abs(numbers[np.isfinite(numbers)])
    most = float(known.max(initial=0.0))
    return float((known / most).mean()) * most if most else 1.0


def _listed(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{spec.name} {spec.datatype} {list(spec.shape)}" for spec in specs)
