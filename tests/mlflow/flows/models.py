"""Models: logged, registered, found by alias and loaded again, with three flavours; and all the registry's own calls."""

import lightgbm
import mlflow
import numpy as np
import onnxruntime
from mlflow import MlflowClient
from mlflow.models import infer_signature
from refusals import refused
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

# It loads each model again in a process of its own, which takes seconds and says nothing to the server.
mlflow.models.infer_pip_requirements = lambda *_, **__: []
client = MlflowClient()
THREE = mlflow.__version__.startswith("3")
chance = np.random.default_rng(3)
rows = chance.normal(size=(50, 3)).astype(np.float32)
labels = (rows[:, 0] + rows[:, 1] > 0).astype(int)


def named(name):
    return {"name": name} if THREE else {"artifact_path": name}


mlflow.set_experiment("models")
forest = LogisticRegression().fit(rows, labels)
signature = infer_signature(rows, forest.predict(rows))

# scikit-learn: logged and registered in one call, then loaded by alias
with mlflow.start_run(run_name="sklearn") as run:
    logged = mlflow.sklearn.log_model(
        forest, **named("model"), signature=signature, input_example=rows[:2], registered_model_name="fraud"
    )
    mlflow.log_metric("auc", 0.9)
client.set_registered_model_alias("fraud", "champion", "1")
champion = client.get_model_version_by_alias("fraud", "champion")
assert (champion.version, champion.run_id, champion.status) == ("1", run.info.run_id, "READY"), champion
assert champion.aliases == ["champion"]
loaded = mlflow.sklearn.load_model("models:/fraud@champion")
assert (loaded.predict(rows) == forest.predict(rows)).all()
assert (mlflow.pyfunc.load_model("models:/fraud/1").predict(rows) == forest.predict(rows)).all()
assert (mlflow.sklearn.load_model(logged.model_uri).predict(rows) == forest.predict(rows)).all()
assert mlflow.models.get_model_info("models:/fraud/1").signature == signature

# LightGBM: logged first, registered by the run's address
booster = lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(rows, labels), num_boost_round=3)
with mlflow.start_run(run_name="lightgbm") as run:
    mlflow.lightgbm.log_model(booster, **named("booster"), signature=infer_signature(rows, booster.predict(rows)))
second = mlflow.register_model(f"runs:/{run.info.run_id}/booster", "fraud", tags={"flavour": "lightgbm"})
assert second.version == 2 or second.version == "2"
client.set_registered_model_alias("fraud", "challenger", "2")
assert np.allclose(mlflow.lightgbm.load_model("models:/fraud@challenger").predict(rows), booster.predict(rows))
assert np.allclose(mlflow.lightgbm.load_model(f"runs:/{run.info.run_id}/booster").predict(rows), booster.predict(rows))

# ONNX: a model of its own
graph = to_onnx(forest, rows[:1], options={"zipmap": False})
with mlflow.start_run(run_name="onnx"):
    mlflow.onnx.log_model(graph, **named("graph"), registered_model_name="fraud-onnx", signature=signature)
client.set_registered_model_alias("fraud-onnx", "champion", 1)
graph = mlflow.onnx.load_model("models:/fraud-onnx@champion")
session = onnxruntime.InferenceSession(graph.SerializeToString())
assert (session.run(None, {session.get_inputs()[0].name: rows})[0] == forest.predict(rows)).all()

# The registry's own calls
assert {model.name for model in client.search_registered_models()} == {"fraud", "fraud-onnx"}
assert [model.name for model in client.search_registered_models("name LIKE '%onnx'")] == ["fraud-onnx"]
assert sorted(int(one.version) for one in client.search_model_versions("name = 'fraud'")) == [1, 2]
assert client.get_registered_model("fraud").aliases == {"champion": "1", "challenger": "2"}
refused("RESOURCE_ALREADY_EXISTS", client.create_registered_model, "fraud")
refused("RESOURCE_DOES_NOT_EXIST", client.get_registered_model, "nothing")
refused("RESOURCE_DOES_NOT_EXIST", client.get_model_version, "fraud", "99")
client.update_registered_model("fraud", "Finds fraud.")
client.set_registered_model_tag("fraud", "team", "risk")
client.set_registered_model_tag("fraud", "gone", "soon")
client.delete_registered_model_tag("fraud", "gone")
assert client.get_registered_model("fraud").tags == {"team": "risk"}
assert client.get_registered_model("fraud").description == "Finds fraud."
client.update_model_version("fraud", "2", "Quicker.")
client.set_model_version_tag("fraud", "2", "passed", "yes")
client.set_model_version_tag("fraud", "2", "gone", "soon")
client.delete_model_version_tag("fraud", "2", "gone")
version = client.get_model_version("fraud", "2")
assert (version.description, version.tags) == ("Quicker.", {"flavour": "lightgbm", "passed": "yes"})
client.transition_model_version_stage("fraud", "1", "Production")
assert client.get_model_version("fraud", "1").current_stage == "Production"
client.transition_model_version_stage("fraud", "2", "Production", archive_existing_versions=True)
assert client.get_model_version("fraud", "1").current_stage == "Archived"
assert [one.version for one in client.get_latest_versions("fraud", ["Production"])] in (["2"], [2])
assert client.get_model_version_download_uri("fraud", "1").startswith("mlflow-artifacts:/")
client.set_registered_model_alias("fraud", "champion", "2")
assert client.get_model_version_by_alias("fraud", "champion").version == "2"
client.delete_registered_model_alias("fraud", "challenger")
refused("RESOURCE_DOES_NOT_EXIST", client.get_model_version_by_alias, "fraud", "challenger")
copied = client.copy_model_version("models:/fraud/2", "fraud-copy")
assert np.allclose(mlflow.lightgbm.load_model(f"models:/fraud-copy/{copied.version}").predict(rows), booster.predict(rows))
client.rename_registered_model("fraud-copy", "fraud-2")
assert np.allclose(mlflow.lightgbm.load_model("models:/fraud-2/1").predict(rows), booster.predict(rows))
client.delete_model_version("fraud-2", "1")
client.delete_registered_model("fraud-2")
refused("RESOURCE_DOES_NOT_EXIST", client.get_registered_model, "fraud-2")
outside = client.create_registered_model("outside")
away = client.create_model_version("outside", "s3://bucket/model", None)
assert client.get_model_version_download_uri("outside", away.version) == "s3://bucket/model"

# A version keeps its files, whatever happens to the run's
repository = mlflow.store.artifact.artifact_repository_registry.get_artifact_repository(
    client.get_run(champion.run_id).info.artifact_uri
)
if not THREE:
    repository.delete_artifacts("model")
assert (mlflow.sklearn.load_model("models:/fraud/1").predict(rows) == forest.predict(rows)).all()

# Logged models, which only 3.x knows
if THREE:
    mlflow.set_active_model(name="agent")
    made = mlflow.create_external_model(name="outside", params={"a": "1"}, tags={"kind": "external"})
    client.set_logged_model_tags(made.model_id, {"more": "yes"})
    client.delete_logged_model_tag(made.model_id, "kind")
    mlflow.log_model_params({"b": "2"}, model_id=made.model_id)
    with mlflow.start_run(run_name="measured") as run:
        mlflow.log_metric("gain", 0.8, model_id=made.model_id)
        mlflow.log_metrics({"f1": 0.7, "recall": 0.6}, model_id=made.model_id)
    model = mlflow.get_logged_model(made.model_id)
    assert model.tags["more"] == "yes"
    assert "kind" not in model.tags
    assert model.params == {"a": "1", "b": "2"}
    assert {metric.key: metric.value for metric in model.metrics} == {"gain": 0.8, "f1": 0.7, "recall": 0.6}
    best = mlflow.search_logged_models(
        filter_string="metrics.gain > 0.5", order_by=[{"field_name": "metrics.gain", "ascending": False}], output_format="list"
    )
    assert [model.model_id for model in best] == [made.model_id]
    client.delete_logged_model(made.model_id)
    refused("RESOURCE_DOES_NOT_EXIST", client.get_logged_model, made.model_id)
print("done")
