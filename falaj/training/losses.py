"""What a loss function gives back, looked at before anything is computed from it: one number that gradients follow from."""

from typing import Any

import torch

from falaj.base.errors import Invalid


def checked(loss: Any) -> Any:
    """The same, where it is such a number."""
    if not isinstance(loss, torch.Tensor):
        raise Invalid(f"the loss is of type {type(loss).__name__}: give back the tensor itself, not .item() or float() of it")
    if loss.numel() != 1:
        raise Invalid(f"the loss is of shape {tuple(loss.shape)}: give back the mean over the rows, one number (.mean())")
    return loss


def learnable(loss: Any) -> Any:
    """And where weights were in it."""
    if not checked(loss).requires_grad:
        raise Invalid("no weight of the model has a part in the loss: compute it by the model that loss_of is given")
    return loss
