"""What is learnt from: rows, what is true of them, and what a teacher says of them and of rows like them.

The teacher is asked once, before `teaching` begins: it is the larger of the two, and every row is looked at many times.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.shrinking.varying import varied

Array = npt.NDArray[Any]
Clock = Callable[[], float]
Kind = Literal["scores", "shares", "share", "logit", "numbers"]
UNKNOWN: Final = -1  # what is true of a row of which nobody knows
_FEWEST: Final = 32
_APART: Final = 0.1
_MOST_APART: Final = 2000
_VARIED: Final = 8  # times as many rows as there are
_VARIED_TO: Final = 8192  # rows; with more of their own, rows are taken as they are
_BYTES: Final = 1 << 29
_AT_ONCE: Final = 256
_ASKED_ANYWAY: Final = 1024  # rows, however long it takes


@value
class Lesson:
    """Rows as the teacher takes them; `truth` has numbers of classes, or is None. `output` is the one that counts."""

    inputs: tuple[Array, ...]
    truth: Array | None
    output: int = 0

    def __post_init__(self) -> None:
        rows = len(self.inputs[0]) if self.inputs else 0
        if rows < _FEWEST:
            raise Invalid(f"{rows} rows are too few to learn from: give {_FEWEST} at least")
        if self.truth is not None and self.truth.dtype.kind not in "iu":
            raise Invalid(
                f"what is true is told in numbers of classes, not in {self.truth.dtype}: give none where there are none"
            )
        if self.truth is not None and len(self.truth) != rows:
            raise Invalid(f"what is true is told of {len(self.truth)} rows, and there are {rows}")


@value
class Meaning:
    """How answers are compared. `scores` of classes, `shares` that add up to one, the `share` or `logit` of one of two classes;
    else `numbers`, which differ by about `spread`."""

    kind: Kind
    spread: float = 1.0

    def columns(self, said: Any) -> Any:
        """Scores of classes; of numbers one column, as `Distilled` has it."""
        said = said.flatten(1).float()
        if self.kind == "scores":
            return said
        if self.kind == "shares":
            return said.clamp_min(1e-7).log()
        if self.kind == "share":
            return torch.cat([1 - said, said], 1).clamp_min(1e-7).log()
        if self.kind == "logit":
            return torch.cat([torch.zeros_like(said), said], 1)
        return said.reshape(-1, 1) / self.spread


@value
class Answers:
    """Tensors of as many rows each: the inputs, what the teacher says, and the number of the class, or `UNKNOWN`."""

    inputs: tuple[Any, ...]
    scores: Any
    truth: Any
    meaning: Meaning
    output: int

    @property
    def rows(self) -> int:
        return len(self.scores)

    def batch(self, chosen: Any) -> tuple[Any, ...]:
        """As `teaching`'s loss takes it: the inputs, what the teacher says, what is true."""
        return (*(one[chosen] for one in self.inputs), self.scores[chosen], self.truth[chosen])


@value
class Asked:
    """Rows to learn from, and rows apart that tell how well it goes."""

    learnt: Answers
    apart: Answers


Ask = Callable[[Sequence[Any]], Any]


def asked(lesson: Lesson, ask: Ask, *, seconds: float, seed: int, clock: Clock = time.monotonic) -> Asked:
    """`ask` gives the teacher's answers to tensors. Where `seconds` do not suffice for all rows, it is asked about fewer."""
    random = torch.Generator().manual_seed(seed)
    rows = len(lesson.inputs[0])
    order = torch.randperm(rows, generator=random)
    count = max(_FEWEST // 4, min(_MOST_APART, round(_APART * rows)))
    limit, meaning = clock() + seconds, None
    parts = []
    for chosen, grows in ((order[:count], False), (order[count:], True)):
        stream = _pieces(lesson, chosen, random if grows else None)
        inputs, scores, truth = _collected(stream, ask, limit if grows else math.inf, clock)
        meaning = meaning or meaning_of(scores, lesson.truth)
        parts.append(Answers(inputs=inputs, scores=scores, truth=truth, meaning=meaning, output=lesson.output))
    return Asked(learnt=parts[1], apart=parts[0])


_Piece = tuple[list[Any], Any]  # inputs, and what is true


def _pieces(lesson: Lesson, chosen: Any, random: torch.Generator | None) -> Iterator[_Piece]:
    """The rows, and others like them where they are few and there is a `random` source."""
    truth = torch.full((len(lesson.inputs[0]),), UNKNOWN) if lesson.truth is None else _tensor(lesson.truth).long()
    for some in chosen.split(_AT_ONCE):
        yield [_tensor(one[some.numpy()]) for one in lesson.inputs], truth[some]
    if random is None:
        return
    bytes_of_row = sum(one[:1].nbytes for one in lesson.inputs)
    wanted = min(_VARIED * len(chosen), _VARIED_TO, _BYTES // max(1, bytes_of_row)) - len(chosen)
    while wanted > 0:
        for some in chosen[torch.randperm(len(chosen), generator=random)].split(_AT_ONCE):
            if wanted > 0:
                wanted -= len(some)
                inputs, same = varied([_tensor(one[some.numpy()]) for one in lesson.inputs], random)
                yield inputs, torch.where(same, truth[some], UNKNOWN)


def _collected(pieces: Iterator[_Piece], ask: Ask, limit: float, clock: Clock) -> tuple[tuple[Any, ...], Any, Any]:
    found, rows = [], 0
    for inputs, truth in pieces:
        with torch.no_grad():
            said = ask(inputs)
        if said.dim() < 1 or len(said) != len(truth):
            raise Invalid(f"a teacher answers each row; to {len(truth)} this one gave {list(said.shape)}")
        finite = torch.isfinite(said.float()).flatten(1).all(1) if said.dim() > 1 else torch.isfinite(said.float())
        said = said.reshape(len(said), -1)
        found.append((*(one[finite] for one in inputs), said[finite], truth[finite]))
        rows += len(truth)
        if clock() > limit and rows >= _ASKED_ANYWAY:
            break
    *inputs, scores, truth = (torch.cat(parts) for parts in zip(*found, strict=True))
    if not len(scores):
        raise Invalid("the teacher answers no row with finite numbers: there is nothing to learn from it")
    return tuple(inputs), scores, truth


def meaning_of(scores: Any, truth: Array | None) -> Meaning:
    inside = bool(((scores >= 0) & (scores <= 1)).all())
    if scores.shape[1] > 1 and inside and bool(((scores.sum(1) - 1).abs() < 1e-3).all()):
        return Meaning(kind="shares")
    if truth is None or (scores.shape[1] == 1 and int(truth.max()) > 1):
        return Meaning(kind="numbers", spread=max(float(scores.float().std()), 1e-6))
    if scores.shape[1] == 1:
        return Meaning(kind="share" if inside else "logit")
    if int(truth.max()) >= scores.shape[1]:
        raise Invalid(f"class {int(truth.max())} is among what is true, and the model has scores for {scores.shape[1]} classes")
    return Meaning(kind="scores")


def _tensor(array: Array) -> Any:
    return torch.from_numpy(np.array(array))  # a copy: what is read from a file may not be written to
