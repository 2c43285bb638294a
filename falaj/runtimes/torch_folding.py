"""A normalisation right after a convolution becomes part of the convolution's weights.

What is served does not learn: such a normalisation multiplies each channel by a number and adds another, which the convolution
can do on its way. torch leaves both as they are, and compiled networks of convolutions run a tenth slower for it on a GPU.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from falaj.runtimes.torch_files import BFLOAT16, Program, Ref, Step, Weight

Numbers: TypeAlias = npt.NDArray[np.float64]

_ATEN: Final = "torch.ops.aten."
_CONVOLUTIONS: Final = frozenset(f"{_ATEN}conv{axes}d.{form}" for axes in (1, 2, 3) for form in ("default", "padding"))
_GENERAL: Final = f"{_ATEN}convolution.default"
_IS_TRANSPOSED: Final = 6  # where the general one says whether it is
_NORM: Final = f"{_ATEN}batch_norm.default"
_IS_LEARNING: Final = 5  # where it says whether it is
_EPSILONS: Final = {_NORM: 7, f"{_ATEN}_native_batch_norm_legit_no_training.default": 6}  # where they have it
_FLOATS: Final = {6: "<f2", 7: "<f4", 8: "<f8"}  # by their numbers in the program's schema


class _Unfoldable(Exception):
    pass


def folded(program: Program) -> Program:
    """The same program with fewer steps; what cannot be folded stays as it is."""
    places = {step.made[0]: at for at, step in enumerate(program.steps) if _is_convolution(step)}
    uses = Counter([*_names_in(program.steps), *program.made])
    steps, weights = dict(enumerate(program.steps)), dict(program.weights)
    taken = {*weights, *(tensor.name for tensor in program.inputs), *(name for step in program.steps for name in step.made)}
    for at, norm in enumerate(program.steps):
        before = next(_names_in([norm]), "")
        if norm.target not in _EPSILONS or before not in places or uses[before] > 1 or any(uses[one] for one in norm.made[1:]):
            continue
        convolution = steps[places[before]]
        try:
            made = _folded_weights(convolution, norm, program)
        except _Unfoldable:
            continue
        names = [_new_name(f"{norm.made[0]}_{part}", taken) for part in ("weight", "bias")]
        weights |= dict(zip(names, made, strict=True))
        given = (convolution.given[0], *(Ref(name=name) for name in names), *convolution.given[3:])
        steps[places[before]] = replace(convolution, given=given, made=norm.made[:1])
        del steps[at]
    needed = {*_names_in(list(steps.values())), *program.made}
    return replace(program, steps=tuple(steps.values()), weights={name: weights[name] for name in weights if name in needed})


def _is_convolution(step: Step) -> bool:
    if step.named or len(step.given) < 2:
        return False
    if step.target == _GENERAL:
        return len(step.given) > _IS_TRANSPOSED and step.given[_IS_TRANSPOSED] is False
    return step.target in _CONVOLUTIONS


def _names_in(given: Any) -> Iterator[str]:
    """Of everything that is referred to."""
    if isinstance(given, Ref):
        yield given.name
    elif isinstance(given, Step):
        yield from _names_in([*given.given, *given.named.values()])
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _names_in(one)


def _new_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _folded_weights(convolution: Step, norm: Step, program: Program) -> tuple[Weight, Weight]:
    """The convolution's weight and bias with which it does the norm's work too."""
    epsilon = _EPSILONS[norm.target]
    if norm.named or len(norm.given) <= epsilon or (norm.target == _NORM and norm.given[_IS_LEARNING] is not False):
        raise _Unfoldable
    weight, bias = (_weight(convolution, at, program) for at in (1, 2))
    factor, offset, mean, variance = (_weight(norm, at, program) for at in (1, 2, 3, 4))
    if weight is None or mean is None or variance is None or len(weight.shape) != convolution.axes:
        raise _Unfoldable  # without rows, what the norm takes for channels is something else
    channels = weight.shape[0]
    with np.errstate(all="ignore"):  # what is not finite in the end is not folded
        spread = np.sqrt(_each(variance, channels, 1.0) + float(norm.given[epsilon]))
        scale = _each(factor, channels, 1.0) / spread
        shift = (_each(bias, channels, 0.0) - _each(mean, channels, 0.0)) * scale + _each(offset, channels, 0.0)
        return _scaled(weight, scale), _written(shift, weight.dtype, (1,))


def _weight(step: Step, at: int, program: Program) -> Weight | None:
    """None where nothing is given there."""
    given = step.given[at] if len(step.given) > at else None
    if given is None:
        return None
    if not isinstance(given, Ref) or given.name not in program.weights:
        raise _Unfoldable  # it is computed
    return program.weights[given.name]


def _each(weight: Weight | None, channels: int, usual: float) -> Numbers:
    """One number for each channel."""
    numbers = np.full(channels, usual) if weight is None else _read(weight)
    if numbers.shape != (channels,):
        raise _Unfoldable
    return numbers


def _scaled(weight: Weight, scale: Numbers) -> Weight:
    """In the same order in memory: libraries choose their kernels by it."""
    scaled = _read(weight) * scale.reshape(-1, *[1] * (len(weight.shape) - 1))
    order = sorted(range(len(weight.shape)), key=lambda axis: -weight.strides[axis])
    packed = np.ascontiguousarray(scaled.transpose(order))
    strides = {axis: packed.strides[at] // packed.itemsize for at, axis in enumerate(order)}
    written = _written(packed, weight.dtype, tuple(strides[axis] for axis in range(len(order))))
    return replace(written, shape=weight.shape)


def _read(weight: Weight) -> Numbers:
    kind = np.dtype("<u2" if weight.dtype == BFLOAT16 else _FLOATS.get(weight.dtype, "V1"))
    if kind.kind == "V":
        raise _Unfoldable
    strides = [stride * kind.itemsize for stride in weight.strides]
    try:  # numpy looks whether all of it lies within the memory
        stored = np.ndarray(weight.shape, kind, weight.content, weight.offset * kind.itemsize, strides)
    except (ValueError, TypeError, OverflowError) as error:
        raise _Unfoldable from error
    if weight.dtype == BFLOAT16:
        stored = (stored.astype("<u4") << 16).view("<f4")
    return stored.astype(np.float64)


def _written(numbers: Numbers, dtype: int, strides: tuple[int, ...]) -> Weight:
    if dtype == BFLOAT16:  # the upper half of a float, rounded to the nearest, and to the even one between two
        bits = numbers.astype("<f4").view("<u4")
        stored: npt.NDArray[Any] = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
        finite = np.isfinite((stored.astype("<u4") << 16).view("<f4"))
    else:
        stored = numbers.astype(_FLOATS[dtype])
        finite = np.isfinite(stored)
    if not finite.all():
        raise _Unfoldable
    return Weight(dtype=dtype, shape=numbers.shape, strides=strides, offset=0, content=stored.tobytes())
