"""A step that the guard looks at: first in float32, then fast, on the same weights and with the same random numbers."""

import math
from collections.abc import Callable
from typing import Any

import torch

from falaj.training import guard
from falaj.training.checkpoints import randomness
from falaj.training.programs import LossOf
from falaj.training.recipes import Recipe


class Beside:
    """The step in float32, taken before the fast one. `exact` is None where it does not fit into memory."""

    def __init__(self, model: Any, loss_of: LossOf, batch: Any, rows: int, *, whole: bool) -> None:
        self._model, self._drawn = model, randomness.captured()
        self._read: Callable[[], guard.Reading | None] = lambda: guard.read_exactly(model, loss_of, batch, rows, whole=whole)
        self._draws = False
        self.exact = self._exactly()

    def verdict(
        self, loss: Any, *, recipe: Recipe, random: bool, scaled: bool, products: guard.Products = guard.products
    ) -> guard.Verdict:
        """On the loss and the gradients that the fast step gave. A compiled one draws other numbers, if it draws any."""
        assert self.exact is not None  # nosec B101 - for types
        fast = guard.Reading(loss=float(loss), gradients=tuple(parameter.grad for parameter in self._model.parameters()))
        if scaled and not math.isfinite(guard.likeness(fast.gradients, self.exact.gradients, products)[1]):
            why = "the loss's scale is still being found: the step is left out"
            return guard.Verdict(passed=True, why=why, loss=fast.loss, exact_loss=self.exact.loss)

        def on_rounded() -> guard.Reading | None:
            with guard.rounded(self._model, torch.float16 if recipe.precision.value == "float16" else torch.bfloat16):
                return self._exactly()

        random = random or (self._draws and bool(recipe.compiled.value))
        return guard.compare(fast, self.exact, random=random, on_rounded=on_rounded, products=products)

    def take_over(self, loss: Any) -> Any:
        """This step is float32's; its loss, in place of the fast one's."""
        assert self.exact is not None  # nosec B101 - for types
        for parameter, gradient in zip(self._model.parameters(), self.exact.gradients, strict=True):
            parameter.grad = gradient
        return torch.full_like(loss, self.exact.loss)

    def _exactly(self) -> guard.Reading | None:
        with guard.unnoticed(self._model, self._drawn), guard.exactly():
            found = self._read()
            after = randomness.captured()
            self._draws = any(not torch.equal(after[one], self._drawn[one]) for one in ("torch", "cuda") if one in self._drawn)
            return found
