"""What optimisers remember, by the names of the parameters: it fits the same model however that is sharded or wrapped.

The optimisers' own `load_state_dict` is not used: it would cast what it is given to the parameters' type.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from falaj.training.checkpoints.errors import Mismatched, Unsaveable
from falaj.training.checkpoints.manifests import Entry

_PREFIX: Final = "optimiser/"
_OF_THE_MACHINE: Final = frozenset({"params", "fused", "foreach", "capturable"})  # not of the training


class Optimisers:
    """Some optimisers of one model, whose parameters `names` names."""

    def __init__(self, optimisers: Sequence[Optimizer], names: Mapping[Tensor, str]) -> None:
        self._optimisers = tuple(optimisers)
        self._names = names

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{_PREFIX}{at}/{self._name(parameter)}/{name}": held
            for at, _, parameter, state in self._states()
            for name, held in state.items()
            if isinstance(held, Tensor)
        }

    def values(self) -> list[dict[str, Any]]:
        """What is no tensor: the groups with their rates, and counters."""
        groups = [
            [
                {name: one for name, one in group.items() if name != "params"} | {"params": self._of(group)}
                for group in one.param_groups
            ]
            for one in self._optimisers
        ]
        rest: list[dict[str, dict[str, Any]]] = [{} for _ in self._optimisers]
        for at, _, parameter, state in self._states():
            rest[at][self._name(parameter)] = {name: held for name, held in state.items() if not isinstance(held, Tensor)}
        return [{"groups": mine, "rest": others} for mine, others in zip(groups, rest, strict=True)]

    def shared(self) -> set[str]:
        """Names of the parameters that they change, which are the same in every process that holds all of them."""
        return {self._names[one] for each in self._optimisers for group in each.param_groups for one in group["params"]}

    def targets(self, entries: Mapping[str, Entry]) -> dict[str, Tensor]:
        """For every tensor that was saved, one to load it into: that which is there, else a new one beside the parameter."""
        parameters = {
            (at, self._name(one)): (one, group)
            for at, each in enumerate(self._optimisers)
            for group in each.param_groups
            for one in group["params"]
        }
        found = {}
        for key, entry in entries.items():
            if key.startswith(_PREFIX):
                at, name, what = _parsed(key)
                if (at, name) not in parameters:
                    raise Mismatched(f"The checkpoint has an optimiser's state of {name}, which optimiser {at} does not train.")
                parameter, group = parameters[at, name]
                found[key] = _target(self._optimisers[at].state.get(parameter, {}).get(what), what, entry, parameter, group)
        return found

    def restore(self, loaded: Mapping[str, Tensor], values: Sequence[Mapping[str, Any]]) -> None:
        if len(values) != len(self._optimisers):
            raise Mismatched(f"The checkpoint has {len(values)} optimisers; the training has {len(self._optimisers)}.")
        by_name = {name: parameter for parameter, name in self._names.items()}
        for at, (optimiser, saved) in enumerate(zip(self._optimisers, values, strict=True)):
            for group, known in zip(optimiser.param_groups, self._matching(at, saved["groups"]), strict=True):
                for name, one in known.items():
                    if name not in _OF_THE_MACHINE:
                        _set(group, name, one)
            marked: Any = optimiser
            marked._opt_called = True  # by torch, at a step: schedulers warn of optimisers that never took one
            optimiser.state.clear()
            for name, rest in saved["rest"].items():
                optimiser.state[by_name[name]] = dict(rest)
        for key, tensor in loaded.items():
            at, name, what = _parsed(key)
            self._optimisers[at].state[by_name[name]][what] = tensor

    def _matching(self, at: int, saved: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        mine, theirs = [self._of(group) for group in self._optimisers[at].param_groups], [list(one["params"]) for one in saved]
        if mine != theirs:
            raise Mismatched(
                f"Optimiser {at} has other groups of parameters than the checkpoint's ({[len(one) for one in mine]} parameters "
                f"against {[len(one) for one in theirs]}). Make it as it was made for the training that saved."
            )
        return saved

    def _states(self) -> Iterator[tuple[int, Mapping[str, Any], Tensor, Mapping[str, Any]]]:
        for at, optimiser in enumerate(self._optimisers):
            for group in optimiser.param_groups:
                for parameter in group["params"]:
                    if parameter in optimiser.state:
                        yield at, group, parameter, optimiser.state[parameter]

    def _of(self, group: Mapping[str, Any]) -> list[str]:
        return [self._name(one) for one in group["params"]]

    def _name(self, parameter: Tensor) -> str:
        if parameter not in self._names:
            raise Unsaveable("An optimiser trains a parameter that the model does not have; give the state the whole model.")
        return self._names[parameter]


def _target(there: Any, what: str, entry: Entry, parameter: Tensor, group: Mapping[str, Any]) -> Tensor:
    dtype = getattr(torch, entry.dtype)
    if isinstance(there, Tensor) and tuple(there.shape) == entry.size and there.dtype == dtype:
        return there
    if tuple(parameter.shape) == entry.size and what != "step":
        return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
    # Torch's optimisers count steps in host memory, unless all of the step runs on the device.
    beside = what != "step" or group.get("fused") or group.get("capturable")
    return torch.zeros(entry.size, dtype=dtype, device=parameter.device if beside else "cpu")


def _set(group: dict[str, Any], name: str, one: Any) -> None:
    """A rate that is a tensor stays the one that a compiled step knows."""
    there = group.get(name)
    if isinstance(there, Tensor) and isinstance(one, Tensor):
        with torch.no_grad():
            there.copy_(one)
    else:
        group[name] = one


def _parsed(key: str) -> tuple[int, str, str]:
    at, rest = key.removeprefix(_PREFIX).split("/", 1)
    name, what = rest.rsplit("/", 1)
    return int(at), name, what
