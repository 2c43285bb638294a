"""Asking a form of a model, by the engine that will serve it."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import numpy as np

from falaj.base.errors import FalajError
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Sample
from falaj.runtimes.datatypes import DTYPES
from falaj.runtimes.engine import Engine, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing
from falaj.runtimes.loading import load

Device: TypeAlias = Literal["cpu", "gpu"]
BATCH: Final = 64


def engine_of(made: Made, *, threads: int = 1, device: Device = "cpu") -> Engine:
    """Raises `CannotBeMade` where the form cannot be loaded: whoever made it has to say so, not whoever serves it. A runtime
    that has no way to the GPU runs on the CPU."""
    files = ModelFiles(runtime=made.runtime, main=made.file, contents=made.files, settings=made.settings)
    try:
        if device == "gpu":
            with suppress(DeviceMissing):
                return load(files, Placement(device="gpu", threads=threads))
        return load(files, Placement(threads=threads))
    except FalajError as error:
        raise CannotBeMade(f"what was made cannot be loaded: {error}") from error


def answers(made: Made, sample: Sample, *, threads: int = 1, device: Device = "cpu") -> tuple[Array, ...]:
    """One array for each output, all rows in order."""
    engine = engine_of(made, threads=threads, device=device)
    try:
        return answers_of(engine, sample)
    finally:
        engine.close()


def answers_of(engine: Engine, sample: Sample) -> tuple[Array, ...]:
    given = fitting(sample, engine.inputs).inputs
    step = BATCH if engine.batches else 1
    parts = [engine.run([one[start : start + step] for one in given]) for start in range(0, sample.rows, step)]
    return tuple(np.concatenate(pieces) for pieces in zip(*parts, strict=True))


def fitting(sample: Sample, inputs: Sequence[TensorSpec]) -> Sample:
    """The same rows in the type that each input takes: trees by LightGBM take doubles, their ONNX form may take floats."""
    if len(inputs) != len(sample.inputs):
        raise CannotBeMade(f"the model takes {len(inputs)} inputs, and the rows have {len(sample.inputs)}")
    pairs = zip(sample.inputs, inputs, strict=True)
    cast = tuple(np.ascontiguousarray(one, dtype=DTYPES[spec.datatype]) for one, spec in pairs)
    return Sample(inputs=cast, truth=sample.truth)
