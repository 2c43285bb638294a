"""What a script does by hand: experiments, runs, parameters, metrics, tags, nested runs, searches with paging, artifacts."""

import json
import math
import os
import tempfile
import time
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from refusals import refused

client = MlflowClient()


# Experiments
experiment = mlflow.set_experiment("fraud")
assert experiment.name == "fraud"
assert experiment.lifecycle_stage == "active"
assert mlflow.set_experiment("fraud").experiment_id == experiment.experiment_id
other = mlflow.create_experiment("spare", tags={"team": "risk"})
refused("RESOURCE_ALREADY_EXISTS", mlflow.create_experiment, "spare")
client.set_experiment_tag(other, "owner", "amal")
assert client.get_experiment(other).tags == {"team": "risk", "owner": "amal"}
client.rename_experiment(other, "spare-2")
assert client.get_experiment_by_name("spare") is None
assert client.get_experiment_by_name("spare-2").experiment_id == other
client.delete_experiment(other)
assert client.get_experiment(other).lifecycle_stage == "deleted"
assert [one.name for one in client.search_experiments(view_type=ViewType.DELETED_ONLY)] == ["spare-2"]
client.restore_experiment(other)
assert {one.name for one in mlflow.search_experiments(filter_string="name LIKE 'spa%'")} == {"spare-2"}
refused("RESOURCE_DOES_NOT_EXIST", client.get_experiment, "987654")
refused("INVALID_PARAMETER_VALUE", client.search_experiments, filter_string="name = 'it''s' -- ; DROP TABLE runs")

# A run, told about in every way
with mlflow.start_run(run_name="parent", description="the first", tags={"stage": "dev"}) as parent:
    mlflow.log_param("depth", 4)
    mlflow.log_params({"rate": 0.1, "long": "x" * 7000, "unicode": "صباح الخير ☀"})
    mlflow.log_metric("auc", 0.5, step=0)
    mlflow.log_metric("auc", 0.75, step=1)
    mlflow.log_metrics({"loss": 1.5, "worst": math.inf, "best": -math.inf, "unknown": math.nan, "huge": 1.7e308}, step=3)
    mlflow.set_tags({"team": "risk", "long": "y" * 9000})
    mlflow.set_tag("gone", "soon")
    mlflow.delete_tag("gone")
    mlflow.log_dict({"depth": 4}, "config/params.json")
    mlflow.log_text("hello", "notes/hello world #1.txt")
    with mlflow.start_run(run_name="child", nested=True) as child:
        mlflow.log_metric("auc", 0.9)
    mlflow.log_metric("late", 1.0)
found = client.get_run(parent.info.run_id)
assert found.info.status == "FINISHED"
assert found.info.run_name == "parent"
assert found.info.end_time >= found.info.start_time > 0
assert found.data.params["depth"] == "4"
assert found.data.params["long"] == "x" * 6000, "cut at MLflow's own limit"
assert found.data.params["unicode"] == "صباح الخير ☀"
assert found.data.tags["long"] == "y" * 8000
assert "gone" not in found.data.tags
assert found.data.tags["mlflow.note.content"] == "the first"
assert found.data.metrics["auc"] == 0.75
assert found.data.metrics["worst"] == math.inf
assert found.data.metrics["best"] == -math.inf
assert math.isnan(found.data.metrics["unknown"])
assert found.data.metrics["huge"] == 1.7e308
assert client.get_run(child.info.run_id).data.tags["mlflow.parentRunId"] == parent.info.run_id
refused("INVALID_PARAMETER_VALUE", client.log_param, parent.info.run_id, "depth", 5)
client.log_param(parent.info.run_id, "depth", 4)
refused("RESOURCE_DOES_NOT_EXIST", client.get_run, "0" * 32)
refused("RESOURCE_DOES_NOT_EXIST", client.log_metric, "f" * 32, "auc", 1.0)
said = refused("INVALID_PARAMETER_VALUE", client.set_tag, parent.info.run_id, "essay", "z" * (1 << 20))
assert "1048576" in said, said

# The same run, from two writers
again = MlflowClient()
now = int(time.time() * 1000)
for step in range(5):
    client.log_metric(parent.info.run_id, "shared", step, step=2 * step, timestamp=now)
    again.log_metric(parent.info.run_id, "shared", step, step=2 * step + 1, timestamp=now)
assert [point.step for point in client.get_metric_history(parent.info.run_id, "shared")] == list(range(10))

# A batch, and its history over pages
batch = client.create_run(experiment.experiment_id, run_name="batch", tags={"kind": "batch"})
points = [Metric("loss", 1 / (step + 1), now + step, step) for step in range(1000)]
client.log_batch(batch.info.run_id, points, [Param("a", "1"), Param("b", "2")], [RunTag("c", "3")])
history = client.get_metric_history(batch.info.run_id, "loss")
assert [(point.step, point.timestamp, point.value) for point in history] == [
    (point.step, point.timestamp, point.value) for point in points
]
page = client._tracking_client.store.get_metric_history(batch.info.run_id, "loss", max_results=300, page_token=None)
steps = [point.step for point in page]
while page.token:
    page = client._tracking_client.store.get_metric_history(batch.info.run_id, "loss", max_results=300, page_token=page.token)
    steps += [point.step for point in page]
assert steps == list(range(1000))
refused("INVALID_PARAMETER_VALUE", client.log_batch, batch.info.run_id, params=[Param("a", "other")])
client.update_run(batch.info.run_id, status="FAILED", name="renamed")
assert client.get_run(batch.info.run_id).info.run_name == "renamed"
client.set_terminated(batch.info.run_id, "KILLED")
assert client.get_run(batch.info.run_id).info.status == RunStatus.to_string(RunStatus.KILLED)

# What a script leaves to a thread of the client's
with mlflow.start_run(run_name="in the background") as run:
    for step in range(20):
        mlflow.log_metric("loss", 1 / (step + 1), step=step, synchronous=False)
    mlflow.log_params({"a": 1}, synchronous=False).wait()
    mlflow.log_table({"question": ["why?"], "answer": ["because"]}, "table.json")
    mlflow.flush_async_logging()
assert [point.step for point in client.get_metric_history(run.info.run_id, "loss")] == list(range(20))
assert mlflow.load_table("table.json", run_ids=[run.info.run_id])["answer"].tolist() == ["because"]

# Many runs: searched, ordered, paged
many = mlflow.create_experiment("many")
for number in range(25):
    made = client.create_run(many, run_name=f"run-{number:02}")
    client.log_batch(
        made.info.run_id,
        [Metric("auc", number / 25, now, 0)],
        [Param("depth", str(number % 3))],
        [RunTag("parity", "even" if number % 2 == 0 else "odd")],
    )
    client.set_terminated(made.info.run_id)
best = client.search_runs([many], "metrics.auc > 0.5 and params.depth = '1'", order_by=["metrics.auc DESC"])
assert [run.data.metrics["auc"] for run in best] == [number / 25 for number in (22, 19, 16, 13)]
names, token = [], None
while True:
    page = client.search_runs([many], order_by=["metrics.auc ASC"], max_results=10, page_token=token)
    names += [run.info.run_name for run in page]
    token = page.token
    if not token:
        break
assert names == [f"run-{number:02}" for number in range(25)]
table = mlflow.search_runs(experiment_ids=[many], filter_string="tags.parity = 'odd' AND attributes.status = 'FINISHED'")
assert len(table) == 12
assert set(table["tags.parity"]) == {"odd"}
assert len(mlflow.search_runs(experiment_names=["many"], filter_string="run_name LIKE 'run-1%'")) == 10
for text in ("metrics.auc > 1; DROP TABLE tracking_runs", "params.depth = '1' OR '1' = '1'", "tags.a = 'b' --", "nonsense"):
    refused("INVALID_PARAMETER_VALUE", client.search_runs, [many], text)
assert client.search_runs([many], "params.depth = '1'' OR ''1'' = ''1'") == []
first = client.search_runs([many], max_results=1)[0]
client.delete_run(first.info.run_id)
assert client.get_run(first.info.run_id).info.lifecycle_stage == "deleted"
assert len(client.search_runs([many])) == 24
assert len(client.search_runs([many], run_view_type=ViewType.ALL)) == 25
refused("INVALID_PARAMETER_VALUE", client.log_metric, first.info.run_id, "auc", 1.0)
client.restore_run(first.info.run_id)
assert len(client.search_runs([many])) == 25

# Artifacts
with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_name="files") as run:
    root = Path(folder)
    (root / "deep" / "er").mkdir(parents=True)
    (root / "a b%c.txt").write_bytes(b"a b")
    (root / "deep" / "page.html").write_bytes(b"<script>alert(1)</script>")
    (root / "deep" / "er" / "empty").write_bytes(b"")
    (root / "large.bin").write_bytes(bytes(range(256)) * 4096)
    mlflow.log_artifact(str(root / "large.bin"))
    mlflow.log_artifacts(str(root), artifact_path="all")
    assert mlflow.get_artifact_uri().startswith("mlflow-artifacts:/")
listed = {entry.path: (entry.is_dir, entry.file_size) for entry in client.list_artifacts(run.info.run_id)}
assert listed == {"all": (True, None), "large.bin": (False, 1 << 20)}, listed
assert {entry.path for entry in client.list_artifacts(run.info.run_id, "all")} == {
    "all/a b%c.txt",
    "all/deep",
    "all/large.bin",
}
assert client.list_artifacts(run.info.run_id, "all/large.bin") == []
with tempfile.TemporaryDirectory() as folder:
    whole = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="all", dst_path=folder))
    assert (whole / "a b%c.txt").read_bytes() == b"a b"
    assert (whole / "deep" / "er" / "empty").read_bytes() == b""
    assert (whole / "large.bin").read_bytes() == bytes(range(256)) * 4096
    one = mlflow.artifacts.download_artifacts(f"runs:/{run.info.run_id}/all/deep/page.html", dst_path=folder)
    assert Path(one).read_bytes() == b"<script>alert(1)</script>"
assert json.loads(mlflow.artifacts.load_text(f"{parent.info.artifact_uri}/config/params.json")) == {"depth": 4}
assert mlflow.artifacts.load_text(f"runs:/{parent.info.run_id}/notes/hello world #1.txt") == "hello"
repository = mlflow.store.artifact.artifact_repository_registry.get_artifact_repository(run.info.artifact_uri)
repository.delete_artifacts("all/deep")
assert {entry.path for entry in client.list_artifacts(run.info.run_id, "all")} == {"all/a b%c.txt", "all/large.bin"}

# A large artifact, in parts that are sent side by side
os.environ["MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD"] = "true"
os.environ["MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE"] = str(1 << 20)
os.environ["MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE"] = str(300_000)
large = bytes(number * number % 251 for number in range(1 << 20)) * 3
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "weights 1.bin").write_bytes(large)
    client.log_artifact(run.info.run_id, str(Path(folder) / "weights 1.bin"), "large/ones")
    fetched = client.download_artifacts(run.info.run_id, "large/ones/weights 1.bin", folder)
    assert Path(fetched).read_bytes() == large

# Data that a run used
data = mlflow.data.from_numpy(__import__("numpy").arange(12.0).reshape(3, 4), name="transactions")
with mlflow.start_run(run_name="with data") as run:
    mlflow.log_input(data, context="training", tags={"season": "autumn"})
[used] = client.get_run(run.info.run_id).inputs.dataset_inputs
assert (used.dataset.name, used.dataset.digest) == ("transactions", data.digest)
assert {tag.key: tag.value for tag in used.tags} == {"mlflow.data.context": "training", "season": "autumn"}
assert mlflow.search_runs(filter_string="dataset.name = 'transactions'")["run_id"].tolist() == [run.info.run_id]
print("done")
