"""What is written for Triton is what Triton's own description of a configuration takes."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper
from tritonclient.grpc import model_config_pb2

from falaj.base.errors import Conflict, Invalid
from falaj.runtimes.engine import ModelFiles
from falaj.serving.exporting.triton import Wishes, repository
from tests.runtimes import models
from tests.serving.exporting.samples import sample
from tests.serving.graphs import times


def parsed(files: dict[str, bytes], name: str = "fraud") -> model_config_pb2.ModelConfig:
    return text_format.Parse(files[f"{name}/config.pbtxt"].decode(), model_config_pb2.ModelConfig())


def an_onnx(content: bytes, main: str = "model/net.onnx", **others: bytes) -> ModelFiles:
    return ModelFiles(runtime="onnx", main=main, contents={main: content, **others})


def test_an_onnx_model_that_batches_is_batched_by_what_was_measured():
    model = sample(an_onnx(times(2.0)), latency_ms=20)
    files = repository(model, Wishes())
    assert files["fraud/3/model.onnx"] == times(2.0)
    config = parsed(files)
    assert (config.name, config.backend, config.platform) == ("fraud", "onnxruntime", "")
    assert config.max_batch_size >= max(32, model.batch)
    assert [(one.name, one.data_type, list(one.dims)) for one in config.input] == [("x", model_config_pb2.TYPE_FP32, [4])]
    assert [(one.name, one.data_type, list(one.dims)) for one in config.output] == [("y", model_config_pb2.TYPE_FP32, [4])]
    batching = config.dynamic_batching
    assert list(batching.preferred_batch_size) == [model.batch]
    assert batching.default_queue_policy.default_timeout_microseconds == 20_000
    assert batching.default_queue_policy.timeout_action == model_config_pb2.ModelQueuePolicy.REJECT
    assert config.instance_group[0].kind == model_config_pb2.ModelInstanceGroup.KIND_CPU
    assert config.parameters["intra_op_thread_count"].string_value == str(model.threads)


@pytest.mark.parametrize("fp16", [False, True])
def test_on_a_gpu_an_onnx_model_goes_through_tensorrt(fp16):
    config = parsed(repository(sample(an_onnx(times(2.0))), Wishes(gpu=True, fp16=fp16)))
    (accelerator,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    assert accelerator.name == "tensorrt"
    assert accelerator.parameters["precision_mode"] == ("FP16" if fp16 else "FP32")
    assert config.instance_group[0].kind == model_config_pb2.ModelInstanceGroup.KIND_GPU


def test_a_batch_that_was_asked_for_bounds_the_preferred_one():
    config = parsed(repository(sample(an_onnx(times(2.0))), Wishes(max_batch=2)))
    assert config.max_batch_size == 2
    assert max(config.dynamic_batching.preferred_batch_size) <= 2


def fixed() -> bytes:
    """Adds up three numbers: no rows, and an answer without any axis."""
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def test_a_model_without_rows_is_not_batched():
    config = parsed(repository(sample(an_onnx(fixed())), Wishes()))
    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")
    assert list(config.input[0].dims) == [3]
    assert (list(config.output[0].dims), list(config.output[0].reshape.shape)) == ([1], [])
    assert config.output[0].HasField("reshape")


def test_weights_that_lie_beside_the_model_go_with_it():
    made = onnx.load_from_string(times(2.0))
    weights = np.full((4,), 3.0, np.float32).tobytes()
    (factor,) = made.graph.initializer
    factor.CopyFrom(helper.make_tensor("k", TensorProto.FLOAT, [4], weights, raw=True))
    factor.ClearField("raw_data")
    factor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": "weights/k.bin", "offset": "0", "length": str(len(weights))}.items():
        factor.external_data.add(key=key, value=text)
    contents = {"model/net.onnx": made.SerializeToString(), "model/weights/k.bin": weights}
    files = repository(sample(ModelFiles(runtime="onnx", main="model/net.onnx", contents=contents)), Wishes())
    assert files["fraud/3/weights/k.bin"] == weights
    assert "fraud/3/model.onnx" in files


def test_a_map_of_classes_is_refused_with_what_to_do():
    with pytest.raises(Conflict, match="zipmap"):
        repository(sample(an_onnx(models.converted(zipmap=True))), Wishes())
    assert len(parsed(repository(sample(an_onnx(models.converted(zipmap=False))), Wishes())).output) == 2


@pytest.mark.parametrize(("objective", "classes", "is_classifier"), [("binary", [1], "false"), ("multiclass", [3], "true")])
def test_lightgbm_goes_through_the_forest_library(objective, classes, is_classifier):
    text = models.lightgbm_booster(objective).model_to_string().encode()
    files = repository(sample(ModelFiles(runtime="lightgbm", main="m.txt", contents={"m.txt": text})), Wishes())
    config = parsed(files)
    assert (config.backend, files["fraud/3/model.txt"]) == ("fil", text)
    assert (config.input[0].name, config.input[0].data_type) == ("input__0", model_config_pb2.TYPE_FP32)
    assert (config.output[0].name, list(config.output[0].dims)) == ("output__0", classes)
    told = {key: value.string_value for key, value in config.parameters.items()}
    assert (told["model_type"], told["default_model_filename"]) == ("lightgbm", "model.txt")
    assert told["is_classifier"] == told["predict_proba"] == is_classifier


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_xgboost_goes_through_the_forest_library_in_its_own_format(form):
    content = bytes(models.xgboost_booster().save_raw(form))
    files = repository(sample(ModelFiles(runtime="xgboost", main="m", contents={"m": content})), Wishes(gpu=True))
    config = parsed(files)
    assert config.parameters["model_type"].string_value == f"xgboost_{form}"
    assert files[f"fraud/3/xgboost.{form}"] == content
    assert not config.HasField("optimization")


def test_openvino_keeps_its_weights_and_stays_on_the_cpu(tmp_path):
    model = sample(models.openvino_files(str(tmp_path)))
    files = repository(model, Wishes())
    assert {"fraud/3/model.xml", "fraud/3/model.bin"} <= set(files)
    assert parsed(files).backend == "openvino"
    with pytest.raises(Invalid, match="CPU"):
        repository(model, Wishes(gpu=True))


def test_what_triton_has_no_backend_for_is_told():
    with pytest.raises(Conflict, match="no backend for litert"):
        repository(replace(sample(an_onnx(times(2.0))), runtime="litert"), Wishes())
    with pytest.raises(Invalid, match="--gpu"):
        repository(sample(an_onnx(times(2.0))), Wishes(fp16=True))


def test_names_are_written_so_that_they_are_read_as_they_are():
    model = sample(an_onnx(times(2.0)))
    strange = 'a "quoted" \\ naïve\tname'
    model = replace(model, model='evil\nname: "x"', inputs=(replace(model.inputs[0], name=strange),))
    config = parsed(repository(model, Wishes()))
    assert (config.name, config.input[0].name) == ("fraud", strange)
    assert json.loads(json.dumps(strange)) == strange
