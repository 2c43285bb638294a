"""Which rows are trained on and which are tested: the way of splitting that does not tell the model what it should guess."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from falaj.base.errors import Invalid
from falaj.base.values import value

Rows = NDArray[np.int64]
Task = Literal["binary", "classes", "numbers"]
HELD_OUT: Final = 5  # one row of so many says when to stop


@value
class Split:
    """How rows are split, and why so. Numbers of rows are those of the whole table throughout."""

    name: str
    why: str
    folds: int
    seed: int
    truth: NDArray[Any]
    groups: NDArray[Any] | None = None
    time: NDArray[Any] | None = None

    def parts(self, rows: Rows | None = None, folds: int = 0) -> Iterator[tuple[Rows, Rows]]:
        """Rows to train on and rows to test, fold by fold."""
        rows, folds = np.arange(len(self.truth)) if rows is None else rows, folds or self.folds
        if folds == 1:
            yield self.held_out(rows)
            return
        cut = self._forward(rows, folds) if self.time is not None else self._shuffled(rows, folds)
        for train, test in cut:
            if not len(train) or not len(test):
                raise Invalid(f"{len(rows)} rows cannot be split {folds} times ({self.name}): ask for fewer folds")
            yield rows[train], rows[test]

    def held_out(self, rows: Rows) -> tuple[Rows, Rows]:
        """One fifth of the rows apart, by the same rule: the latest ones, whole groups, or the same shares of classes."""
        return list(self.parts(rows, HELD_OUT))[-1]

    def _shuffled(self, rows: Rows, folds: int) -> Iterator[tuple[Rows, Rows]]:
        truth, groups = self.truth[rows], None if self.groups is None else self.groups[rows]
        how: dict[str, Any] = {"shuffle": True, "random_state": self.seed}
        by_class = "stratified" in self.name and np.unique(truth, return_counts=True)[1].min() >= folds
        if groups is not None:
            folds = min(folds, len(np.unique(groups)))
            return (StratifiedGroupKFold if by_class else GroupKFold)(folds, **how).split(rows, truth, groups)  # type: ignore[no-any-return]
        return (StratifiedKFold if by_class else KFold)(folds, **how).split(rows, truth)  # type: ignore[no-any-return]

    def _forward(self, rows: Rows, folds: int) -> Iterator[tuple[Rows, Rows]]:
        """Each part is tested by a model of everything before it. What happened at one moment stays together."""
        moments = self.time[rows] if self.time is not None else rows
        order = np.argsort(moments, kind="stable")
        edges = np.unique([moments[order[len(rows) * cut // (folds + 1)]] for cut in range(1, folds + 1)])
        block = np.searchsorted(edges, moments, side="right")
        for number in range(1, len(edges) + 1):
            train, test = np.flatnonzero(block < number), np.flatnonzero(block == number)
            if self.groups is not None:
                own = self.groups[rows]
                train = train[~np.isin(own[train], own[test])]
            yield train, test


def choose(
    task: Task, truth: NDArray[Any], groups: NDArray[Any] | None, time: NDArray[Any] | None, folds: int, seed: int
) -> Split:
    """The strictest that what is known of the rows asks for."""
    name, why = "plain", "numbers are predicted, and nothing ties rows to each other"
    if task != "numbers":
        rarest = int(np.unique(truth, return_counts=True)[1].min())
        name, why = "stratified", "every fold has the same shares of classes"
        if rarest < max(2, folds):
            name, why = "plain", f"the rarest class has {rarest} rows, fewer than there are folds"
    if groups is not None:
        distinct = len(np.unique(groups))
        if distinct < max(2, folds):
            raise Invalid(f"{distinct} groups cannot be tested in {folds} folds: a group is trained on or tested, never both")
        name = "stratified and grouped" if name == "stratified" else "grouped"
        why = f"rows of one of the {distinct} groups are never on both sides" + (", " + why if name != "grouped" else "")
    if time is not None:
        name, why = "forward in time", "each part is predicted from what came before it, as it will be in use"
        if groups is not None:
            why += "; of the groups in it, nothing is trained on"
    return Split(name=name, why=why, folds=folds, seed=seed, truth=truth, groups=groups, time=time)
