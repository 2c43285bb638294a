"""A network's last layer and its cross-entropy as one operation.

Scores are computed to a width that the matrix units like, never in float32; their gradients are made where their losses are.
"""

import importlib
from typing import Any

import torch
from torch.nn import functional


def head_loss(x: Any, weight: Any, bias: Any, answers: Any, ignored: int, multiple: int, dtype: Any) -> Any:
    """As `cross_entropy(linear(x, weight, bias).view(-1, classes), answers)`, with products in `dtype`."""
    classes = weight.shape[0]
    missing = -classes % multiple
    rows, wide = x.reshape(-1, x.shape[-1]).to(dtype), functional.pad(weight.to(dtype), (0, 0, 0, missing))
    added = None if bias is None else functional.pad(bias.to(dtype), (0, missing))
    return _apply(rows, wide, added, answers, classes, ignored)


class _Head(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    @staticmethod
    def forward(context: Any, x: Any, weight: Any, bias: Any, answers: Any, classes: int, ignored: int) -> Any:
        scores = x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())
        losses, gradients = torch.ops.falaj.losses_and_gradients(scores, answers, classes, ignored)
        count = (answers != ignored).sum()
        context.save_for_backward(x, weight, gradients, count)
        context.has_bias = bias is not None
        return losses.sum() / count

    @staticmethod
    def backward(context: Any, given: Any) -> Any:
        x, weight, gradients, count = context.saved_tensors
        scale = given.float() / count
        to_x = ((gradients @ weight).float() * scale).to(x.dtype)
        to_weight = ((gradients.t() @ x).float() * scale).to(weight.dtype)
        to_bias = (gradients.float().sum(0) * scale).to(weight.dtype) if context.has_bias else None
        return to_x, to_weight, to_bias, None, None, None


_apply: Any = _Head.apply


@torch.library.custom_op("falaj::losses_and_gradients", mutates_args=())  # type: ignore[misc,untyped-decorator,unused-ignore]
def losses_and_gradients(
    scores: torch.Tensor, answers: torch.Tensor, classes: int, ignored: int
) -> tuple[torch.Tensor, torch.Tensor]:
    if scores.is_cuda:
        made: tuple[Any, Any] = importlib.import_module("falaj.training.kernels").losses_and_gradients(
            scores.contiguous(), answers.contiguous(), classes, ignored
        )
        return made
    chances = torch.log_softmax(scores[:, :classes].float(), 1)
    kept = (answers != ignored)[:, None]
    at = answers.clamp(min=0)[:, None]
    losses = torch.where(kept, -chances.gather(1, at), 0.0)[:, 0]
    gradients = torch.where(kept, chances.exp().scatter_add(1, at, torch.full_like(at, -1, dtype=torch.float32)), 0.0)
    return losses, functional.pad(gradients, (0, scores.shape[1] - classes)).to(scores.dtype)


@losses_and_gradients.register_fake  # type: ignore[misc,untyped-decorator,unused-ignore]
def _shapes(scores: Any, answers: Any, classes: int, ignored: int) -> tuple[Any, Any]:
    return scores.new_empty(scores.shape[0], dtype=torch.float32), scores.new_empty(scores.shape)
