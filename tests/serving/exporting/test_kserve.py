"""What is written for KServe is an InferenceService, and a folder that its server finds the model in."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from falaj.base.errors import Conflict, Invalid
from falaj.runtimes.engine import ModelFiles
from falaj.serving.exporting.kserve import MANIFEST, Wishes, files, name_of
from tests.runtimes import models
from tests.serving.exporting.samples import sample
from tests.serving.graphs import times

PUBLISHED = json.loads((Path(__file__).parent / "kserve.json").read_text())
ONNX = ModelFiles(runtime="onnx", main="m.onnx", contents={"m.onnx": times(2.0)})


def test_an_onnx_model_is_a_service_over_a_triton_repository():
    made = files(
        sample(ONNX, "fraud.v2_eu", concurrency=16), Wishes(storage_uri="s3://models/fraud", gpu=True, most_replicas=5)
    )
    service = yaml.safe_load(made[MANIFEST])
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    assert service["metadata"]["name"] == "fraud-v2-eu"
    assert service["metadata"]["annotations"]["falaj/model"] == "card-fraud:7"
    predictor = service["spec"]["predictor"]
    assert (predictor["minReplicas"], predictor["maxReplicas"], predictor["scaleTarget"]) == (1, 5, 16)
    assert predictor["model"]["modelFormat"] == {"name": "triton"}
    assert (predictor["model"]["protocolVersion"], predictor["model"]["storageUri"]) == ("v2", "s3://models/fraud")
    resources = predictor["model"]["resources"]
    assert resources["limits"] == resources["requests"] == {"cpu": "1", "memory": "512Mi", "nvidia.com/gpu": "1"}
    config = text_format.Parse(made["model/fraud-v2-eu/config.pbtxt"].decode(), model_config_pb2.ModelConfig())
    assert config.name == "fraud-v2-eu"  # as callers name the service
    assert made["model/fraud-v2-eu/3/model.onnx"] == times(2.0)


def served_by(service: dict[str, Any]) -> str:
    """The server that KServe chooses by itself: of those that know format and protocol, the one that says it goes first."""
    model = service["spec"]["predictor"]["model"]
    able = {
        runtime["name"]: runtime["formats"][model["modelFormat"]["name"]]
        for runtime in PUBLISHED["runtimes"]
        if model["protocolVersion"] in runtime["protocols"] and model["modelFormat"]["name"] in runtime["formats"]
    }
    return max(able, key=lambda name: able[name])


@pytest.mark.parametrize(
    ("kept", "server"),
    [
        (lambda _: ONNX, "kserve-tritonserver"),
        (models.openvino_files, "kserve-tritonserver"),
        (lambda _: trees("lightgbm", models.lightgbm_booster().model_to_string().encode()), "kserve-mlserver"),
        (lambda _: trees("xgboost", bytes(models.xgboost_booster().save_raw("ubj"))), "kserve-mlserver"),
    ],
    ids=["onnx", "openvino", "lightgbm", "xgboost"],
)
@pytest.mark.parametrize("concurrency", [0, 16])
def test_every_service_is_one_by_the_schema_that_kserve_publishes_and_has_a_server(kept, server, concurrency, tmp_path):
    for gpu in (False, True) if server == "kserve-tritonserver" and kept is not models.openvino_files else (False,):
        wishes = Wishes(storage_uri="s3://models/fraud", gpu=gpu, least_replicas=0, cpu="500m")
        service = yaml.safe_load(files(sample(kept(str(tmp_path)), "fraud.v2_eu", concurrency=concurrency), wishes)[MANIFEST])
        jsonschema_rs.validate(PUBLISHED["schema"], service)
        assert served_by(service) == server


def test_the_schema_that_kserve_publishes_refuses_what_it_does_not_know():
    service = yaml.safe_load(files(sample(ONNX), Wishes(storage_uri="pvc://a/b"))[MANIFEST])
    service["spec"]["predictor"]["scaleMetric"] = "mood"
    with pytest.raises(jsonschema_rs.ValidationError, match="mood"):
        jsonschema_rs.validate(PUBLISHED["schema"], service)


def trees(runtime: str, content: bytes) -> ModelFiles:
    return ModelFiles(runtime=runtime, main="m", contents={"m": content})


def test_trees_are_one_file_as_their_own_server_finds_it():
    text = models.lightgbm_booster().model_to_string().encode()
    made = files(sample(ModelFiles(runtime="lightgbm", main="m", contents={"m": text})), Wishes(storage_uri="pvc://a/b"))
    assert made["model/model.bst"] == text
    assert yaml.safe_load(made[MANIFEST])["spec"]["predictor"]["model"]["modelFormat"]["name"] == "lightgbm"
    for form in ("json", "ubj"):
        content = bytes(models.xgboost_booster().save_raw(form))
        kept = ModelFiles(runtime="xgboost", main="m", contents={"m": content})
        assert files(sample(kept), Wishes(storage_uri="pvc://a/b"))[f"model/model.{form}"] == content


def test_what_cannot_be_is_refused():
    model = sample(ONNX)
    with pytest.raises(Conflict, match="litert"):
        files(replace(model, runtime="litert"), Wishes(storage_uri="pvc://a/b"))
    with pytest.raises(Invalid, match="replicas"):
        files(model, Wishes(storage_uri="pvc://a/b", least_replicas=4, most_replicas=3))


@pytest.mark.parametrize(("endpoint", "name"), [("a.b_c", "a-b-c"), ("9lives", "m-9lives"), ("a" * 80, "a" * 53), ("x-", "x")])
def test_names_are_such_as_kubernetes_takes(endpoint, name):
    assert name_of(endpoint) == name
