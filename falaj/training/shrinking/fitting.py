"""Channels cut out group by group, and the layers that took them in fitted anew to what is left: what went is made up for as
far as the others can. It takes a few looks at some rows, and leaves fine-tuning much less to do."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from falaj.training.shrinking.cutting import End, Group, cut
from falaj.training.shrinking.graphs import Graph

Array = npt.NDArray[Any]
_PLACES: Final = 8192  # that a layer is fitted to: rows, or points of pictures and words of lines
_BYTES: Final = 1 << 28
_RIDGE: Final = 1e-3


def values_at(graph: Graph, inputs: Sequence[Any], ends: Sequence[End]) -> dict[str, Array]:
    """What reaches these layers: a line for each place, a column for each channel. Of as many rows as are needed and fit."""
    wanted = {end.tensor for end in ends}
    with torch.no_grad():
        few = {name: one for name, one in graph.values([one[:2] for one in inputs], wanted).items() if name in wanted}
        places = min(one.numel() // one.shape[_axis(one)] for one in few.values()) / 2
        bytes_of_row = sum(one.nbytes for one in few.values()) / 2
        rows = max(8, int(min(_PLACES / places, _BYTES / bytes_of_row)))
        found = graph.values([one[:rows] for one in inputs], wanted)
    return {name: found[name].movedim(_axis(found[name]), -1).flatten(0, -2).numpy() for name in wanted}


def _axis(tensor: Any) -> int:
    return 1 if tensor.dim() == 4 else tensor.dim() - 1


def cut_and_fitted(content: bytes, inputs: Sequence[Any], kept: Sequence[tuple[Group, Array]], seed: int) -> bytes:
    """Each layer is to say of what reaches it now what it said of everything before, so that later ones make up for earlier."""
    random = np.random.default_rng(seed)
    original, now = Graph.read(content), content
    before = values_at(original, inputs, [end for group, _ in kept for end in group.ends])
    for group, channels in kept:
        if len(channels) == group.channels:
            continue
        reaching = values_at(Graph.read(now), inputs, group.ends)
        new = {}
        for end in group.ends:
            weight = original.weight(end.weights.name).detach().numpy()
            if weight.ndim < 3 or int(np.prod(weight.shape[2:])) == 1:  # a window of places at once is left to fine-tuning
                new[end.weights.name] = _refit(end, weight, before[end.tensor], reaching[end.tensor], channels, random)
        now = cut(now, [(group, channels)], new)
    return now


def _refit(end: End, weight: Array, before: Array, reaching: Array, channels: Array, random: np.random.Generator) -> Array:
    """Least squares, near the weights there were: with few places, it stays with them."""
    count = min(len(before), len(reaching))
    chosen = random.permutation(count)[:_PLACES]
    was, left = before[chosen].astype(np.float64), reaching[chosen][:, channels].astype(np.float64)
    flat = np.moveaxis(weight.reshape(weight.shape[:2]), end.weights.axis, 0).astype(np.float64)  # channels, outputs
    square = left.T @ left
    square[np.diag_indices_from(square)] += _RIDGE * np.trace(square) / len(square) + 1e-12
    solved = flat[channels] + np.linalg.solve(square, left.T @ (was @ flat - left @ flat[channels]))
    shape = [len(channels) if place == end.weights.axis else length for place, length in enumerate(weight.shape)]
    return np.moveaxis(solved, 0, end.weights.axis).reshape(shape).astype(weight.dtype)
