"""Made-up inputs: for finding out at load whether a model keeps rows apart, and how fast it is."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Final

import numpy as np

from falaj.base.errors import PermanentError
from falaj.runtimes.datatypes import BYTES, DTYPES
from falaj.runtimes.engine import Array, TensorSpec
from falaj.runtimes.errors import Rejected

Run = Callable[[Sequence[Array]], Sequence[Array]]

# Lengths to try where the model leaves one open, and texts to try: the first that the model takes is good enough.
LENGTHS: Final = (1, 8, 32, 224)
TEXTS: Final = (b"", b"0")
_MOST_ELEMENTS: Final = 1 << 26
QUANTISED: Final = 0.02  # how far off, as a share of the largest answer, a model that counts in eight bits may be


def probes(inputs: Sequence[TensorSpec], rows: int, *, length: int = 1, text: bytes = b"", seed: int = 0) -> list[Array]:
    """Random numbers around zero, whole ones 0 or 1 (they may be looked up somewhere), texts all the same.

    Raises `Rejected` for inputs that are larger than any request: a file may say any shape.
    """
    random = np.random.default_rng(seed)
    made: list[Array] = []
    for spec in inputs:
        inner = [length if axis < 0 else axis for axis in spec.shape[1:]]
        outer = [rows if spec.shape[0] < 0 else spec.shape[0]] if spec.shape else []
        shape, dtype = (*outer, *inner), DTYPES[spec.datatype]
        if prod(shape) > _MOST_ELEMENTS:
            raise Rejected(f"{spec.name} has {prod(shape)} elements, which is more than can be tried")
        if spec.datatype == BYTES:
            made.append(np.full(shape, text, dtype=object))
        elif spec.datatype.startswith("FP"):
            made.append(random.standard_normal(shape).astype(dtype))
        else:
            made.append(random.integers(0, 2, shape).astype(dtype))
    return made


def trials(inputs: Sequence[TensorSpec]) -> Iterator[tuple[int, bytes]]:
    """The lengths and texts worth trying for these inputs."""
    lengths = LENGTHS if any(-1 in spec.shape[1:] for spec in inputs) else LENGTHS[:1]
    texts = TEXTS if any(spec.datatype == BYTES for spec in inputs) else TEXTS[:1]
    return itertools.product(lengths, texts)


def accepted_probe(inputs: Sequence[TensorSpec], run: Run) -> tuple[int, bytes] | None:
    """The first trial that the model answers to, or none."""
    for length, text in trials(inputs):
        try:
            run(probes(inputs, 1, length=length, text=text))
        except PermanentError:
            continue
        return length, text
    return None


def first_axis_is_free(specs: Sequence[TensorSpec]) -> bool:
    return bool(specs) and all(spec.shape and spec.shape[0] == -1 for spec in specs)


def keeps_rows_apart(inputs: Sequence[TensorSpec], run: Run, *, rounding: float = 0.0) -> bool:
    """Whether two rows asked together get the answers they get alone. A model that takes none of the trials does not.

    `rounding` is what the model's own arithmetic may be off by, as a share of its largest answer, where that is coarser than
    what it answers in.
    """
    found = accepted_probe(inputs, run)
    if found is None:
        return False
    length, text = found
    one, other = (probes(inputs, 1, length=length, text=text, seed=seed) for seed in (1, 2))
    both = [np.concatenate(pair) for pair in zip(one, other, strict=True)]
    try:
        alone, together = zip(run(one), run(other), strict=True), run(both)
    except PermanentError:
        return False
    return all(
        first.ndim and len(first) == len(second) == 1 and _same(np.concatenate([first, second]), answer, rounding)
        for (first, second), answer in zip(alone, together, strict=True)
    )


def _same(expected: Array, given: Array, rounding: float) -> bool:
    if expected.shape != given.shape or expected.dtype != given.dtype:
        return False
    if given.dtype.kind != "f":
        return bool(np.array_equal(expected, given))
    # Libraries add in another order for another number of rows; in half precision that shows in the third digit.
    tolerance = 1e-2 if given.dtype.itemsize == 2 else 1e-3
    wide, absolute = expected.astype(np.float64), tolerance / 10
    if rounding and wide.size:
        absolute = max(absolute, rounding * float(np.abs(wide).max()))
    return bool(np.allclose(wide, given.astype(np.float64), tolerance, absolute, equal_nan=True))
