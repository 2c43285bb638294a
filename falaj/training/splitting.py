"""Several processes that compute each layer together (tensor parallel): every one has the same batch and a part of the weights.

In blocks that repeat, a pair of layers that goes wide and comes back is cut by columns and then by rows, with one sum in the
end. Any other linear layer is cut by columns and its outputs are gathered: that is right whatever comes after it.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import torch
import torch.distributed as processes
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from falaj.base.errors import Invalid
from falaj.training import layers, together
from falaj.training.sharding import cut_products, moved

_STYLES: Final = {
    "columns": lambda: ColwiseParallel(),
    "rows": lambda: RowwiseParallel(),
    "gathered": lambda: ColwiseParallel(output_layouts=Replicate()),
}
_HOW: Final = (
    'give one by the names of layers, such as Wishes(strategy="tensor", tensor_plan={"blocks.*.up": "columns", '
    '"blocks.*.down": "rows", "blocks.*.attend": "gathered"})'
)


class Split(together.Copies):
    """All processes have the same samples; what is whole in each of them is kept alike."""

    dealt = whole = False

    def __init__(self, plan: Mapping[str, Any] | None) -> None:
        self._given = plan

    def take(self, model: Any, optimiser: Any, device: Any) -> None:
        count = processes.get_world_size()
        plan = plan_for(model, count) if self._given is None else _named(model, self._given)
        together.begin_alike(model, device)
        model.to(device)
        torch.backends.mha.set_fastpath_enabled(False)  # reads weights past their layers, which does not suit cut ones
        with moved(model, optimiser):
            styles = {name: _STYLES[one]() if isinstance(one, str) else one for name, one in plan.items()}
            parallelize_module(model, init_device_mesh(device.type, (count,)), styles)
        for group in [optimiser.defaults, *optimiser.param_groups]:
            group["foreach"] = False  # which takes either cut tensors or whole ones

    def settle(self, loss: Any, parameters: Iterable[Any]) -> None:
        gradients = [one.grad for one in parameters if one.grad is not None and not isinstance(one.grad, DTensor)]
        together.averaged([loss, *gradients])

    def products(self, pairs: Sequence[tuple[Any, Any]]) -> float:
        return cut_products(pairs)


def plan_for(model: Any, count: int) -> dict[str, str]:
    """How each linear layer of the blocks that repeat is cut among so many processes."""
    plan: dict[str, str] = {}
    names = {module: name for name, module in model.named_modules()}
    for block in layers.blocks(model):
        linear = _linear(block, names)
        paired = _paired(block, linear)
        for layer in linear:
            style = paired.get(layer, "gathered")
            width = layer.in_features if style == "rows" else layer.out_features
            if width % count == 0:
                plan[names[layer]] = style
            elif style != "gathered":
                raise Invalid(
                    f"{names[layer]} has {width:,} features, which {count} processes cannot share evenly: take another number "
                    f"of processes, or {_HOW}"
                )
    if not plan:
        raise Invalid(f"no plan was found to compute this model's layers together: it has no blocks of linear layers; {_HOW}")
    return plan


def _linear(block: Any, names: Mapping[Any, str]) -> list[Any]:
    """In the order in which they were made. Torch's own attention reads its layers' weights past the layers: it stays whole."""
    closed = {id(one) for module in block.modules() if isinstance(module, nn.MultiheadAttention) for one in module.modules()}
    return [one for one in block.modules() if type(one) is nn.Linear and id(one) not in closed and one in names]


def _paired(block: Any, linear: Sequence[Any]) -> dict[Any, str]:
    """Layers that widen and the one that takes their outputs back, if nothing between them looks at all outputs at once."""
    found: dict[Any, str] = {}
    for down in linear:
        wide, narrow = down.in_features, down.out_features
        ups = [one for one in linear if (one.in_features, one.out_features) == (narrow, wide)]
        others = [one for one in linear if one.in_features == wide]
        if wide <= narrow or not ups or others != [down] or _mixes(block, wide):
            continue
        found |= dict.fromkeys(ups, "columns") | {down: "rows"}
    return found


def _mixes(block: Any, width: int) -> bool:
    """Whether anything but linear layers has weights over all the wide outputs, as a norm between them would."""
    own = [one for one in block.modules() if not isinstance(one, nn.Linear)]
    return any(width in parameter.shape for one in own for parameter in one.parameters(recurse=False))


def _named(model: Any, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The user's, by the names of layers; what fits none, or is no style, is told before anything changes."""
    names = [name for name, _ in model.named_modules() if name]
    found: dict[str, Any] = {}
    for pattern, style in plan.items():
        if not (isinstance(style, ParallelStyle) or style in _STYLES):
            known = ", ".join(_STYLES)
            raise Invalid(f"the plan wants {style!r} for {pattern}: give one of {known}, or a ParallelStyle of torch's")
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise Invalid(
                f"the plan names {pattern}, and no layer of the model is called so; there are {', '.join(names[:8])}, ..."
            )
        found |= dict.fromkeys(matching, style)
    return found
