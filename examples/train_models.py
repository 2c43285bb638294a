"""A data scientist's script, as written for any MLflow server: a model is fitted and tracked; the better two are registered.

    python train_models.py fit logistic
    python train_models.py register

Nothing in it knows Falaj. It finds the address and the token in the variables that the stock `mlflow` client reads,
MLFLOW_TRACKING_URI and MLFLOW_TRACKING_TOKEN; as a job of Falaj's it has them, and the run that it writes to.
"""

import json
import logging
import sys
import warnings

import mlflow
from mlflow.models import infer_signature
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

EXPERIMENT = "tumours"
MODEL = "tumour-check"
CANDIDATES = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.02, max_iter=500)),
    "forest": RandomForestClassifier(n_estimators=300, max_depth=3, random_state=7),
    "boosting": GradientBoostingClassifier(n_estimators=60, max_depth=3, random_state=7),
}

data = load_breast_cancer(as_frame=True)
rows = data.frame.drop(columns="target").astype("float32")
train, test, train_truth, test_truth = train_test_split(rows, data.target, test_size=0.3, random_state=7)


def fit(name: str) -> None:
    model = CANDIDATES[name]
    mlflow.set_experiment(EXPERIMENT)
    with mlflow.start_run(run_name=name) as run:
        mlflow.log_input(mlflow.data.from_pandas(data.frame, name="breast-cancer", targets="target"), context="training")
        mlflow.log_params({"algorithm": type(model).__name__, "rows": len(train)})
        model.fit(train, train_truth)
        for step, share in enumerate((0.25, 0.5, 0.75, 1.0)):  # a small curve to look at
            part = slice(None, int(len(test) * share))
            mlflow.log_metric("auc", roc_auc_score(test_truth[part], model.predict_proba(test[part])[:, 1]), step=step)
        mlflow.log_metric("loss", log_loss(test_truth, model.predict_proba(test)))
        onnx = to_onnx(model, train[:1].to_numpy(), options={"zipmap": False})
        signature = infer_signature(train[:5], model.predict(train[:5]))
        mlflow.onnx.log_model(onnx, name="model", signature=signature)
        print(f"{name:<9} auc {mlflow.get_run(run.info.run_id).data.metrics['auc']:.4f}")


def register() -> None:
    runs = mlflow.search_runs(experiment_names=[EXPERIMENT], output_format="list")
    logged = {run.info.run_name: run.outputs.model_outputs[-1].model_id for run in runs}
    versions = {name: mlflow.register_model(f"models:/{logged[name]}", MODEL).version for name in ("logistic", "boosting")}
    print(json.dumps({"model": MODEL, "versions": versions, "patients": test[:3].to_dict(orient="records")}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if sys.argv[1] == "fit":
        fit(sys.argv[2])
    else:
        register()
