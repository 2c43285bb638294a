"""Compact networks to be taught, as large as is right for their teacher: made from what it takes and gives and how much it
computes. What they are made of is in `networks`."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.shrinking.networks import Dense, Pictures, Reader

KINDS: Final = ("mlp", "mobilenet", "efficientnet", "transformer")
# How much of the teacher's work each computes.
_WORK: Final = {"small": 1 / 16, "": 1 / 8, "large": 1 / 4}
_SCALES: Final = tuple(2 ** (step / 4) for step in range(12, -13, -1))  # from eight times as wide to an eighth
_USUAL: Final = {"small": 0.5, "": 1.0, "large": 2.0}  # where nobody knows how much the teacher computes


@value
class Face:
    """What a student has to take and to give: shapes of a row of each input, of how many kinds its tokens are (0 for numbers),
    and how wide the answer is. `middles` and `spreads` are of all numbers of a row, one after the other. `work` is what the
    teacher computes for a row, 0 where nobody knows."""

    shapes: tuple[tuple[int, ...], ...]
    tokens: tuple[int, ...]
    width: int
    middles: Any
    spreads: Any
    work: float = 0.0


def student(kind: str, face: Face) -> nn.Module:
    """`mlp`, or `mlp-small` and the like. Raises `Invalid` where the teacher takes something else."""
    name, _, size = kind.partition("-")
    if name not in KINDS or size not in _WORK:
        raise Invalid(f"there is no student {kind!r}: {', '.join(KINDS)}, each also -small and -large")
    build = _builder(name, face)
    if not face.work:
        return build(_USUAL[size])
    most = _WORK[size] * face.work
    with torch.random.fork_rng(devices=()):
        chosen = next((scale for scale in _SCALES if work_of(build(scale).to("meta"), _rows(face)) <= most), _SCALES[-1])
    return build(chosen)


def work_of(model: nn.Module, rows: Sequence[Any]) -> float:
    """Multiplications and additions for one row."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(*rows)
    return float(counter.get_total_flops()) / len(rows[0])


def _rows(face: Face) -> list[Any]:
    pairs = zip(face.shapes, face.tokens, strict=True)
    return [torch.zeros((2, *shape), dtype=torch.int64 if kinds else torch.float32, device="meta") for shape, kinds in pairs]


def _builder(name: str, face: Face) -> Callable[[float], nn.Module]:
    if name == "mlp":
        return lambda scale: Dense(face.shapes, face.width, _eights(64 * scale), face.middles, face.spreads)
    if len(face.shapes) != 1:
        raise Invalid(f"the model takes {len(face.shapes)} inputs, and a {name} one: distil it into an mlp, or give a student")
    shape, tokens = face.shapes[0], face.tokens[0]
    if name == "transformer":
        if not tokens or len(shape) != 1:
            raise Invalid(f"a transformer is taught to read rows of tokens, and this model takes rows of shape {list(shape)}")
        return lambda scale: _reader(tokens, shape[0], face.width, _eights(48 * scale))
    if len(shape) != 3 or tokens:
        raise Invalid(f"a {name} is taught to see pictures of three axes, and this model takes rows of shape {list(shape)}")
    windows = (3, 3, 3) if name == "mobilenet" else (3, 5, 5)
    spread = float(face.spreads.square().mean().sqrt())
    return lambda scale: Pictures(shape, face.width, [_eights(one * scale) for one in (16, 24, 40, 64)], windows, spread)


def _reader(tokens: int, length: int, answers: int, width: int) -> nn.Module:
    return Reader(tokens, length, answers, width=width, layers=2, heads=width // (8 if width % 16 else 16))


def _eights(number: float) -> int:
    return max(8, int(number / 8 + 0.5) * 8)
