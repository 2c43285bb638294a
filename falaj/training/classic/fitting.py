"""`fit`: a model cross-validated the right way, stopped in time, fitted on every core, and told to its run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.statistics.intervals import Interval, bootstrap, by_blocks, mean_of_folds
from falaj.training.classic import boosters, cores, estimators, folding, importances, recording, rows, scores, splits
from falaj.training.classic.boosters import Stopped
from falaj.training.classic.folding import Fold, Work
from falaj.training.classic.scores import Figure, Predictions, Score
from falaj.training.classic.splits import Rows, Split, Task
from falaj.training.telling import Run

SAMPLE: Final = 1000  # rows that are kept beside the model, to hold what it becomes against it
PATIENCE: Final = 50
_FEW: Final = 1000  # rows that can be drawn again hundreds of times


@value
class Fitted:
    """A model, and what is known of it. `figures` are of rows that the model had not seen, with intervals of 95 %."""

    model: Any
    task: Task
    split: Split
    folds: tuple[Fold, ...]
    figures: Mapping[str, Interval]
    cores: int
    rounds: int  # of boosting; 0 for other models
    curves: Mapping[str, Sequence[float]]
    importance: Mapping[str, float]
    sample: Any
    notes: tuple[str, ...] = ()

    def predict(self, table: Any) -> Any:
        return self.model.predict(table)

    def predict_proba(self, table: Any) -> Any:
        return self.model.predict_proba(table)

    def explain(self) -> str:
        return "\n".join(self.notes)

    @property
    def out_of_fold(self) -> tuple[Rows, NDArray[Any]]:
        """Rows that were tested, and what a model that had not seen them said: probabilities where there are any."""
        if not self.folds:
            raise Invalid("nothing was tested: fit with folds=5")
        found = [fold.predictions for fold in self.folds]
        said = [one.labels if one.probabilities is None else one.probabilities for one in found]
        return np.concatenate([fold.tested for fold in self.folds]), np.concatenate(said)


def fit(
    model: Any,
    table: Any,
    truth: Any,
    *,
    validation: tuple[Any, Any] | None = None,
    metrics: Sequence[str] | Mapping[str, Figure] | None = None,
    folds: int = 5,
    groups: Any = None,
    time: Any = None,
    early_stopping: int | None = PATIENCE,
    refit: bool = False,
    seed: int = 0,
    threads: int | None = None,
    run: Run | None = None,
    notes: Sequence[str] = (),
) -> Fitted:
    """Fit `model`, a scikit-learn estimator or pipeline or a booster by LightGBM or XGBoost, and say how good it is.

    `folds` parts are tested by models of the others: 1 tests a fifth of the rows, 0 none. `groups` and `time`, one value a
    row, say what ties rows to each other. A booster stops when rows apart (`validation`, or a fifth of those it is given) were
    not predicted better for `early_stopping` rounds; None leaves it all its rounds. `refit` fits all rows again with the
    rounds that were found. In a job, all of it is told to the job's run, or to `run`, with `notes` before its own.
    """
    if refit and validation is not None:
        raise Invalid("`refit` is for rows held out of the table: leave it out where you give rows for validation yourself")
    work = work_of(model, table, truth, groups, time, folds=folds, seed=seed, threads=threads)
    wanted = scores.scores(metrics, work.task, probable=hasattr(model, "predict_proba"))
    work = replace(work, patience=early_stopping or 0, scores=tuple(wanted))
    tested = tuple(folding.folds(work)) if folds else ()
    made, stopped, rounds = _final(work, validation, tested, refit=refit)
    fitted = Fitted(
        model=made,
        task=work.task,
        split=work.split,
        folds=tested,
        figures=_figures(work, tested) if tested or validation is None else _validated(work, made, *validation),
        cores=work.cores,
        rounds=rounds,
        curves=stopped.curves if stopped else {},
        importance=importances.of(made, table),
        sample=rows.take(table, np.linspace(0, len(work.truth) - 1, min(len(work.truth), SAMPLE)).astype(np.int64)),
    )
    fitted = replace(fitted, notes=(*notes, *_notes(work, fitted, stopped, refit=refit, validated=validation is not None)))
    recording.record(fitted, run)
    return fitted


def work_of(model: Any, table: Any, truth: Any, groups: Any, time: Any, *, folds: int, seed: int, threads: int | None) -> Work:
    if folds < 0 or (threads or 0) < 0:
        raise Invalid(f"{folds} folds and {threads or 'all'} threads were asked for: give numbers from 0 on")
    estimators.check(model)
    count = rows.count(table)
    known = rows.flat(truth, "truth", count)
    if missing := rows.missing(known):
        raise Invalid(f"the truth is missing in {missing} of {count} rows: leave those out")
    task = _task(model, known)
    grouped = None if groups is None else rows.flat(groups, "groups", count)
    timed = None if time is None else rows.flat(time, "time", count)
    return Work(
        model=model,
        table=table,
        truth=known,
        task=task,
        classes=None if task == "numbers" else np.unique(known),
        split=splits.choose(task, known, grouped, timed, folds, seed),
        cores=threads or cores.available(),
        seed=seed,
    )


def _task(model: Any, truth: NDArray[Any]) -> Task:
    if not is_classifier(estimators.last(model)):
        if truth.dtype.kind not in "biuf":
            raise Invalid(f"{type(estimators.last(model)).__name__} predicts numbers, and the truth is of {truth.dtype}")
        return "numbers"
    classes = len(np.unique(truth))
    if classes < 2:
        raise Invalid(f"the truth has one value alone in {len(truth)} rows: there is nothing to tell apart")
    return "binary" if classes == 2 else "classes"


def _final(work: Work, validation: Any, tested: tuple[Fold, ...], *, refit: bool) -> tuple[Any, Stopped | None, int]:
    """The model that is kept, how its rounds were found, and how many it has."""
    everything = np.arange(len(work.truth))
    if boosters.booster_of(work.model) is None:
        return work.fitted(everything)[0], None, 0
    if validation is not None:
        apart = validation[0], rows.flat(validation[1], "validation", rows.count(validation[0]))
        model, stopped = work.fitted(everything, apart)
    elif refit and work.patience and tested:
        best = int(np.median([fold.rounds for fold in tested]))
        return work.fitted(everything, rounds=best)[0], None, best
    else:
        model, stopped = work.fitted(everything)
        if refit and stopped is not None:
            return work.fitted(everything, rounds=stopped.best)[0], stopped, stopped.best
    return model, stopped, stopped.best if stopped else boosters.rounds_of(model)


def _figures(work: Work, tested: tuple[Fold, ...]) -> dict[str, Interval]:
    """Means over folds; of one fold alone, or of validation's rows, by the spread within it."""
    if len(tested) == 1:
        return _of_rows(work, work.truth[tested[0].tested], tested[0].predictions)
    share = float(np.mean([len(fold.tested) / fold.trained for fold in tested])) if tested else 0.0
    found = {}
    for score in work.scores if tested else ():
        figures = [fold.figures[score.name] for fold in tested]
        found[score.name] = score.possible(mean_of_folds([one for one in figures if np.isfinite(one)], share))
    return found


def _validated(work: Work, model: Any, table: Any, truth: Any) -> dict[str, Interval]:
    known = rows.flat(truth, "validation", rows.count(table))
    return _of_rows(work, known, scores.predicted(model, table, work.classes))


def _of_rows(work: Work, truth: NDArray[Any], predictions: Predictions) -> dict[str, Interval]:
    found = {}
    for score in work.scores:

        def figure(which: Rows, score: Score = score) -> float:
            return score.figure(truth[which], predictions.of(which))

        drawn = bootstrap if len(truth) < _FEW else by_blocks
        found[score.name] = score.possible(drawn(figure, len(truth), seed=work.seed))
    return found


def _notes(work: Work, fitted: Fitted, stopped: Stopped | None, *, refit: bool, validated: bool) -> list[str]:
    """Sentences for the run's page: what was decided, why, and what came of it."""
    split, tested, found = work.split, fitted.folds, []
    if tested:
        count = f"{len(tested)} folds" if len(tested) > 1 else "a fifth of the rows"
        found.append(f"Tested on {count}, {split.name}: {split.why}.")
    elif validated:
        too_good = ", which also said when to stop: figures are a little too good" if stopped and work.patience else ""
        found.append(f"Tested on the rows for validation{too_good}.")
    else:
        found.append("Not tested: no folds were asked for.")
    if fitted.rounds and work.patience:
        where = "the rows for validation" if validated else "a fifth of the rows, held out by the same rule"
        if refit and tested:
            found.append(f"{fitted.rounds} rounds, the median of the folds' best, fitted on all rows.")
        elif stopped is not None:
            again = "; fitted again on all rows with so many" if refit else ""
            found.append(f"{fitted.rounds} of {stopped.tried} rounds count, the best on {where}{again}.")
    why = ", as many as the physical cores that this process was given" if work.cores == cores.available() else ""
    found.append(f"Threads: {work.cores}{why}.")
    missing = [name for name, figure in fitted.figures.items() if not np.isfinite(figure.at)]
    if missing:
        found.append(f"No fold could be judged by {', '.join(missing)}: each lacks one of the classes.")
    return found + [f"{name}: {figure}." for name, figure in fitted.figures.items() if name not in missing]
