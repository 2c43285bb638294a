"""Whether the rows that ranges are found on are worth anything: enough of them, different ones, like those to come."""

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from falaj.base.values import value
from falaj.optimisation.making.values import Array, Sample
from falaj.statistics.distances import kolmogorov_smirnov
from falaj.statistics.significance import holm, kolmogorov_smirnov_chance

LEAST_ROWS: Final = 32
ENOUGH_ROWS: Final = 128
_MOST_COLUMNS: Final = 256  # of an input; pictures have more, and those are alike
_MOST_ROWS: Final = 2000
_CHANCE: Final = 0.01
_NOTICED: Final = 0.1  # a distance between distributions that is worth a word
_FAR: Final = 0.5  # and one from which ranges are another population's
_SHARE_FAR: Final = 0.1  # of the columns that vary, so many must be far for all to be refused
_SHOWN: Final = 5


@value
class Finding:
    """`says` is a sentence for people; one that `refuses` means that calibrating on these rows would be worth nothing."""

    kind: Literal["few", "constant", "broken", "shifted"]
    refuses: bool
    says: str


def examined(calibration: Sample, held_out: Sample) -> tuple[Finding, ...]:
    """What speaks against these rows; nothing where they are good."""
    return (*_few(calibration), *_broken(calibration), *_constant(calibration), *_shifted(calibration, held_out))


def _few(sample: Sample) -> Iterator[Finding]:
    rows = sample.rows
    if rows < LEAST_ROWS:
        yield Finding(
            kind="few", refuses=True, says=f"There are {rows} rows to calibrate on; at least {LEAST_ROWS} are needed."
        )
    elif rows < ENOUGH_ROWS:
        yield Finding(
            kind="few", refuses=False, says=f"There are only {rows} rows to calibrate on; {ENOUGH_ROWS} would be safer."
        )


def _broken(sample: Sample) -> Iterator[Finding]:
    for number, one in enumerate(sample.inputs):
        if one.dtype.kind != "f":
            continue
        bad = ~np.isfinite(one.reshape(len(one), -1))
        rows = int(bad.any(axis=1).sum())
        if not rows:
            continue
        where = _columns(np.flatnonzero(bad.any(axis=0)), number, sample)
        says = f"{rows} of {len(one)} rows to calibrate on have values that are missing or infinite, in {where}."
        yield Finding(kind="broken", refuses=2 * rows > len(one), says=says)


def _constant(sample: Sample) -> Iterator[Finding]:
    flat = [_flat(one) for one in sample.inputs]
    still = [(one == one[:1]).all(axis=0) if len(one) else np.ones(one.shape[1], dtype=bool) for one in flat]
    if all(one.all() for one in still):
        yield Finding(
            kind="constant", refuses=True, says="All rows to calibrate on are the same: ranges cannot be found on them."
        )
        return
    for number, one in enumerate(still):
        if one.all():
            says = f"Input {number + 1} is the same in all rows to calibrate on."
            yield Finding(kind="constant", refuses=False, says=says)
        elif one.any() and flat[number].shape[1] <= _MOST_COLUMNS:
            where = _columns(np.flatnonzero(one), number, sample)
            says = f"{int(one.sum())} of {len(one)} columns never change in the rows to calibrate on: {where}."
            yield Finding(kind="constant", refuses=False, says=says)


def _shifted(calibration: Sample, held_out: Sample) -> Iterator[Finding]:
    """By column, against the rows that variants are judged on; corrected for how many columns are asked about."""
    for number, (one, other) in enumerate(zip(calibration.inputs, held_out.inputs, strict=True)):
        if one.dtype.kind not in "fiu" or min(len(one), len(other)) < LEAST_ROWS:
            continue
        left, right = (_thinned(side) for side in (one, other))
        columns = _spread(left.shape[1])
        pairs = [(left[:, column], right[:, column]) for column in columns]
        distances = [kolmogorov_smirnov(first[np.isfinite(first)], second[np.isfinite(second)]) for first, second in pairs]
        chances = holm([kolmogorov_smirnov_chance(distance, len(left), len(right)) for distance in distances])
        found = [
            (distance, column)
            for distance, chance, column in zip(distances, chances, columns, strict=True)
            if chance < _CHANCE and distance >= _NOTICED
        ]
        if not found:
            continue
        varying = max(1, sum(bool((first != first[0]).any() or (second != second[0]).any()) for first, second in pairs))
        far = sum(distance >= _FAR for distance, _ in found)
        worst = sorted(found, reverse=True)[:_SHOWN]
        told = ", ".join(f"{_column(column, number, calibration)} by {distance:.2f}" for distance, column in worst)
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        says = (
            f"The rows to calibrate on are not distributed like those that variants are judged on: {told}{more} "
            f"(Kolmogorov-Smirnov distance, 0 to 1; corrected chance below {_CHANCE})."
        )
        yield Finding(kind="shifted", refuses=far / varying >= _SHARE_FAR, says=says)


def _flat(one: Array) -> Array:
    return one.reshape(len(one), -1)


def _thinned(one: Array) -> npt.NDArray[np.float64]:
    step = max(1, len(one) // _MOST_ROWS)
    return _flat(one)[::step].astype(np.float64)


def _spread(width: int) -> list[int]:
    return sorted(set(np.linspace(0, width - 1, min(width, _MOST_COLUMNS)).astype(int).tolist()))


def _columns(numbers: npt.NDArray[np.int64], given: int, sample: Sample) -> str:
    shown = ", ".join(_column(number, given, sample) for number in numbers[:_SHOWN].tolist())
    return shown + (f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else "")


def _column(number: int, given: int, sample: Sample) -> str:
    place = f"column {number + 1}"
    return place if len(sample.inputs) == 1 else f"{place} of input {given + 1}"
