"""The steps that learn, on torch: pruning, making sparse, distilling; and programs for GPUs."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.optimisation.making.values import CannotBeMade, Made, Material, Step
from falaj.training.shrinking.distilled import distilled
from falaj.training.shrinking.exporting import program
from falaj.training.shrinking.lessons import Lesson
from falaj.training.shrinking.pruned import Shrunk, pruned, sparse
from falaj.training.shrinking.tails import alike, parted

_ONNX: Final = "model.onnx"
_PROGRAM: Final = "model.pt2"
_OF_THE_TIME: Final = 0.8  # the rest is for what comes after


def steps_with(student: bytes) -> dict[str, Step]:
    """`student` is a model that is to be taught, as ONNX."""
    return {
        "prune": _pruned,
        "sparsify": _sparse,
        "distil": partial(_distilled, student),
        "torch-program": _program,
    }


def _pruned(made: Made, argument: str, material: Material) -> Made:
    return _shrunk(made, material, partial(pruned, share=_share(argument)))


def _sparse(made: Made, argument: str, material: Material) -> Made:
    return _shrunk(made, material, partial(sparse, share=_share(argument)))


def _distilled(student: bytes, made: Made, argument: str, material: Material) -> Made:
    def distil(content: bytes, **told: Any) -> Shrunk:
        return distilled(content, kind=argument, given=alike(student, content), **told)

    return _shrunk(made, material, distil)


def _program(made: Made, argument: str, material: Material) -> Made:
    _check_onnx(made)
    dtype: Any = argument or "bf16"
    try:
        content = program(made.content, material.calibration.inputs, dtype=dtype)
    except Invalid as error:
        raise CannotBeMade(str(error)) from error
    return Made(runtime="torch", file=_PROGRAM, files={_PROGRAM: content}, notes=(*made.notes, f"A torch program in {dtype}."))


def _shrunk(made: Made, material: Material, shrink: Callable[..., Shrunk]) -> Made:
    _check_onnx(made)
    truth = material.training.truth
    labels = truth if truth is not None and truth.dtype.kind == "i" and truth.ndim == 1 else None
    apart = parted(made.content, material.output)
    content, output = (made.content, material.output) if apart is None else (apart.body, 0)
    try:
        lesson = Lesson(inputs=material.training.inputs, truth=labels, output=output)
        found = shrink(content, lesson=lesson, seconds=_OF_THE_TIME * material.seconds, seed=material.seed)
        whole = found.content if apart is None else apart.joined(found.content)
    except Invalid as error:
        raise CannotBeMade(str(error)) from error
    return Made(runtime="onnx", file=_ONNX, files={_ONNX: whole}, notes=(*made.notes, *found.notes))


def _check_onnx(made: Made) -> None:
    if made.runtime != "onnx" or len(made.files) > 1:
        raise CannotBeMade(f"only ONNX in one file can be taught, and this is {made.runtime} in {len(made.files)} files")


def _share(argument: str) -> float:
    try:
        return float(argument)
    except ValueError:
        raise CannotBeMade(f"a share is a number such as 0.5, not {argument!r}") from None
