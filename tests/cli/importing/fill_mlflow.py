"""Fills an MLflow with a bit of everything. Run by a stock MLflow's own Python: fill_mlflow.py TRACKING_URI FOLDER.

Prints what it made as JSON. Nothing of Falaj is imported here.
"""

import json
import sys
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

NOW = 1_760_000_000_000  # milliseconds; times must come over as they are
POINTS = 2500


def main(uri: str, folder: Path) -> None:
    client = MlflowClient(tracking_uri=uri)
    fraud = client.create_experiment("card fraud", tags={"team": "risk", "mlflow.note.content": "All of *2025*."})
    best = trained(client, fraud, folder)
    odd(client, fraud)
    child = client.create_run(fraud, run_name="child", tags={"mlflow.parentRunId": best}, start_time=NOW + 1)
    client.log_metric(child.info.run_id, "auc", 0.5, timestamp=NOW, step=0)
    deleted = client.create_run(fraud, run_name="deleted", start_time=NOW + 2).info.run_id
    client.log_metric(deleted, "auc", 0.1, timestamp=NOW, step=0)
    client.log_artifact(deleted, str(made(folder / "gone.txt", "gone but kept")))
    client.delete_run(deleted)
    client.log_param(client.create_run("0", run_name="in the default one", start_time=NOW).info.run_id, "depth", "3")
    old = client.create_experiment("last year's")
    client.create_run(old, run_name="old", start_time=NOW - 1000)
    client.delete_experiment(old)
    logged = logged_model(client, fraud, best, folder)
    registered(client, best, logged)
    print(json.dumps({"fraud": fraud, "best": best, "child": child.info.run_id, "deleted": deleted, "logged": logged}))


def made(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def trained(client: MlflowClient, experiment: str, folder: Path) -> str:
    """A finished run with long curves, parameters, tags, data and files."""
    run = client.create_run(experiment, run_name="best", start_time=NOW, tags={"mlflow.user": "maryam"}).info.run_id
    curve = [Metric("loss", 1.0 / (step + 1), NOW + step, step) for step in range(POINTS)]
    for first in range(0, POINTS, 1000):
        client.log_batch(run, metrics=curve[first : first + 1000])
    client.log_batch(
        run,
        metrics=[Metric("auc", 0.93, NOW, 0), Metric("auc", 0.95, NOW + 1, 0), Metric("auc", 0.95, NOW + 1, 1)],
        params=[Param("depth", "4"), Param("text", "ünïcode 'quoted' \"twice\"; --"), Param("empty", "")],
        tags=[RunTag("passed", "yes"), RunTag("long", "x" * 5000)],
    )
    data = Dataset("payments", "0f1e2d3c", "local", '{"uri": "payments.parquet"}', schema='{"columns": []}', profile="{}")
    client.log_inputs(run, [DatasetInput(data, [InputTag("mlflow.data.context", "training")])])
    made(folder / "model" / "MLmodel", "flavors:\n  python_function:\n    loader_module: mlflow.sklearn\n")
    made(folder / "model" / "weights" / "w 1.bin", "0123456789" * 1000)
    client.log_artifacts(run, str(folder / "model"), "model")
    client.log_artifact(run, str(made(folder / "notes, ünïcode.txt", "a note")))
    client.set_terminated(run, "FINISHED", end_time=NOW + 60_000)
    return run


def odd(client: MlflowClient, experiment: str) -> None:
    """What is no number, and a run that failed."""
    run = client.create_run(experiment, run_name="odd", start_time=NOW - 5).info.run_id
    values = [float("nan"), float("inf"), float("-inf"), 1e300, -0.0]
    client.log_batch(run, metrics=[Metric("odd/values", value, NOW + at, at) for at, value in enumerate(values)])
    client.set_terminated(run, "FAILED", end_time=NOW)


def logged_model(client: MlflowClient, experiment: str, run: str, folder: Path) -> str:
    if not hasattr(client, "create_logged_model"):
        return ""  # MLflow 2 has none
    from mlflow.entities import LoggedModelOutput

    model = client.create_logged_model(
        experiment, name="forest", source_run_id=run, tags={"kind": "trees"}, params={"trees": "100"}, model_type="forest"
    )
    client.log_model_artifacts(model.model_id, str(folder / "model"))
    client.finalize_logged_model(model.model_id, "READY")
    client.log_outputs(run, [LoggedModelOutput(model.model_id, 7)])
    client.log_metric(run, "accuracy", 0.88, step=7, timestamp=NOW + 7, model_id=model.model_id)
    return model.model_id


def registered(client: MlflowClient, run: str, logged: str) -> None:
    client.create_registered_model("card-fraud", tags={"owner": "risk"}, description="Scores card payments.")
    root = client.get_run(run).info.artifact_uri
    for number in range(1, 5):
        source = f"models:/{logged}" if logged and number == 4 else f"{root}/model"
        client.create_model_version("card-fraud", source, run_id=run, description=f"number {number}", tags={"n": str(number)})
    client.delete_model_version("card-fraud", "2")
    client.transition_model_version_stage("card-fraud", "1", "Archived")
    client.set_registered_model_alias("card-fraud", "champion", "4")
    client.set_registered_model_alias("card-fraud", "challenger", "3")
    client.create_registered_model("empty one")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
