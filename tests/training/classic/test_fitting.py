"""`fit`, with the models that people use. One thread each: tests share the machine."""

import csv
import functools
from pathlib import Path

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier, XGBRegressor

from falaj.base.errors import Invalid
from falaj.training.classic import fit, tuned
from falaj.training.classic.estimators import prepared
from falaj.training.classic.fitting import work_of
from falaj.training.classic.folding import folds

TUMOURS = load_breast_cancer(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
SCALED = make_pipeline(StandardScaler(), LogisticRegression())
BOOSTERS = [
    LGBMClassifier(n_estimators=60, learning_rate=0.3, verbose=-1),
    XGBClassifier(n_estimators=60, learning_rate=0.5),
    HistGradientBoostingClassifier(max_iter=60, learning_rate=0.5),
    make_pipeline(StandardScaler(), LGBMClassifier(n_estimators=60, learning_rate=0.3, verbose=-1)),
]


class Told:
    """A run that remembers."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[int, float]] = {}
        self.given: dict[str, object] = {}
        self.said: dict[str, str] = {}
        self.files: dict[str, str] = {}

    def figures(self, figures, step=0):
        for name, figure in figures.items():
            self.seen.setdefault(name, {})[step] = figure

    def parameters(self, parameters):
        self.given |= parameters

    def words(self, words):
        self.said |= words

    def file(self, path: Path, name: str):
        self.files[name] = path.read_text()

    def close(self):
        raise AssertionError("whoever brought the run closes it")


def test_a_pipeline_is_cross_validated_and_told_to_its_run():
    run = Told()
    fitted = fit(SCALED, *TUMOURS, threads=1, run=run)
    assert fitted.figures["auc"].low < 0.99 < fitted.figures["auc"].at < fitted.figures["auc"].high <= 1
    assert run.seen["auc"][0] == fitted.figures["auc"].at
    assert np.mean(list(run.seen["fold/auc"].values())) == pytest.approx(fitted.figures["auc"].at)
    assert sorted(run.seen["fold/auc"]) == [0, 1, 2, 3, 4]
    assert (run.given["model"], run.given["logisticregression__C"]) == ("Pipeline", "1.0")
    assert run.said["falaj.training.split"] == "stratified"
    assert "Tested on 5 folds, stratified" in run.said["falaj.training.fit"]
    shares = [float(row["share"]) for row in csv.DictReader(run.files["importance.csv"].splitlines())]
    assert (len(shares), sum(shares)) == (30, pytest.approx(1))


@pytest.mark.parametrize("model", BOOSTERS, ids=["lightgbm", "xgboost", "histograms", "pipeline"])
def test_a_booster_stops_at_its_best_round_and_predicts_with_that(model):
    run = Told()
    fitted = fit(model, *TUMOURS, folds=0, early_stopping=5, threads=1, run=run)
    (curve,) = [seen for name, seen in run.seen.items() if name.startswith("rounds/")]
    best = max if "rounds/score" in run.seen else min
    assert 1 < fitted.rounds < len(curve) <= 60
    assert curve[fitted.rounds] == best(curve.values())
    # As if it had been told the number beforehand.
    kept, _ = fitted.split.held_out(np.arange(len(TUMOURS[1])))
    last = "lgbmclassifier__" if hasattr(model, "steps") else ""
    rounds = f"{last}{'max_iter' if 'rounds/score' in run.seen else 'n_estimators'}"
    told = prepared(model, 1, 0).set_params(**{rounds: fitted.rounds})
    if "rounds/score" in run.seen:
        told.set_params(early_stopping=False)
    told.fit(TUMOURS[0][kept], TUMOURS[1][kept])
    assert np.allclose(fitted.predict_proba(TUMOURS[0]), told.predict_proba(TUMOURS[0]))


def test_rows_that_are_tested_never_say_when_to_stop(monkeypatch):
    seen = []
    ordinary = LGBMClassifier.fit

    @functools.wraps(ordinary)
    def watched(self, table, truth, **how):
        seen.append((set(map(bytes, table)), set(map(bytes, how["eval_X"]))))
        return ordinary(self, table, truth, **how)

    monkeypatch.setattr(LGBMClassifier, "fit", watched)
    fitted = fit(LGBMClassifier(n_estimators=5, verbose=-1), *TUMOURS, folds=3, threads=1)
    for (trained, apart), fold in zip(seen[:3], fitted.folds, strict=True):
        tested = set(map(bytes, TUMOURS[0][fold.tested]))
        assert not tested & (trained | apart)
        assert not trained & apart


def test_all_rows_are_fitted_again_with_the_rounds_of_the_folds_when_asked():
    fitted = fit(LGBMRegressor(n_estimators=80, verbose=-1), *DIABETES, folds=3, early_stopping=5, refit=True, threads=1)
    assert fitted.rounds == np.median([fold.rounds for fold in fitted.folds])
    again = LGBMRegressor(n_estimators=fitted.rounds, verbose=-1, n_jobs=1, random_state=0).fit(*DIABETES)
    assert np.array_equal(again.predict(DIABETES[0]), fitted.predict(DIABETES[0]))


def test_rows_for_validation_stop_it_and_judge_it():
    table, truth = TUMOURS
    fitted = fit(BOOSTERS[1], table[:400], truth[:400], validation=(table[400:], truth[400:]), folds=0, threads=1)
    assert 0.95 < fitted.figures["auc"].low < fitted.figures["auc"].at
    assert "a little too good" in fitted.explain()
    with pytest.raises(Invalid, match="refit"):
        fit(BOOSTERS[1], table, truth, validation=(table, truth), refit=True)


def test_classes_numbers_groups_and_time_each_have_their_way():
    wine = load_wine(return_X_y=True)
    classes = fit(LGBMClassifier(n_estimators=5, verbose=-1), *wine, folds=2, groups=np.arange(178) // 3, threads=1)
    assert (classes.task, classes.split.name, set(classes.figures)) == (
        "classes",
        "stratified and grouped",
        {"log_loss", "accuracy", "f1"},
    )
    numbers = fit(XGBRegressor(n_estimators=5), *DIABETES, folds=2, time=np.arange(442), metrics=["mae"], threads=1)
    assert (numbers.task, numbers.split.name, set(numbers.figures)) == ("numbers", "forward in time", {"mae"})
    order, said = numbers.out_of_fold
    assert len(order) == len(said) < 442
    plain = fit(LinearSVC(), TUMOURS[0] / TUMOURS[0].max(axis=0), TUMOURS[1], folds=1, threads=1)
    assert set(plain.figures) == {"accuracy"}
    own = fit(Ridge(), *DIABETES, metrics={"within_50": lambda truth, said: np.mean(np.abs(truth - said) < 50)}, threads=1)
    assert 0.4 < own.figures["within_50"].at < 0.9


def test_the_same_seed_gives_the_same_model():
    model = RandomForestClassifier(5)
    first, second = (fit(model, *TUMOURS, folds=2, seed=3, threads=1) for _ in range(2))
    assert np.array_equal(first.predict_proba(TUMOURS[0]), second.predict_proba(TUMOURS[0]))
    assert first.figures == second.figures
    assert not hasattr(model, "estimators_")


def test_every_core_is_used_once():
    forest = prepared(RandomForestClassifier(), 6, 0)
    assert forest.n_jobs == 6
    assert prepared(RandomForestClassifier(n_jobs=2), 6, 0).n_jobs == 2
    assert prepared(LGBMClassifier(), 6, 0).n_jobs == prepared(XGBClassifier(), 6, 0).n_jobs == 6
    assert prepared(LGBMClassifier(num_threads=3), 6, 0).n_jobs is None
    assert prepared(SCALED, 6, 0).get_params()["logisticregression__n_jobs"] is None
    bagged = prepared(BaggingClassifier(LGBMClassifier()), 6, 0)
    assert (bagged.n_jobs, bagged.estimator.n_jobs) == (6, 1)
    voting = prepared(VotingClassifier([("one", XGBClassifier()), ("two", SCALED)]), 6, 0)
    assert (voting.n_jobs, voting.named_estimators["one"].n_jobs) == (6, 1)
    assert prepared(make_pipeline(StandardScaler(), LGBMClassifier()), 6, 0)[-1].n_jobs == 6


def test_folds_of_a_model_that_keeps_one_core_busy_go_side_by_side_with_the_same_result():
    work = work_of(SCALED, *TUMOURS, None, None, folds=4, seed=0, threads=2)
    alone, beside = list(folds(work)), list(folds(work, worth=0.0))
    assert [list(fold.tested) for fold in alone] == [list(fold.tested) for fold in beside]
    assert all(
        np.allclose(one.predictions.probabilities, other.predictions.probabilities)
        for one, other in zip(alone, beside, strict=True)
    )


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        (np.ones(442), "one value alone"),
        (np.full(442, np.nan), "missing in 442 of 442"),
        (np.zeros(3), "442 rows"),
    ],
)
def test_a_truth_that_cannot_be_learnt_is_refused(truth, words):
    with pytest.raises(Invalid, match=words):
        fit(LogisticRegression(), DIABETES[0], truth)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("abc", "such as LogisticRegression.*'abc' is of type str"),
        (Ridge, r"Ridge is a class: make a model of it, as in fit\(Ridge\(\), \.\.\.\)"),
        (StandardScaler(), "is of type StandardScaler"),
    ],
)
def test_what_is_no_model_is_refused_in_words(model, words):
    with pytest.raises(Invalid, match=words):
        fit(model, *DIABETES)
    with pytest.raises(Invalid, match=words):
        tuned(model, *DIABETES)


@pytest.mark.parametrize("table", ["abc", 5, None])
def test_what_is_no_table_is_refused_in_words(table):
    with pytest.raises(Invalid, match=f"a table is a frame, .* this is of type {type(table).__name__}"):
        fit(Ridge(), table, DIABETES[1])


def test_figures_that_nobody_knows_are_refused_with_those_that_exist():
    with pytest.raises(Invalid, match="no figure is called area: there are accuracy, auc"):
        fit(Ridge(), *DIABETES, metrics=["area"])
    with pytest.raises(Invalid, match="predicts numbers"):
        fit(Ridge(), DIABETES[0], np.array(["a"] * 442))


@pytest.mark.parametrize("wrong", [{"folds": -1}, {"threads": -1}])
@pytest.mark.parametrize("call", [fit, tuned])
def test_fewer_than_no_folds_or_threads_are_refused(call, wrong):
    with pytest.raises(Invalid, match="give numbers from 0 on"):
        call(Ridge(), *DIABETES, **wrong)
