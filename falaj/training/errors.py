"""What ends a training."""

from falaj.base.errors import PermanentError


class LossNotFinite(PermanentError):
    """The loss of step `step` was not a number, or infinite. Unless it was `taken`, that step changed no weights."""

    def __init__(self, step: int, loss: float, *, taken: bool = False) -> None:
        weights = "have changed by it, what was saved has not" if taken else "were left as they were before it"
        super().__init__(
            f"the loss of step {step} is {loss}: the weights {weights}. Look at that step's batch, lower the learning rate, or "
            "clip the gradients"
        )
        self.step, self.loss = step, loss


class NotPrepared(PermanentError):
    """`prepare` comes before the first step."""


class DoesNotFit(PermanentError):
    """A single row is too large for the device's memory."""


class OthersGone(PermanentError):
    """Another process of the training ended, or cannot be reached: the step that needs it cannot be taken."""
