"""What is written for KServe is an InferenceService, and a folder that its server finds the model in."""

from dataclasses import replace

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
    assert predictor["model"]["modelFormat"] == {"name": "onnx"}
    assert (predictor["model"]["protocolVersion"], predictor["model"]["storageUri"]) == ("v2", "s3://models/fraud")
    resources = predictor["model"]["resources"]
    assert resources["limits"] == resources["requests"] == {"cpu": "1", "memory": "512Mi", "nvidia.com/gpu": "1"}
    config = text_format.Parse(made["model/fraud-v2-eu/config.pbtxt"].decode(), model_config_pb2.ModelConfig())
    assert config.name == "fraud-v2-eu"  # as callers name the service
    assert made["model/fraud-v2-eu/3/model.onnx"] == times(2.0)


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
