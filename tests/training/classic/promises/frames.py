"""What pandas, Arrow and Optuna are needed for."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from lightgbm import LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from falaj.training.checks import check, profile
from falaj.training.classic import export, fit, space_of, tuned
from falaj.training.telling import NoRun


def _patients(rows: int = 300, seed: int = 1) -> tuple[pd.DataFrame, pd.Series]:
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.integers(20, 90, rows),
            "dose": random.normal(size=rows),
            "ward": random.choice(["a", "b", "c"], rows),
        }
    )
    chance = 1 / (1 + np.exp(-(table["dose"] + (table["ward"] == "b"))))
    return table, pd.Series(np.where(random.random(rows) < chance, "yes", "no"))


def columns_with_texts_become_inputs_of_their_own_and_answer_alike(folder: Path) -> None:
    table, truth = _patients()
    encoded = make_column_transformer((StandardScaler(), ["age", "dose"]), (OneHotEncoder(), ["ward"]))
    fitted = fit(make_pipeline(encoded, LogisticRegression()), table, truth, threads=1, run=NoRun())
    made = export(fitted, run=NoRun())
    assert made.apart < 1e-5
    assert made.words.startswith("columns apart")
    inputs = json.loads(yaml.safe_load(made.description)["signature"]["inputs"])
    assert [(one["name"], one["type"]) for one in inputs] == [("age", "long"), ("dose", "double"), ("ward", "string")]
    assert max(fitted.importance, key=fitted.importance.get) in ("standardscaler__dose", "onehotencoder__ward_b")


def frames_and_arrow_tables_are_checked_like_dictionaries(folder: Path) -> None:
    table, truth = _patients()
    whole = table.assign(target=truth, day=pd.date_range("2026-01-01", periods=len(table)))
    whole.loc[3, "dose"], whole.loc[5, "ward"] = None, None
    plain = {name: whole[name].to_numpy() for name in whole}
    found = [
        check(whole[:200], whole[200:], time="day", run=NoRun()),
        check(
            pa.Table.from_pandas(whole[:200]), pa.Table.from_pandas(whole[200:], preserve_index=False), time="day", run=NoRun()
        ),
        check(
            {name: rows[:200] for name, rows in plain.items()}, {name: rows[200:] for name, rows in plain.items()}, time="day"
        ),
    ]
    assert found[0] == found[1] == found[2]
    assert found[0].of("leakage.time")[0].severity == "fine"
    nullable = whole.convert_dtypes()
    assert profile(nullable).as_document() == profile(whole).as_document()


def a_tuned_model_does_no_worse_than_what_its_trials_found(folder: Path) -> None:
    table, truth = load_diabetes(return_X_y=True)
    model = LGBMRegressor(n_estimators=40, verbose=-1)
    how = {"folds": 3, "early_stopping": 5, "threads": 1, "run": NoRun()}
    found = tuned(model, table, truth, trials=5, **how)
    complete = [trial.values[0] for trial in found.search.trials if trial.state == "complete"]
    assert len(found.search.trials) == 5
    assert np.isclose(found.fitted.figures["rmse"].at, min(complete))
    assert found.fitted.model.get_params()["num_leaves"] == found.parameters["num_leaves"]
    assert "The best of 5 trials" in found.fitted.explain()
    assert set(found.parameters) == set(space_of(model))
