"""Weights taken away while training goes on: few at first, and the model learns to do without."""

from typing import Any, Final, Literal

import torch
from torch.distributed.tensor import DTensor

from falaj.base.errors import Invalid


class Weighted(torch.nn.Module):
    """The weight of a layer that is not one of torch's: of a graph, whose layers are functions."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)


_LAYERS: Final = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, Weighted)


class Pruning:
    """Call `stepped(session.steps)` after each step. What was taken away stays zero, whatever the optimiser remembers.

    Between `begin` and `end` the share rises, fast at first (by the cube of what is left of the time). The smallest weights go:
    of all layers together, or, by `rows`, whole outputs of each layer, which can then be cut out of it. A model that processes
    share out among them ("fsdp", "tensor") is refused: none of them sees which weights are the smallest.
    """

    def __init__(
        self,
        model: Any,
        share: float,
        *,
        begin: int,
        end: int,
        every: int = 100,
        of: Literal["weights", "rows"] = "weights",
        without: tuple[str, ...] = (),
    ) -> None:
        """`without` names layers that are left alone; the last one of a classifier should be, by `rows`."""
        if not (0.0 < share < 1.0 and 0 <= begin < end and every > 0):
            raise Invalid(f"a share between 0 and 1 and steps in order are needed, not {share} from {begin} to {end}")
        found = {name: module for name, module in model.named_modules() if isinstance(module, _LAYERS)}
        if unknown := set(without) - set(found):
            raise Invalid(f"there is no layer {', '.join(sorted(unknown))}; there are {', '.join(found) or 'none to prune'}")
        self._layers = {name: layer for name, layer in found.items() if name not in without}
        if not self._layers:
            raise Invalid("the model has no layers to prune: linear ones and convolutions are pruned")
        self._weights()
        self._share, self._begin, self._end = share, begin, end
        self._every, self._of = every, of
        self._kept: dict[str, Any] = {}

    def stepped(self, step: int) -> None:
        weights = self._weights()
        if self._begin <= step <= self._end and (step == self._end or (step - self._begin) % self._every == 0):
            self._choose(weights, self.share_at(step))
        with torch.no_grad():
            for name, kept in self._kept.items():
                weights[name].mul_(kept)

    def share_at(self, step: int) -> float:
        """How much is to be gone at that step."""
        left = 1.0 - min(1.0, max(0.0, (step - self._begin) / (self._end - self._begin)))
        return self._share * (1.0 - left * left * left)

    def share(self) -> float:
        """How much is gone."""
        weights = self._weights().values()
        everything: int = sum(weight.numel() for weight in weights)
        return sum(int((weight == 0).sum()) for weight in weights) / everything

    def state_dict(self) -> dict[str, Any]:
        return {"kept": dict(self._kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        weights = self._weights()
        if not set(state["kept"]) <= set(weights):
            raise Invalid("what was pruned is of another model: its layers have other names")
        self._kept = {name: kept.to(weights[name].device) for name, kept in state["kept"].items()}

    def _weights(self) -> dict[str, Any]:
        """As the layers have them now: whoever prepares a model may give it others."""
        weights = {name: layer.weight for name, layer in self._layers.items()}
        if shared := [name for name, weight in weights.items() if isinstance(weight, DTensor)]:
            raise Invalid(
                f"the weights of {', '.join(shared[:3])} are shared out among processes, where pruning does not see them all: "
                'train with Wishes(strategy="ddp"), or without pruning'
            )
        return weights

    def _choose(self, weights: dict[str, Any], share: float) -> None:
        sizes = {name: self._size(weight.detach()) for name, weight in weights.items()}
        if self._of == "rows":
            for name, size in sizes.items():
                kept = _largest(size, share)
                self._kept[name] = kept.view(-1, *([1] * (weights[name].dim() - 1)))
            return
        kept = _largest(torch.cat([size.flatten() for size in sizes.values()]), share)
        at = 0
        for name, size in sizes.items():
            self._kept[name] = kept[at : at + size.numel()].view_as(size)
            at += size.numel()

    def _size(self, weight: Any) -> Any:
        return weight.abs() if self._of == "weights" else weight.flatten(1).norm(dim=1)


def _largest(sizes: Any, share: float) -> Any:
    """Which to keep: exactly so many, where equal ones are in question as well; one at least."""
    count = min(int(share * sizes.numel()), sizes.numel() - 1)
    kept = torch.ones_like(sizes, dtype=torch.bool)
    kept[sizes.argsort(stable=True)[:count]] = False
    return kept
