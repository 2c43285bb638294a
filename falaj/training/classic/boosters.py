"""Rounds of boosting: stopped on rows apart, with the curve of every round, and again with a given number of them.

Each library says the same in other words; `BOOSTERS` names them. What stands before a booster in a pipeline is fitted first.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from falaj.base.values import value
from falaj.training.classic.estimators import last

Curves = Mapping[str, Sequence[float]]


@value
class Stopped:
    """How it went: rounds that count, rounds that were tried, and figures by round on the rows apart."""

    best: int
    tried: int
    curves: Curves


@value
class Booster:
    """What one library calls it."""

    rounds: str  # the parameter that says how many
    fit: Callable[[Any, Any, Any, Any, Any, int], Stopped]
    plainly: tuple[tuple[str, object], ...] = ()  # parameters with which it does not look for a place to stop


def booster_of(model: Any) -> Booster | None:
    """None for a model that knows no rounds to stop after."""
    end = last(model)
    found = next((BOOSTERS[one.__name__] for one in type(end).__mro__ if one.__name__ in BOOSTERS), None)
    if found is BOOSTERS["BaseHistGradientBoosting"] and "X_val" not in inspect.signature(end.fit).parameters:
        return None  # before scikit-learn 1.7 it would choose the rows itself, whatever ties them to each other
    return found


def stopped(model: Any, train: tuple[Any, Any], apart: tuple[Any, Any], patience: int) -> Stopped:
    """Fit until the rows apart were not predicted better for `patience` rounds; 0 fits all rounds and looks all the same."""
    booster = booster_of(model)
    assert booster is not None  # nosec B101 - the caller asked first
    table, other = train[0], apart[0]
    if hasattr(model, "steps") and len(model.steps) > 1:
        before = model[:-1]
        table, other = before.fit_transform(table, train[1]), before.transform(other)
    return booster.fit(last(model), table, train[1], other, apart[1], patience)


def with_rounds(model: Any, rounds: int) -> Any:
    """Exactly so many, and no looking for a place to stop."""
    booster = booster_of(model)
    assert booster is not None  # nosec B101 - the caller asked first
    last(model).set_params(**{booster.rounds: rounds, **dict(booster.plainly)})
    return model


def rounds_of(model: Any) -> int:
    booster = booster_of(model)
    said = last(model).get_params()[booster.rounds] if booster else 0
    return 100 if said is None else int(said)  # XGBoost's own number


def _lightgbm(model: Any, table: Any, truth: Any, other: Any, other_truth: Any, patience: int) -> Stopped:
    import lightgbm

    told = [lightgbm.early_stopping(patience, first_metric_only=True, verbose=False)] if patience else []
    looked_at = {"eval_X": other, "eval_y": other_truth}
    if "eval_X" not in inspect.signature(model.fit).parameters:  # before 4.7
        looked_at = {"eval_set": [(other, other_truth)]}
    if not {"verbose", "verbosity"} & set(model.get_params()):
        model.set_params(verbose=-1)  # or else it says at every other tree that nothing is left to split
    model.fit(table, truth, **looked_at, eval_names=["apart"], callbacks=told)
    curves = {name: list(figures) for name, figures in model.evals_result_.get("apart", {}).items()}
    tried = max(map(len, curves.values()), default=model.n_estimators_)
    return Stopped(best=model.best_iteration_ or tried, tried=tried, curves=curves)


def _xgboost(model: Any, table: Any, truth: Any, other: Any, other_truth: Any, patience: int) -> Stopped:
    model.set_params(early_stopping_rounds=patience or None)
    model.fit(table, truth, eval_set=[(other, other_truth)], verbose=False)
    curves = {name: list(figures) for name, figures in model.evals_result()["validation_0"].items()}
    tried = max(map(len, curves.values()))
    return Stopped(best=model.best_iteration + 1 if patience else tried, tried=tried, curves=curves)


def _histograms(model: Any, table: Any, truth: Any, other: Any, other_truth: Any, patience: int) -> Stopped:
    if not patience:
        model.fit(table, truth)
        return Stopped(best=model.n_iter_, tried=model.n_iter_, curves={})
    most = model.max_iter
    model.set_params(early_stopping=True, n_iter_no_change=patience)
    model.fit(table, truth, X_val=other, y_val=other_truth)
    scores, tried = [float(score) for score in model.validation_score_], model.n_iter_
    best = max(1, scores.index(max(scores)))  # the first is before any round
    if best < tried:  # it predicts with all of them, so those after the best are left out by fitting again
        model.set_params(early_stopping=False, max_iter=best).fit(table, truth)
        model.set_params(max_iter=most)
    return Stopped(best=best, tried=tried, curves={"score": scores[1:]})


BOOSTERS: Final[Mapping[str, Booster]] = {
    "LGBMModel": Booster(rounds="n_estimators", fit=_lightgbm),
    "XGBModel": Booster(rounds="n_estimators", fit=_xgboost, plainly=(("early_stopping_rounds", None),)),
    "BaseHistGradientBoosting": Booster(rounds="max_iter", fit=_histograms, plainly=(("early_stopping", False),)),
}
