"""Letting one model learn what another says: for students, and for models that have lost channels or weights.

`lessons` has what is learnt from. A `Session` trains, on whatever device there is.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

from falaj.base.values import value
from falaj.training.errors import LossNotFinite
from falaj.training.recipes import Wishes
from falaj.training.saves import Saves
from falaj.training.session import Session
from falaj.training.shrinking.distilling import Distilled
from falaj.training.shrinking.lessons import UNKNOWN, Answers, Asked, Clock

_BATCHES: Final = 64  # that the rows make, about
_FEWEST_AT_ONCE: Final = 32
_MOST_AT_ONCE: Final = 512
_LOOKS: Final = 12  # how often it is held against the rows apart
_WARM: Final = 20  # steps
_TIMED: Final = (3, 9)  # steps between which it is found out how long one takes
_BY_TEACHER: Final = 0.7
_CALMER: Final = 0.1


@value
class Taught:
    """The loss on rows apart, before and after. `cut_short` says that there was no time for all of the steps."""

    before: float
    after: float
    steps: int
    cut_short: bool = False


def teach(
    student: Any,
    asked: Asked,
    *,
    epochs: float,
    seconds: float,
    seed: int,
    rate: float,
    after: Callable[[], None] = lambda: None,
    clock: Clock = time.monotonic,
) -> Taught:
    """Trains in place, and ends with the weights that did best on the rows apart, which may be those it began with. `after` is
    called after each step. What comes of a seed is the same each time, unless it is cut short."""
    course = _Course(student, asked, after=after, clock=clock)
    before, until = course.best, clock() + seconds
    for calmer in (1.0, _CALMER):
        try:
            course.run(epochs=epochs, until=until, rate=calmer * rate, seed=seed)
            break
        except LossNotFinite:
            student.load_state_dict(course.kept)  # and once more, more carefully
    course.end()
    return Taught(before=before, after=course.best, steps=course.steps, cut_short=course.cut_short)


def loss_for(answers: Answers) -> Distilled:
    """Of a model and a batch of these answers. What the teacher says of them is known: it is not asked again."""
    recorded = _Recorded()

    def scores_of(model: Any, *batch: Any) -> Any:
        said = batch[-2] if model is recorded else model(*batch[:-2])[answers.output]
        return answers.meaning.columns(said)

    def by_labels(scores: Any, *batch: Any) -> Any:
        if answers.meaning.kind == "numbers":
            return functional.mse_loss(scores, answers.meaning.columns(batch[-2]))
        each = functional.cross_entropy(scores, batch[-1], ignore_index=UNKNOWN, reduction="none")
        return each.mean()  # of rows of which nothing is known it is 0

    return Distilled(recorded, scores_of=scores_of, loss=by_labels, weight=_BY_TEACHER)


class _Recorded(nn.Module):
    """In the teacher's place."""


class _Course:
    def __init__(self, student: Any, asked: Asked, *, after: Callable[[], None], clock: Clock) -> None:
        self._student, self._asked, self._after, self._clock = student, asked, after, clock
        self._loss = loss_for(asked.learnt)
        self.steps, self.cut_short = 0, False
        self.best, self.kept = self._apart(), copy.deepcopy(student.state_dict())

    def run(self, *, epochs: float, until: float, rate: float, seed: int) -> None:
        learnt = self._asked.learnt
        size = _at_once(learnt.rows)
        steps = max(1, round(epochs * learnt.rows / size))
        pictures = any(one.dim() == 4 and one.is_floating_point() for one in learnt.inputs)
        optimiser = torch.optim.AdamW(self._student.parameters(), lr=rate, weight_decay=1e-4)
        # Channels last: on a CPU, too, convolutions are trained a third faster so.
        wishes = Wishes(strategy="single", profile="off", loader_workers=0, channels_last=pictures)
        session = Session(wishes, saves=Saves(at_all=False), say=lambda _: None)
        session.prepare(self._student, optimiser)
        self._student.train()
        began = self._clock()
        for step, chosen in enumerate(_batches(learnt.rows, size, seed), 1):
            if step == _TIMED[0]:
                began = self._clock()
            elif step == _TIMED[1]:
                each = (self._clock() - began) / (_TIMED[1] - _TIMED[0])
                steps = self._shortened(step, steps, int((until - self._clock()) / max(each, 1e-6)))
            _set_rate(optimiser, rate, step, steps)
            loss = session.backward(self._loss, *learnt.batch(chosen))
            nn.utils.clip_grad_norm_(self._student.parameters(), 1.0)
            session.update(loss)
            self.steps += 1
            self._after()
            late = step >= _TIMED[1] and self._clock() > until
            if step >= steps or late:
                self.cut_short |= step < steps
                break
            if step % max(1, steps // _LOOKS) == 0:
                self._look()
        session.finish()
        self._look()

    def end(self) -> None:
        self._student.load_state_dict(self.kept)
        self._student.to("cpu", memory_format=torch.contiguous_format).eval()

    def _shortened(self, step: int, steps: int, left: int) -> int:
        if step + left < steps:
            self.cut_short = True
        return max(step, min(steps, step + left))

    def _look(self) -> None:
        now = self._apart()
        if now <= self.best or not math.isfinite(self.best):
            self.best, self.kept = now, copy.deepcopy(self._student.state_dict())
        self._student.train()

    def _apart(self) -> float:
        """The loss on rows apart, as the student would answer."""
        self._student.eval()
        apart, device = self._asked.apart, next(self._student.parameters()).device
        with torch.no_grad():
            parts = torch.arange(apart.rows).split(_MOST_AT_ONCE)
            batches = ([one.to(device) for one in apart.batch(chosen)] for chosen in parts)
            losses = [float(self._loss(self._student, *batch)) for batch in batches]
        return sum(loss * len(chosen) for loss, chosen in zip(losses, parts, strict=True)) / apart.rows


def _at_once(rows: int) -> int:
    """A power of two."""
    return max(_FEWEST_AT_ONCE, min(_MOST_AT_ONCE, 1 << max(0, (rows // _BATCHES).bit_length() - 1)))


def _batches(rows: int, size: int, seed: int) -> Iterator[Any]:
    """For ever."""
    random = torch.Generator().manual_seed(seed)
    while True:
        for chosen in torch.randperm(rows, generator=random).split(size):
            if len(chosen) == min(size, rows):
                yield chosen


def _set_rate(optimiser: Any, rate: float, step: int, steps: int) -> None:
    """Warm at first, then down to nothing by a cosine."""
    for group in optimiser.param_groups:
        group["lr"] = rate * min(1.0, step / _WARM) * (0.5 + 0.5 * math.cos(math.pi * (step - 1) / steps))
