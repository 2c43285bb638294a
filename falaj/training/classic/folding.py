"""Fitting a part of the rows and testing another, fold after fold, or side by side where a model keeps one core busy alone."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from falaj.base.values import value
from falaj.training.classic import boosters, estimators, rows, scores
from falaj.training.classic.boosters import Stopped
from falaj.training.classic.scores import Predictions, Score
from falaj.training.classic.splits import Rows, Split, Task

WORTH_A_THREAD: Final = 0.5  # seconds of one fold


@value
class Fold:
    """One part that was tested: its rows, what was predicted for them, the figures."""

    tested: Rows
    trained: int
    predictions: Predictions
    figures: Mapping[str, float]
    rounds: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@value
class Work:
    """What there is to fit, on which rows, and how it is judged."""

    model: Any
    table: Any
    truth: NDArray[Any]
    task: Task
    classes: NDArray[Any] | None
    split: Split
    cores: int
    seed: int
    patience: int = 0  # rounds that a booster may go on without getting better; 0 lets it go to its end
    scores: tuple[Score, ...] = ()

    def fitted(self, chosen: Rows, apart: tuple[Any, Any] | None = None, rounds: int = 0) -> tuple[Any, Stopped | None]:
        """A new model of these rows. A booster is stopped on rows `apart`, on a fifth of these where none are given, or after
        so many rounds."""
        model = estimators.prepared(self.model, self.cores, self.seed)
        with estimators.threads(self.cores):
            if boosters.booster_of(model) is None or (not self.patience and apart is None):
                model.fit(self._rows(chosen), self.truth[chosen])
                return model, None
            if rounds:
                boosters.with_rounds(model, rounds).fit(self._rows(chosen), self.truth[chosen])
                return model, None
            if apart is None:
                chosen, held = self.split.held_out(chosen)
                apart = self._rows(held), self.truth[held]
            train = self._rows(chosen), self.truth[chosen]
            return model, boosters.stopped(model, train, apart, self.patience)

    def fold(self, train: Rows, test: Rows) -> Fold:
        began, cpu = time.perf_counter(), time.process_time()
        model, stopped = self.fitted(train)
        with estimators.threads(self.cores):
            found = scores.predicted(model, self._rows(test), self.classes)
        return Fold(
            tested=test,
            trained=len(train),
            predictions=found,
            figures={score.name: score.figure(self.truth[test], found) for score in self.scores},
            rounds=stopped.best if stopped else 0,
            seconds=time.perf_counter() - began,
            cpu_seconds=time.process_time() - cpu,
        )

    def _rows(self, chosen: Rows) -> Any:
        whole = len(chosen) == len(self.truth) and np.array_equal(chosen, np.arange(len(chosen)))
        return self.table if whole else rows.take(self.table, chosen)


def folds(work: Work, worth: float = WORTH_A_THREAD) -> Iterator[Fold]:
    """The first fold shows whether the model fills the cores by itself; where it does not, the others go side by side.

    In threads, for scikit-learn computes outside of Python's lock: processes would copy the rows, and need a main module that
    can be imported twice.
    """
    parts = list(work.split.parts())
    first = work.fold(*parts[0])
    yield first
    alone = first.cpu_seconds < 1.3 * first.seconds
    if work.cores > 1 and len(parts) > 2 and alone and first.seconds >= worth:
        one = replace(work, cores=1)
        with estimators.threads(1), ThreadPoolExecutor(min(work.cores, len(parts) - 1)) as beside:
            yield from beside.map(lambda part: one.fold(*part), parts[1:])
        return
    for part in parts[1:]:
        yield work.fold(*part)
