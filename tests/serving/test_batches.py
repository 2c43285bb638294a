"""Predictions for a whole dataset, as a job through the real queue: the same as an endpoint's, and finished after a kill."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime
import psutil
import pyarrow as pa
import pytest
from onnx import TensorProto, helper, numpy_helper

import falaj as sdk
from falaj.base.errors import Conflict, Forbidden
from falaj.client.http import Client
from falaj.datasets.operations.classes import CLASSIFY_COLUMNS, SHOW_CLASSES, Classified, ClassifyColumns
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.reading import QUERY, Query
from falaj.datasets.operations.writing import COMMIT_WRITE, OPEN_WRITE, WRITE_PART, CommitWrite, OpenWrite, WritePart
from falaj.governance.identity import operations as identity
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.roles import Role
from falaj.lineage.operations import SHOW_GRAPH, ShowGraph
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.batches import (
    FINISH_BATCH,
    PLAN_BATCH,
    READ_BATCH_FILE,
    SHOW_BATCH,
    OneBatch,
    PlanBatch,
    ReadBatchFile,
)
from falaj.tables.forms import Form
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.serving.site import PROJECT, Site, until

COLUMNS = ("age", "income", "visits")


def score(wide: int = 0) -> bytes:
    """A linear model with a sigmoid; `wide` makes it slower by so many hidden numbers."""
    random = np.random.default_rng(1)
    nodes = [helper.make_node("MatMul", ["X", "w"], ["h"]), helper.make_node("Sigmoid", ["h"], ["score"])]
    weights = [numpy_helper.from_array(random.normal(size=(3, 1)).astype(np.float32), "w")]
    if wide:
        nodes = [
            helper.make_node("MatMul", ["X", "up"], ["a"]),
            *(helper.make_node("MatMul", ["a" if n == 0 else f"b{n - 1}", "square"], [f"b{n}"]) for n in range(8)),
            helper.make_node("MatMul", ["b7", "down"], ["zero"]),
            helper.make_node("MatMul", ["X", "w"], ["g"]),
            helper.make_node("Add", ["g", "zero"], ["h"]),
            helper.make_node("Sigmoid", ["h"], ["score"]),
        ]
        weights += [
            numpy_helper.from_array(np.ones((3, wide), np.float32), "up"),
            numpy_helper.from_array(random.random((wide, wide), np.float32) / wide, "square"),
            numpy_helper.from_array(np.zeros((wide, 1), np.float32), "down"),
        ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", 3])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", 1])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def register(client: Client, model: str, content: bytes) -> None:
    inputs = json.dumps(
        [{"type": kind, "name": name} for name, kind in zip(COLUMNS, ("double", "double", "long"), strict=True)]
    )
    described = f"flavors:\n  onnx:\n    data: model.onnx\nsignature:\n  inputs: '{inputs}'\n".encode()
    client.call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
    run = client.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    for name, file in (("model.onnx", content), ("MLmodel", described)):
        client.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), chunks=iter((file,)))
    client.call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=run, folder="model"))


def people(rows: int) -> pa.Table:
    random = np.random.default_rng(2)
    return pa.table(
        {
            "id": np.arange(rows),
            "age": random.uniform(0, 1, rows),
            "income": pa.array([None if n % 7 == 0 else n / 1000 for n in range(rows)]),
            "visits": random.integers(0, 5, rows),
        }
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Site(tmp_path_factory.mktemp("site"), workers="1")
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(site: Site) -> Client:
    opened = site.platform.client(timeout=120)
    register(opened, "score", score())
    register(opened, "slow", score(512))
    return opened


def run(site: Site, *arguments: str, status: int = 0) -> str:
    """What the command printed; where it fails, why."""
    done = site.platform.falaj(*arguments)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def shown(site: Site, job: str) -> Any:
    return json.loads(run(site, "job", "show", job, "--json"))


def test_a_job_writes_what_an_endpoint_says_and_lineage_knows_both(site: Site, client: Client) -> None:
    made = sdk.save_dataset("people", people(2500), project=PROJECT, client=client)
    told = run(
        site, "batch", "score:1", "--on", "people", "--into", "scored", "--keep", "id", "--rows", "1000", "--memory", "1GiB"
    )
    assert "scored@1 has 2,500 rows, predicted by score v1 on people@1." in told
    assert "Piece 3 of 3" in told
    found = sdk.dataset("scored", project=PROJECT, client=client)
    assert found.schema.names == ("id", "prediction")
    rows = found.arrow().to_pylist()
    assert [row["id"] for row in rows] == list(range(2500))
    site.deploy("asked", "score", 1)
    records = [{name: row[name] for name in COLUMNS} for row in people(2500).to_pylist()[:40]]
    with site.http(site.token("asked")) as http:
        said = http.post("/v2/endpoints/asked/predict", json={"records": records}).json()["predictions"]
    assert [float(np.float32(one)) if one != "NaN" else "NaN" for one in said] == [
        "NaN" if np.isnan(row["prediction"]) else row["prediction"] for row in rows[:40]
    ]
    graph = client.call(SHOW_GRAPH, ShowGraph(project=PROJECT, kind="dataset", id=found.lineage, direction="up", depth=1))
    assert {(node.kind, node.label) for node in graph.nodes} >= {("version", "score v1"), ("dataset", "people v1")}
    assert made.version == 1


def test_what_cannot_be_predicted_is_refused_and_nothing_is_made(site: Site, client: Client) -> None:
    sdk.save_dataset("strange", pa.table({"age": ["old"], "income": [1.0], "visits": [1]}), project=PROJECT, client=client)
    sdk.save_dataset("short", pa.table({"age": [1.0]}), project=PROJECT, client=client)
    for on, into, says in (
        ("short", "a", "The model takes income, visits, which 'short' has not"),
        ("strange", "a", "Column 'age' of 'strange' is text, and the model's is double"),
        ("short", "short", "name another dataset"),
    ):
        assert says in run(site, "batch", "score:1", "--on", on, "--into", into, status=2)
    assert "There is no dataset 'a'" in run(site, "dataset", "show", "a", status=1)


def test_what_is_personal_stays_so_and_whoever_may_not_write_plans_nothing(site: Site, client: Client) -> None:
    sdk.save_dataset("named", people(10), project=PROJECT, client=client)
    personal = Classified(column="id", kind="personal")
    client.call(CLASSIFY_COLUMNS, ClassifyColumns(project=PROJECT, dataset="named", columns=(personal,)))
    request = PlanBatch(project=PROJECT, model="score", version=1, on="named", into="named-scored", keep=("id",))
    planned = client.call(PLAN_BATCH, request)
    assert "dataset.personal" in planned.permissions
    assert client.call(SHOW_CLASSES, OneDataset(project=PROJECT, dataset="named-scored")).columns == (personal,)
    told = run(site, "batch", "score:1", "--on", "named", "--into", "named-scored", "--keep", "id")  # as who may see it
    assert "named-scored@1 has 10 rows" in told
    wish = CreateToken(label="reader", scopes=("batch.predict", "dataset.read", "version.read"), projects=(PROJECT,))
    with pytest.raises(Forbidden), site.platform.client(client.call(CREATE_TOKEN, wish).token) as reader:
        reader.call(PLAN_BATCH, request)


def colleague(site: Site, client: Client, name: str, role: Role) -> Client:
    """Somebody else of the project, as a service account."""
    client.call(identity.CREATE_SERVICE, identity.CreateService(project=PROJECT, name=name, role=role))
    wish = identity.CreateServiceToken(project=PROJECT, service=name, label=name)
    return site.platform.client(client.call(identity.CREATE_SERVICE_TOKEN, wish).token)


def write(client: Client, into: str, key: str, table: pa.Table) -> None:
    """What the job does, without its model."""
    opened = client.call(
        OPEN_WRITE, OpenWrite(project=PROJECT, dataset=into, mode="overwrite", form=Form(format="arrow"), key=key)
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    part = WritePart(project=PROJECT, dataset=into, write=opened.id, piece=1)
    client.call(WRITE_PART, part, chunks=[sink.getvalue().to_pybytes()])
    client.call(COMMIT_WRITE, CommitWrite(project=PROJECT, dataset=into, write=opened.id, pieces=1))


def test_what_somebody_else_wrote_under_the_key_of_a_batch_is_not_what_it_predicted(site: Site, client: Client) -> None:
    sdk.save_dataset("owned", people(3), project=PROJECT, client=client)
    request = PlanBatch(project=PROJECT, model="score", version=1, on="owned", into="forged", keep=("id",))
    planned = client.call(PLAN_BATCH, request)
    one = OneBatch(project=PROJECT, batch=planned.id)
    with colleague(site, client, "forger", Role.SCIENTIST) as forger:
        with pytest.raises(Conflict, match="planned by somebody else"):
            forger.call(READ_BATCH_FILE, ReadBatchFile(project=PROJECT, batch=planned.id, file=planned.file))
        write(forger, "forged", planned.key, pa.table({"prediction": [1.0]}))
        with pytest.raises(Conflict, match="was not committed yet"):
            forger.call(FINISH_BATCH, one)
    assert client.call(SHOW_BATCH, one).state == "open"


def test_who_may_not_read_a_model_gets_none_of_it_through_a_batch(site: Site, client: Client) -> None:
    sdk.save_dataset("asked-of", people(3), project=PROJECT, client=client)
    request = PlanBatch(project=PROJECT, model="score", version=1, on="asked-of", into="unread")
    planned = client.call(PLAN_BATCH, request)
    assert "version.read" in planned.permissions
    wish = CreateToken(label="predicts", scopes=("batch.predict", "dataset.read", "dataset.write"), projects=(PROJECT,))
    with site.platform.client(client.call(CREATE_TOKEN, wish).token) as narrow:
        with pytest.raises(Forbidden):
            narrow.call(PLAN_BATCH, request)
        with pytest.raises(Forbidden):
            narrow.call(READ_BATCH_FILE, ReadBatchFile(project=PROJECT, batch=planned.id, file=planned.file))


def test_what_is_predicted_of_personal_columns_is_personal_too_whenever_that_is_said(site: Site, client: Client) -> None:
    sdk.save_dataset("earners", people(10), project=PROJECT, client=client)
    personal, sensitive = Classified(column="income", kind="personal"), Classified(column="income", kind="sensitive")

    def classes(name: str) -> dict[str, str]:
        found = client.call(SHOW_CLASSES, OneDataset(project=PROJECT, dataset=name)).columns
        return {one.column: one.kind for one in found}

    def classify(name: str, *columns: Classified) -> None:
        client.call(CLASSIFY_COLUMNS, ClassifyColumns(project=PROJECT, dataset=name, columns=columns))

    request = PlanBatch(project=PROJECT, model="score", version=1, on="earners", into="first", keep=("id", "income"))
    before = client.call(PLAN_BATCH, request)
    classify("earners", personal)
    assert classes("first") == {"income": "personal", "prediction": "personal"}  # planned before anybody said so
    write(client, "first", before.key, pa.table({"id": [1], "income": [1.0], "label": ["x"], "other": [1.0]}))
    client.call(FINISH_BATCH, OneBatch(project=PROJECT, batch=before.id))
    assert classes("first") == {"income": "personal", "label": "personal", "other": "personal", "prediction": "personal"}
    classify("first", sensitive)
    client.call(PLAN_BATCH, request)
    assert classes("first")["income"] == "sensitive"  # the stronger stays
    classify("earners", sensitive)
    assert classes("first")["label"] == "sensitive"
    with colleague(site, client, "onlooker", Role.VIEWER) as viewer:
        asked = Query(project=PROJECT, sql="SELECT label FROM first")
        assert [list(row) for row in viewer.call(QUERY, asked).rows] == [[None]]


def check_rows(client: Client, name: str) -> None:
    """Every row once, in its order, with what the model says to it."""
    found = sdk.dataset(name, project=PROJECT, client=client).arrow()
    assert found.column("id").to_pylist() == list(range(6_000))
    session, given = onnxruntime.InferenceSession(score(512)), people(6_000)
    rows = np.stack([given.column(column).to_numpy() for column in COLUMNS], axis=1).astype(np.float32)
    expected = np.concatenate([session.run(None, {"X": rows[at : at + 500]})[0] for at in range(0, 6_000, 500)])
    np.testing.assert_allclose(found.column("prediction").to_numpy(), expected[:, 0], rtol=1e-6)


def test_killed_in_the_middle_the_program_goes_on_and_every_row_is_there_once(site: Site, client: Client) -> None:
    sdk.save_dataset("several", people(6_000), project=PROJECT, client=client)
    request = PlanBatch(project=PROJECT, model="slow", version=1, on="several", into="rescued", keep=("id",), rows=500)
    batch = client.call(PLAN_BATCH, request).id
    environment = os.environ | {"FALAJ_URL": site.platform.url, "FALAJ_TOKEN": site.platform.token, "FALAJ_PROJECT": PROJECT}
    command = [sys.executable, "-u", "-m", "falaj.client.batches.job", batch]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert any(line.startswith("Piece 4 of 12") for line in first.stdout)
        first.kill()
    assert "has no version 1" in run(site, "dataset", "show", "rescued@1", status=1)  # nothing between
    told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "pieces were written before; it goes on from there" in told
    assert "Piece 2 of 12" not in told
    check_rows(client, "rescued")
    again = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "was done before: it is rescued@1." in again


@pytest.mark.heavy
def test_killed_in_the_middle_the_queue_tries_it_again_and_every_row_is_there_once(site: Site, client: Client) -> None:
    sdk.save_dataset("many", people(6_000), project=PROJECT, client=client)
    asked = sdk.batch("slow:1", on="many", into="scored-many", keep=["id"], rows=500, project=PROJECT, client=client)
    job = asked.submitted.job.id
    until(lambda: "Piece 3 of 12" in run(site, "job", "logs", job))
    _kill_inside(asked.batch.id)
    until(lambda: shown(site, job)["state"] in ("done", "failed"))
    assert shown(site, job)["state"] == "done", run(site, "job", "logs", job)
    assert shown(site, job)["attempts"] == 2
    assert "pieces were written before; it goes on from there" in run(site, "job", "logs", job)
    check_rows(client, "scored-many")


def _kill_inside(batch: str) -> None:
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if batch in line and "falaj.client.batches.job" in line and "bwrap" not in line[0]:
            process.send_signal(signal.SIGKILL)
