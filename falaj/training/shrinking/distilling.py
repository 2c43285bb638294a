"""Learning from a larger model: its scores say more of each row than the row's label does."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from falaj.base.errors import Invalid


class Distilled:
    """A loss for `session.step`: partly the labels', partly the distance from the teacher's scores.

    loss_of = Distilled(teacher, scores_of=lambda model, rows, labels: model(rows), loss=lambda scores, rows, labels: ...)
    """

    def __init__(
        self,
        teacher: Any,
        *,
        scores_of: Callable[..., Any],
        loss: Callable[..., Any],
        weight: float = 0.5,
        temperature: float = 2.0,
    ) -> None:
        """`weight` is the teacher's part. At a high `temperature` its scores of unlikely classes count for more."""
        if not (0.0 <= weight <= 1.0 and temperature > 0.0):
            raise Invalid(f"weight must be from 0 to 1 and temperature above 0, not {weight} and {temperature}")
        teacher.train(False).requires_grad_(False)
        self._teacher, self._scores_of, self._loss = teacher, scores_of, loss
        self._weight, self._temperature = weight, temperature
        self._beside = False

    def __call__(self, student: Any, *batch: Any) -> Any:
        if not self._beside:
            self._come_beside(student)
        scores = self._scores_of(student, *batch)
        with torch.no_grad():
            wanted = self._scores_of(self._teacher, *batch)
        if scores.shape != wanted.shape:
            raise Invalid(f"the teacher gives scores of shape {tuple(wanted.shape)}, the student {tuple(scores.shape)}")
        far = _distance(scores, wanted, self._temperature)
        return (1.0 - self._weight) * self._loss(scores, *batch) + self._weight * far

    @torch.compiler.disable  # type: ignore[untyped-decorator,unused-ignore]
    def _come_beside(self, student: Any) -> None:
        """To the device that the student was prepared on, before the first scores."""
        if (first := next(student.parameters(), None)) is not None:
            self._teacher.to(first.device)
        self._beside = True


def _distance(scores: Any, wanted: Any, temperature: float) -> Any:
    """Of classes: Kullback and Leibler's, as large as without temperature. Of a single number: squared."""
    if scores.shape[-1] == 1:
        return functional.mse_loss(scores.float(), wanted.float())
    ours, theirs = ((one.float() / temperature).flatten(0, -2).log_softmax(-1) for one in (scores, wanted))
    return functional.kl_div(ours, theirs, reduction="batchmean", log_target=True) * temperature**2
