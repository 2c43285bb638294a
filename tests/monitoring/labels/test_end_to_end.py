"""The whole way with real processes: what a plane answered over REST and gRPC is labelled from files, and judged."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tritonclient.grpc
from onnx import TensorProto, helper

from falaj.serving.operations.endpoints import READ_LOGS, Options, ReadLogs
from tests.serving.site import PROJECT, Site, until

CALLS, ROWS = 40, 5


def softmax() -> bytes:
    """Four numbers as the chances of four classes."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "softmax", ends[:1], ends[1:])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"), workers="1")
    made.register("softmax", softmax())
    made.deploy("scores", "softmax", 1, options=Options(log_share=10_000))
    yield made
    made.close()


def falaj(site: Site, *arguments: str) -> dict:
    done = site.platform.falaj(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_predictions_are_labelled_by_the_ids_they_were_sent_with_and_quality_is_what_numpy_says(site: Site, tmp_path: Path):
    random = np.random.default_rng(3)
    x = random.normal(0, 1.5, (CALLS, ROWS, 4)).astype(np.float32)
    chances = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    truth = (chances.cumsum(axis=-1) > random.random((CALLS, ROWS, 1))).argmax(axis=-1)
    token = site.token("scores")
    with site.http(token) as http:
        for number in range(CALLS // 2):
            tensor = {"name": "x", "datatype": "FP32", "shape": [ROWS, 4], "data": x[number].ravel().tolist()}
            answer = http.post("/v2/models/scores/infer", json={"id": f"call-{number}", "inputs": [tensor]})
            assert answer.json()["id"] == f"call-{number}"
    with tritonclient.grpc.InferenceServerClient(site.url.removeprefix("http://")) as client:
        for number in range(CALLS // 2, CALLS):
            given = tritonclient.grpc.InferInput("x", [ROWS, 4], "FP32")
            given.set_data_from_numpy(x[number])
            bearer = {"authorization": f"Bearer {token}"}
            answer = client.infer("scores", [given], request_id=f"call-{number}", headers=bearer)
            assert answer.get_response().id == f"call-{number}"

    rows = [
        {"id": f"call-{number}", "row": row, "truth": int(truth[number, row]), "spent": float(number)}
        for number in range(CALLS)
        for row in range(ROWS)
    ]
    until(lambda: len(site.platform.call(READ_LOGS, ReadLogs(project=PROJECT, endpoint="scores", limit=100)).items) == CALLS)
    half = len(rows) // 2
    with (tmp_path / "first.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[:half])
    pq.write_table(pa.Table.from_pylist(rows[half:]), tmp_path / "second.parquet")
    for name in ("first.csv", "second.parquet"):
        told = falaj(site, "labels", "add", "scores", str(tmp_path / name))
        assert (told["taken"], told["unknown"], told["refused"]) == (half, 0, 0), told
    again = [{**rows[0], "truth": 1 - min(1, rows[0]["truth"])}, rows[1], {"id": "nobody", "truth": 1}]
    (tmp_path / "again.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in again))
    told = falaj(site, "labels", "add", "scores", str(tmp_path / "again.jsonl"))
    assert (told["repeated"], told["refused_lines"], told["unknown_lines"]) == (1, [1], [3])

    (bucket,) = falaj(site, "labels", "quality", "scores", "--by", "whole")["items"]
    found = {one["name"]: one["at"] for one in bucket["figures"]}
    said, told_chances = chances.argmax(axis=-1).ravel(), chances.reshape(-1, 4)
    assert bucket["rows"] == CALLS * ROWS
    assert found["accuracy"] == pytest.approx((said == truth.ravel()).mean())
    assert found["log loss"] == pytest.approx(-np.log(told_chances[np.arange(len(said)), truth.ravel()]).mean(), rel=1e-4)
    assert found["mean spent"] == pytest.approx((CALLS - 1) / 2)
    shown = site.platform.falaj("labels", "quality", "scores", "--all").stdout
    assert all(words in shown for words in ("accuracy", "calibration error", " to "))
