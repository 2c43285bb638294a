"""Loss and gradients of a batch, in as many pieces as memory asks for: what they add up to is the same step."""

from collections.abc import Callable
from typing import Any

import torch

from falaj.training import attention, guard, memory, together
from falaj.training.batches import on, parts_of, rows_of
from falaj.training.errors import DoesNotFit
from falaj.training.probing import largest_batch
from falaj.training.programs import LossOf, Programs


class Pieces:
    """Of `rows` at a time; 0 is the whole batch. They become fewer where they do not fit, and `halved` is told why."""

    def __init__(
        self, programs: Programs, optimiser: Any, device: Any, *, rows: int, whole: bool, halved: Callable[[str], None]
    ) -> None:
        self.rows = rows
        self._programs, self._optimiser, self._device, self._whole, self._halved = programs, optimiser, device, whole, halved

    def gradients(self, loss_of: LossOf, batch: Any, *, scaler: Any, kernel: str) -> Any:
        """Gives the loss; the parameters have their gradients then, times the scale if there is a `scaler`."""
        while True:
            most = self.rows or rows_of(batch)
            try:
                return self._added_up(loss_of, batch, most, scaler, kernel)
            except torch.OutOfMemoryError as error:
                self._may_be_halved(most, rows_of(batch), error)
            self._halve(most, rows_of(batch))

    def _added_up(self, loss_of: LossOf, batch: Any, most: int, scaler: Any, kernel: str) -> Any:
        total = None
        for part, share in parts_of(batch, most):

            def weigh(loss: Any, share: float = share) -> Any:
                weighed = loss if share == 1.0 else loss * share
                return weighed if scaler is None else scaler.scale(weighed)

            with attention.preferring(kernel):
                loss = self._programs.gradients(loss_of, part, weigh)
            weighed = loss if share == 1.0 else loss * share
            total = weighed if total is None else total + weighed
        return total

    def _may_be_halved(self, most: int, rows: int, error: Exception) -> None:
        if not self._whole:
            raise DoesNotFit(
                f"{most} rows do not fit into the device's memory, and a process that shares its model with others "
                f"cannot go back by itself: give Wishes(micro_batch={max(1, most // 2)})"
            ) from error
        if min(most, rows) < 2:
            raise DoesNotFit(
                "one row of the batch does not fit into the device's memory: make the model or the row smaller"
            ) from error

    def _halve(self, most: int, rows: int) -> None:
        self._optimiser.zero_grad(set_to_none=True)
        together.give_back_memory(self._device)
        self._programs.forget_shapes()
        self.rows = -(-min(most, rows) // 2)
        self._halved(f"{most} rows did not fit into memory: gradients of {self.rows} at a time are added up to the same step.")


def largest(
    programs: Programs, model: Any, device: Any, loss_of: LossOf, batch_of: Callable[[int], Any], *, images: bool, most: int
) -> int:
    """How many rows fit at once, by forward and back without a step; `images` are laid out as the recipe has it."""

    def fits(rows: int) -> bool:
        try:
            with memory.bounded(device), guard.unnoticed(model):
                batch = on(device, batch_of(rows), channels_last=images)
                programs.plain(loss_of, batch).backward()
        except torch.OutOfMemoryError:
            return False
        finally:
            together.give_back_memory(device)
        return True

    return largest_batch(fits, most=most)
