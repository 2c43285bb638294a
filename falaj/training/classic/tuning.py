"""`tuned`: a model with the parameters that do best over the folds, found by `falaj.training.search`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from falaj.base.values import value
from falaj.training.classic import estimators, fitting, folding, scores, spaces
from falaj.training.classic.fitting import PATIENCE, Fitted
from falaj.training.classic.folding import Work
from falaj.training.classic.scores import Figure
from falaj.training.search.local import Attempt, Result, tune
from falaj.training.search.stopping import Limits
from falaj.training.telling import Run


@value
class Tuned:
    """The fitted model, and the search that chose its parameters."""

    fitted: Fitted
    parameters: Mapping[str, Any]
    search: Result


def tuned(
    model: Any,
    table: Any,
    truth: Any,
    *,
    trials: int = 50,
    space: Mapping[str, str | Sequence[Any]] | None = None,
    seconds: float = 0.0,
    metrics: Sequence[str] | Mapping[str, Figure] | None = None,
    folds: int = 5,
    groups: Any = None,
    time: Any = None,
    early_stopping: int | None = PATIENCE,
    refit: bool = True,
    seed: int = 0,
    threads: int | None = None,
    journal: str | None = None,
    run: Run | None = None,
) -> Tuned:
    """Like `fit`, with the best of `trials` sets of parameters from `space`, or from what is worth trying for this model.

    The first figure decides, over the same folds for all. A trial that is behind after some folds is given up. With a
    `journal` the search goes on where it was killed.
    """
    estimators.check(model)
    wanted = dict(spaces.space_of(model) if space is None else space)
    work = fitting.work_of(model, table, truth, groups, time, folds=folds or 1, seed=seed, threads=threads)
    judges = scores.scores(metrics, work.task, probable=hasattr(model, "predict_proba"))
    work = replace(work, patience=early_stopping or 0, scores=tuple(judges))
    deciding = judges[0]

    def tried(attempt: Attempt) -> float:
        return _over_folds(replace(work, model=clone(model).set_params(**attempt)), attempt)

    found = tune(
        tried,
        wanted,
        metrics=f"{deciding.name}:{'max' if deciding.higher else 'min'}",
        limits=Limits(trials=trials, seconds=seconds),
        pruner="median" if folds > 1 else "none",
        seed=seed,
        journal=journal,
    )
    best = dict(found.best[0].params)
    fitted = fitting.fit(
        clone(model).set_params(**best),
        table,
        truth,
        metrics=metrics,
        folds=folds,
        groups=groups,
        time=time,
        early_stopping=early_stopping,
        refit=refit,
        seed=seed,
        threads=threads,
        run=run,
        notes=[f"The best of {len(found.trials)} trials, by the folds that it is judged by: figures are a little too good."],
    )
    return Tuned(fitted=fitted, parameters=best, search=found)


def _over_folds(work: Work, attempt: Attempt) -> float:
    """The mean of the deciding figure, told fold by fold."""
    name, so_far = work.scores[0].name, []
    for step, fold in enumerate(folding.folds(work)):
        if np.isfinite(fold.figures[name]):
            so_far.append(fold.figures[name])
            attempt.report(step, float(np.mean(so_far)))
    return float(np.mean(so_far)) if so_far else float("nan")
