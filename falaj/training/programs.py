"""A model's loss as one compiled program: forward, loss, and through them backward.

Compiled for the shape that comes first; others run as they are until they have come often enough to be worth a program of
their own, so that the last, shorter batch of an epoch costs no minute of compiling.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import torch
from torch._inductor.compile_fx import compile_fx

from falaj.training import losses, memory
from falaj.training.batches import shape_of
from falaj.training.recipes import Recipe
from falaj.training.rewriting import rewrite

LossOf = Callable[..., Any]
_OFTEN: Final = 20  # times that another shape comes before it is compiled
_MOST_SHAPES: Final = 4  # programs of one shape each; what comes in more is compiled once for all shapes
OPTIONS: Final[dict[str, Any]] = {}  # of torch's code generator; the defaults have proved best


class Programs:
    """Not for several threads."""

    def __init__(self, model: Any, recipe: Recipe, device: Any, say: Callable[[str], None]) -> None:
        self._model, self._recipe, self._device, self._say = model, recipe, device, say
        self._compiling = bool(recipe.compiled.value)
        self._of: dict[Any, tuple[LossOf, Any, Any]] = {}
        self._shapes: Counter[Any] = Counter()

    def gradients(self, loss_of: LossOf, batch: tuple[Any, ...], weigh: Callable[[Any], Any]) -> Any:
        """Adds to the parameters' gradients; gives the loss as it was before it was weighed."""
        if self._compiling and self._worth_compiling(loss_of, batch):
            try:
                return self._run(self._compiled(loss_of, batch), batch, weigh)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - a code generator may fail in any way; the plain way decides whose fault it is
                loss = self._run(self._plain(loss_of), batch, weigh)
                self._compiling = False
                first = (str(error).strip().splitlines() or [""])[0][:200]
                self._say(f"The program could not be compiled and runs as it is written ({type(error).__name__}: {first})")
                return loss
        return self._run(self._plain(loss_of), batch, weigh)

    def plain(self, loss_of: LossOf, batch: tuple[Any, ...]) -> Any:
        """The loss alone, uncompiled."""
        with memory.told():
            return losses.checked(self._plain(loss_of)(*batch))

    def forget_shapes(self) -> None:
        """Batches will come in another size from now on: the next shape is the first again."""
        self._shapes.clear()

    def _run(self, program: Any, batch: tuple[Any, ...], weigh: Callable[[Any], Any]) -> Any:
        with memory.told():
            loss = losses.learnable(program(*batch))
            weigh(loss).backward()
            return loss.detach()

    def _worth_compiling(self, loss_of: LossOf, batch: tuple[Any, ...]) -> bool:
        if _key(loss_of) not in self._of and len(self._of) >= _MOST_SHAPES:
            return False  # a new function at every step
        shape = shape_of(batch)
        self._shapes[shape] += 1
        first = next(iter(self._shapes))
        return shape == first or self._shapes[shape] > _OFTEN or len(self._shapes) > _MOST_SHAPES

    def _compiled(self, loss_of: LossOf, batch: tuple[Any, ...]) -> Any:
        if _key(loss_of) not in self._of:
            plain = self._plain(loss_of)
            static, dynamic = (
                torch.compile(plain, dynamic=any_shape, backend=generator(self._recipe)) for any_shape in (False, True)
            )
            self._of[_key(loss_of)] = (loss_of, static, dynamic)
            if len(self._of) == _MOST_SHAPES:
                self._say(
                    "The loss function is a new one at every step and is no longer compiled: define it once, outside the loop"
                )
        _, static, dynamic = self._of[_key(loss_of)]
        frequent = [shape for shape, _ in self._shapes.most_common(_MOST_SHAPES)]
        return static if shape_of(batch) in frequent else dynamic

    def _plain(self, loss_of: LossOf) -> Any:
        model, recipe, kind = self._model, self._recipe, self._device.type
        dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(recipe.precision.value)

        def program(*batch: Any) -> Any:
            with torch.autocast(kind, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
                return loss_of(model, *batch)

        return program


def generator(recipe: Recipe) -> Callable[[Any, Any], Any]:
    """A backend for `torch.compile`: torch's own, on the program as the recipe rewrites it."""
    return lambda program, examples: compile_fx(rewrite(program, recipe), examples, config_patches=dict(OPTIONS))


def _key(loss_of: LossOf) -> Any:
    """A function that is written once and made anew at each step is the same one, when it carries nothing along."""
    if inspect.ismethod(loss_of):
        return loss_of.__func__, id(loss_of.__self__)
    if inspect.isfunction(loss_of) and not (loss_of.__closure__ or loss_of.__defaults__ or loss_of.__kwdefaults__):
        return loss_of.__code__, id(loss_of.__globals__)
    return loss_of
