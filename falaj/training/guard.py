"""The numerics guard: the fast recipe beside float32, on the same weights and the same batch.

Losses must agree. Gradients must point the same way, unless the model itself is so sensitive that they turn when its weights
are merely rounded: those of a fresh ResNet-50 turn by 60 degrees in exact float32, and it learns all the same.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from falaj.base.values import value
from falaj.training import losses, memory
from falaj.training.batches import parts_of
from falaj.training.checkpoints import randomness

LOSS: Final = 0.02  # of the loss, or of 0.1 where it is smaller
RANDOM_LOSS: Final = 0.1  # where values are dropped by chance
COSINE: Final = 0.9  # between the two gradients
LENGTHS: Final = 1.5  # one gradient may be so many times as long as the other
SENSITIVE: Final = 5.0  # times as far from float32 as float32 on rounded weights is


@value
class Reading:
    """What one way to compute a step gave."""

    loss: float
    gradients: tuple[Any, ...] = ()


@value
class Verdict:
    """How far the fast reading is from the exact one."""

    passed: bool
    why: str
    loss: float
    exact_loss: float
    cosine: float = math.nan


@contextlib.contextmanager
def exactly() -> Iterator[None]:
    """float32 as it is written: no autocast, no TF32."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


@contextlib.contextmanager
def unnoticed(model: Any, drawn: Mapping[str, Any] | None = None) -> Iterator[None]:
    """What runs inside leaves no trace in buffers, gradients and random numbers. It draws those that come next, or that came
    when they were `drawn` (`randomness.captured`)."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    following = randomness.captured()
    if drawn is not None:
        randomness.restore(drawn)
    try:
        yield
    finally:
        randomness.restore(following)
        with torch.no_grad():
            for buffer, kept in buffers:
                buffer.copy_(kept)
        for parameter, kept in gradients:
            parameter.grad = kept


@contextlib.contextmanager
def rounded(model: Any, dtype: Any) -> Iterator[None]:
    """Inside, the weights are what they would be in `dtype`."""
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    try:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.to(dtype))
        yield
    finally:
        with torch.no_grad():
            for parameter, before in zip(model.parameters(), kept, strict=True):
                parameter.copy_(before)


Products = Callable[[Sequence[tuple[Any, Any]]], float]


def products(pairs: Sequence[tuple[Any, Any]]) -> float:
    """Of the two gradients, element by element, and all of them added up."""
    return float(torch.stack([(one.float() * other.float()).sum().double() for one, other in pairs]).sum())


def compare(
    fast: Reading,
    exact: Reading,
    *,
    random: bool,
    on_rounded: Callable[[], Reading | None],
    products: Products = products,
) -> Verdict:
    """Whether the fast one may be trusted. `on_rounded` computes float32 on rounded weights; it is asked only in doubt."""
    limit = (RANDOM_LOSS if random else LOSS) * max(abs(exact.loss), 0.1)
    said = f"the loss is {fast.loss:.5g}, in float32 {exact.loss:.5g}"
    readings = {"loss": fast.loss, "exact_loss": exact.loss}
    if not math.isfinite(exact.loss):
        return Verdict(passed=True, why=f"{said}: that is not the recipe's fault", **readings)
    if not abs(fast.loss - exact.loss) <= limit:
        return Verdict(passed=False, why=f"{said}, more than {limit:.2g} apart", **readings)
    if random or not exact.gradients:
        return Verdict(passed=True, why=said, **readings)
    cosine, ratio = likeness(fast.gradients, exact.gradients, products)
    said += f"; the gradients' cosine is {cosine:.4f}, their lengths' ratio {ratio:.3f}"
    if not 1 / LENGTHS <= ratio <= LENGTHS:
        return Verdict(passed=False, why=said, cosine=cosine, **readings)
    if cosine >= COSINE:
        return Verdict(passed=True, why=said, cosine=cosine, **readings)
    other = on_rounded()
    own = likeness(other.gradients, exact.gradients, products)[0] if other is not None else 1.0
    said += f"; on rounded weights float32's own cosine is {own:.4f}"
    return Verdict(passed=_tangent(cosine) <= SENSITIVE * _tangent(own), why=said, cosine=cosine, **readings)


def _tangent(cosine: float) -> float:
    """How long what is wrong is, beside what is right."""
    return math.inf if cosine <= 0 else math.sqrt(max(1 / cosine**2 - 1, 0))


def likeness(fast: tuple[Any, ...], exact: tuple[Any, ...], products: Products = products) -> tuple[float, float]:
    """The cosine of two gradients, and the ratio of their lengths."""
    pairs = [(one, other) for one, other in zip(fast, exact, strict=True) if one is not None and other is not None]
    if not pairs:
        return 1.0, 1.0
    both = products(pairs)
    ours, theirs = (products([(one, one) for one in gradients]) for gradients in zip(*pairs, strict=True))
    if ours == 0 or theirs == 0:
        return (1.0, 1.0) if ours == theirs else (0.0, math.inf)
    return both / math.sqrt(ours * theirs), math.sqrt(ours / theirs)


def read_exactly(model: Any, loss_of: Callable[..., Any], batch: Any, rows: int, *, whole: bool) -> Reading | None:
    """The step in float32, in pieces of so many rows, or of half and half of that where they do not fit; None where it may not
    be taken apart."""
    while True:
        try:
            with memory.told():
                return _read(model, loss_of, batch, rows)
        except torch.OutOfMemoryError:
            if whole or rows < 2:
                return None
            rows = -(-rows // 2)
        torch.cuda.empty_cache()


def _read(model: Any, loss_of: Callable[..., Any], batch: Any, rows: int) -> Reading:
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = None
    total = 0.0
    for part, share in parts_of(batch, rows):
        loss = losses.learnable(loss_of(model, *part))
        (loss * share).backward()
        total += float(loss.detach()) * share
    return Reading(loss=total, gradients=tuple(parameter.grad for parameter in parameters))
