"""Autologging of scikit-learn, LightGBM and XGBoost: nothing is said by hand, and all of it arrives."""

import lightgbm
import mlflow
import numpy as np
import xgboost
from mlflow import MlflowClient
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

# It loads each model again in a process of its own, which takes seconds and says nothing to the server.
mlflow.models.infer_pip_requirements = lambda *_, **__: []
client = MlflowClient()
THREE = mlflow.__version__.startswith("3")
chance = np.random.default_rng(7)
rows = chance.normal(size=(60, 4))
labels = (rows[:, 0] > 0).astype(int)


def made_models(run):
    """The model's own files: in 3.x below the logged model, in 2.x below the run."""
    if THREE:
        return [output.model_id for output in run.outputs.model_outputs]
    return [entry.path for entry in client.list_artifacts(run.info.run_id) if entry.is_dir]


mlflow.set_experiment("autologged")
mlflow.autolog(log_input_examples=True, silent=False)

with mlflow.start_run(run_name="sklearn") as run:
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2).fit(rows, labels)
    search.best_estimator_.score(rows, labels)
found = client.get_run(run.info.run_id)
assert found.data.params["best_C"] in ("0.1", "1.0")
assert found.data.metrics["training_accuracy_score"] > 0.8
assert found.data.tags["estimator_name"] == "GridSearchCV"
assert len(made_models(found)) == 2
assert {tag.value for used in found.inputs.dataset_inputs for tag in used.tags} >= {"train"}
children = client.search_runs([found.info.experiment_id], f"tags.mlflow.parentRunId = '{run.info.run_id}'")
assert sorted(child.data.params["C"] for child in children) == ["0.1", "1.0"]
assert "cv_results.csv" in {entry.path for entry in client.list_artifacts(run.info.run_id)}

with mlflow.start_run(run_name="lightgbm") as run:
    train = lightgbm.Dataset(rows, labels)
    lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_leaves": 4, "metric": "binary_logloss"},
        train,
        num_boost_round=5,
        valid_sets=[train],
        valid_names=["train"],
    )
found = client.get_run(run.info.run_id)
assert found.data.params["num_leaves"] == "4"
assert [point.step for point in client.get_metric_history(run.info.run_id, "train-binary_logloss")] == list(range(5))
assert len(made_models(found)) == 1
assert "feature_importance_gain.json" in {entry.path for entry in client.list_artifacts(run.info.run_id)}

with mlflow.start_run(run_name="xgboost") as run:
    data = xgboost.DMatrix(rows, labels)
    xgboost.train({"objective": "binary:logistic", "max_depth": 2}, data, num_boost_round=4, evals=[(data, "train")])
found = client.get_run(run.info.run_id)
assert found.data.params["max_depth"] == "2"
assert [point.step for point in client.get_metric_history(run.info.run_id, "train-logloss")] == list(range(4))
assert len(made_models(found)) == 1

if THREE:
    [model] = client.search_logged_models([found.info.experiment_id], filter_string=f"source_run_id = '{run.info.run_id}'")
    assert model.status.value == "READY"
    assert model.name == "model"
print("done")
