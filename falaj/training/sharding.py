"""Several processes that share one model out (torch's FSDP2): each keeps a part of every layer, and fetches the rest of a layer
while it computes it."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as processes
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, init_device_mesh

from falaj.base.errors import Invalid
from falaj.training import guard, layers, together


class Shards(together.Copies):
    """Each process has its own samples; gradients are averaged where they are made."""

    whole = False

    def take(self, model: Any, optimiser: Any, device: Any) -> None:
        together.begin_alike(model, device)
        mesh = init_device_mesh(device.type, (processes.get_world_size(),))
        with moved(model, optimiser):
            for block in reversed(layers.blocks(model)):  # the inner ones first
                if any(True for _ in block.parameters()):
                    fully_shard(block, mesh=mesh)
            # What is kept together between forward and back would show up whole among the parameters in between.
            fully_shard(model, mesh=mesh, reshard_after_forward=True)
        model.to(device)

    def settle(self, loss: Any, parameters: Iterable[Any]) -> None:
        together.averaged([loss])

    def products(self, pairs: Sequence[tuple[Any, Any]]) -> float:
        return cut_products(pairs)


def cut_products(pairs: Sequence[tuple[Any, Any]]) -> float:
    """Over all processes; what each of them holds alike counts once."""
    cut = [(_local(one), _local(other)) for one, other in pairs if is_cut(one)]
    alike = [(_local(one), _local(other)) for one, other in pairs if not is_cut(one)]
    own = guard.products(cut) if cut else 0.0
    own += guard.products(alike) / processes.get_world_size() if alike else 0.0
    device = _local(pairs[0][0]).device
    total = torch.tensor(own, dtype=torch.float64, device=device)
    processes.all_reduce(total)
    return float(total)


def is_cut(tensor: Any) -> bool:
    return isinstance(tensor, DTensor) and any(isinstance(one, Shard) for one in tensor.placements)


def _local(tensor: Any) -> Any:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class moved:  # noqa: N801 - a context, read as a word
    """Around what gives a model new parameters for its old ones: the optimiser goes on with the new."""

    def __init__(self, model: Any, optimiser: Any) -> None:
        if optimiser.state:
            raise Invalid("the optimiser has taken steps with the whole model: prepare it before its first step")
        self._model, self._optimiser = model, optimiser
        self._names = {parameter: name for name, parameter in model.named_parameters(remove_duplicate=False)}

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            return
        new = dict(self._model.named_parameters(remove_duplicate=False))
        for group in self._optimiser.param_groups:
            group["params"] = [new[self._names[one]] if one in self._names else one for one in group["params"]]
