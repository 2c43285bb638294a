"""Models that lose channels or weights and learn to do without them, from ONNX to ONNX."""

import time
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.shrinking.cutting import Cut, Group, groups_of, kept_channels
from falaj.training.shrinking.fitting import cut_and_fitted
from falaj.training.shrinking.graphs import Graph
from falaj.training.shrinking.lessons import UNKNOWN, Answers, Ask, Clock, Lesson, asked
from falaj.training.shrinking.pruning import Pruning, Weighted
from falaj.training.shrinking.teaching import Taught, teach

Array = npt.NDArray[Any]
_ROUNDS: Final = (0.35, 1.0)  # so much of what goes is gone after each
_EPOCHS: Final = (1.0, 5.0)
_SPARSE_ROUNDS: Final = (0.6, 0.85, 1.0)
_SPARSE_EPOCHS: Final = (1.0, 1.0, 4.0)
_RATE: Final = 5e-4
_FOR_ASKING: Final = 0.25  # of the time
_RANKED_BY: Final = 512  # rows
_AT_ONCE: Final = 64
_FEW: Final = 256  # weights of a layer: to take some of them gains nothing


@value
class Shrunk:
    """ONNX with the inputs and outputs it had, and what was done to it, in sentences."""

    content: bytes
    notes: tuple[str, ...]


def pruned(content: bytes, lesson: Lesson, *, share: float, seconds: float, seed: int, clock: Clock = time.monotonic) -> Shrunk:
    """Without about `share` of the channels of every group that can lose some, a part at a time, learning in between."""
    _check(share)
    until = clock() + seconds
    before = groups_of(content)
    if not before:
        raise Invalid("no layer of this model has channels that can be taken away by themselves")
    known = asked(lesson, asking(Graph.read(content), lesson.output), seconds=_FOR_ASKING * seconds, seed=seed, clock=clock)
    now, wanted = content, {group.first[0].name: group.channels for group in before}
    for number, (part, epochs) in enumerate(zip(_ROUNDS, _EPOCHS, strict=True), 1):
        now = _lessened(now, known.learnt, {name: (1 - share * part) * count for name, count in wanted.items()}, seed)
        student = Graph.read(now)
        left = (until - clock()) / (1 if number == len(_ROUNDS) else 3)
        taught = teach(student, known, epochs=epochs, seconds=left, seed=seed, rate=_RATE, clock=clock)
        now = student.written()
    after = groups_of(now)
    counts = sum(group.channels for group in before), sum(group.channels for group in after)
    said = f"Pruned: {counts[1]:,} of {counts[0]:,} channels in {len(before)} groups are left, {len(now) / len(content):.0%}"
    return Shrunk(content=now, notes=(f"{said} of the size; {_told(taught)}.",))


def sparse(content: bytes, lesson: Lesson, *, share: float, seconds: float, seed: int, clock: Clock = time.monotonic) -> Shrunk:
    """With the smallest weights set to zero, more and more of them, and the others fitted around them."""
    _check(share)
    until = clock() + seconds
    graph = Graph.read(content)
    small = [name for name, one in graph.named_modules() if isinstance(one, Weighted) and one.weight.numel() <= _FEW]
    known = asked(lesson, asking(Graph.read(content), lesson.output), seconds=_FOR_ASKING * seconds, seed=seed, clock=clock)
    for number, (part, epochs) in enumerate(zip(_SPARSE_ROUNDS, _SPARSE_EPOCHS, strict=True)):
        pruning = Pruning(graph, share * part, begin=0, end=1, every=1, without=tuple(small))
        pruning.stepped(1)
        left = (until - clock()) / (len(_SPARSE_ROUNDS) - number)
        taught = teach(
            graph, known, epochs=epochs, seconds=left, seed=seed, rate=_RATE, after=partial(pruning.stepped, 2), clock=clock
        )
    note = f"Sparse: {pruning.share():.0%} of the weights of its layers are zero; {_told(taught)}."
    return Shrunk(content=graph.written(), notes=(note,))


def asking(graph: Graph, output: int) -> Ask:
    """What the model itself says. Channels last: convolutions are computed faster so."""
    graph.eval()
    pictures = any(one.dim() == 4 for one in graph.parameters())
    if pictures:
        graph.to(memory_format=torch.channels_last)

    def ask(inputs: Any) -> Any:
        lined = (one.to(memory_format=torch.channels_last) if pictures and one.dim() == 4 else one for one in inputs)
        return graph(*lined)[output]

    return ask


def _check(share: float) -> None:
    if not 0.0 < share < 1.0:
        raise Invalid(f"a share between 0 and 1 is taken away, not {share}")


def _told(taught: Taught) -> str:
    """Of the training."""
    short = ", for which the time was short" if taught.cut_short else ""
    return f"fine-tuned in {taught.steps} steps{short}"


def _lessened(content: bytes, known: Answers, left: dict[str, float], seed: int) -> bytes:
    """With as many channels `left` of each group, about, and the layers behind them fitted to that."""
    graph = Graph.read(content)
    ranks, kept = _ranks(graph, known), []
    for group in groups_of(content):
        gone = max(0.0, 1 - left[group.first[0].name] / group.channels)
        kept.append((group, kept_channels(_scores(graph, group, ranks), gone)))
    return cut_and_fitted(content, known.inputs, kept, seed)


def _ranks(graph: Graph, known: Answers) -> dict[str, Array]:
    """By parameter: how much what is said of the rows would change without each weight, to first order."""
    total: dict[str, Any] = {}
    for chosen in torch.arange(min(_RANKED_BY, known.rows)).split(_AT_ONCE):
        *inputs, scores, truth = known.batch(chosen)
        said = known.meaning.columns(graph(*inputs)[known.output])
        if known.meaning.kind == "numbers":
            loss = said.square().mean()
        else:  # not the distance from the teacher, which is 0 at first: there would be no slope
            likeliest = known.meaning.columns(scores).argmax(1)
            loss = functional.cross_entropy(said, torch.where(truth == UNKNOWN, likeliest, truth))
        graph.zero_grad(set_to_none=True)
        loss.backward()
        for name, weight in graph.named_parameters():
            if weight.grad is not None:
                total[name] = total.get(name, 0) + (weight.detach() * weight.grad).abs()
    return {name: one.numpy() for name, one in total.items()}


def _scores(graph: Graph, group: Group, ranks: dict[str, Array]) -> Array:
    """Of each channel: what its own weights matter, and a little of how large they are, where nothing was learnt of it."""
    found = np.zeros(group.channels)
    for one in group.first:
        weight = graph.weight(one.name).detach().numpy()
        found += _by_channel(one, ranks.get(graph.place(one.name), np.zeros_like(weight)))
        found += 1e-9 * _by_channel(one, np.abs(weight))
    return found


def _by_channel(one: Cut, array: Array) -> Array:
    summed: Array = np.moveaxis(array, one.axis, 0).reshape(array.shape[one.axis], -1).sum(axis=1)
    return summed
