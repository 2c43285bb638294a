"""A model repository for NVIDIA Triton: `config.pbtxt` and the model, as its backend wants to find them."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.runtimes.engine import TensorSpec
from falaj.serving.exporting.models import Exported

LEAST_MAX_BATCH: Final = 32  # a request with more rows than `max_batch_size` is refused, so it is no smaller than this
_TYPES: Final = {
    **{word: f"TYPE_{word}" for word in ("BOOL", "FP16", "FP32", "FP64", "BF16")},
    **{f"{sign}INT{bits}": f"TYPE_{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "BYTES": "TYPE_STRING",
}
_WORKSPACE: Final = 1 << 30


@value
class Wishes:
    """`fp16` lets TensorRT compute in half precision: faster, and answers differ in the third digit. `max_batch` 0: by what
    was measured."""

    gpu: bool = False
    fp16: bool = False
    max_batch: int = 0


@value
class _Shelf:
    """How a backend wants it: what the files are called, and which blocks its configuration has."""

    backend: str
    files: dict[str, bytes]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    blocks: tuple[str, ...] = ()


def repository(model: Exported, wishes: Wishes) -> dict[str, bytes]:
    """Files by their path below the repository. Raises `Conflict` where Triton has no backend for the model."""
    if model.runtime not in _SHELVES:
        raise Conflict(
            f"Triton has no backend for {model.runtime} models; it takes {', '.join(sorted(_SHELVES))}. "
            "Register the model as ONNX to export it."
        )
    if wishes.fp16 and not wishes.gpu:
        raise Invalid("Half precision is for the GPU: give --gpu too.")
    shelf = _SHELVES[model.runtime](model, wishes)
    folder = f"{model.name}/{model.revision}"
    files = {f"{folder}/{name}": content for name, content in shelf.files.items()}
    return {f"{model.name}/config.pbtxt": _config(model, shelf, wishes).encode(), **files}


def _config(model: Exported, shelf: _Shelf, wishes: Wishes) -> str:
    most = max(wishes.max_batch or LEAST_MAX_BATCH, 0 if wishes.max_batch else model.batch) if model.batches else 0
    blocks = [
        f"# {model.model} version {model.version}, revision {model.revision} of the endpoint {model.name}.".replace("\n", " "),
        f"name: {_text(model.name)}",
        f"backend: {_text(shelf.backend)}",
        f"max_batch_size: {most}",
        _tensors("input", shelf.inputs, batches=model.batches),
        _tensors("output", shelf.outputs, batches=model.batches),
        f"instance_group [ {{ count: 1 kind: {'KIND_GPU' if wishes.gpu else 'KIND_CPU'} }} ]",
    ]
    if model.batches:
        blocks.append(_batching(min(model.batch, most), model.latency_ms))
    return "\n".join([*blocks, *shelf.blocks]) + "\n"


def _batching(preferred: int, latency_ms: int) -> str:
    """Whatever waits goes together, without waiting for more; what has waited beyond the objective is refused."""
    return (
        "dynamic_batching {\n"
        f"  preferred_batch_size: [ {preferred} ]\n"
        "  max_queue_delay_microseconds: 0\n"
        "  default_queue_policy {\n"
        "    timeout_action: REJECT\n"
        f"    default_timeout_microseconds: {latency_ms * 1000}\n"
        "  }\n"
        "}"
    )


def _tensors(kind: str, specs: Sequence[TensorSpec], *, batches: bool) -> str:
    return f"{kind} [\n" + ",\n".join(f"  {{ {_tensor(spec, batches=batches)} }}" for spec in specs) + "\n]"


def _tensor(spec: TensorSpec, *, batches: bool) -> str:
    """The axis of rows goes without saying where there is one. A shape must have an axis: of one number, it is reshaped."""
    if spec.datatype not in _TYPES:
        raise Conflict(f"Triton has no word for the type {spec.datatype} of {spec.name!r}.")
    axes = spec.shape[1:] if batches else spec.shape
    shape = f"dims: [ {', '.join(str(axis) for axis in axes)} ]" if axes else "dims: [ 1 ] reshape { shape: [ ] }"
    return f"name: {_text(spec.name)} data_type: {_TYPES[spec.datatype]} {shape}"


def _parameters(**values: str) -> str:
    return "\n".join(
        f"parameters {{ key: {_text(key)} value: {{ string_value: {_text(text)} }} }}" for key, text in values.items()
    )


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _onnx(model: Exported, wishes: Wishes) -> _Shelf:
    if model.labelled:
        raise Conflict(
            f"The output {model.labelled[0]!r} is a map of classes, which Triton cannot give: convert the model anew with "
            "`zipmap` set to False, and deploy that."
        )
    blocks = _tensorrt(fp16=wishes.fp16) if wishes.gpu else _parameters(intra_op_thread_count=str(model.threads))
    files = {"model.onnx": model.contents[model.main], **model.beside()}
    return _Shelf(backend="onnxruntime", files=files, inputs=model.inputs, outputs=model.outputs, blocks=(blocks,))


def _tensorrt(*, fp16: bool) -> str:
    return (
        "optimization {\n"
        "  execution_accelerators {\n"
        "    gpu_execution_accelerator: [ {\n"
        '      name: "tensorrt"\n'
        f'      parameters {{ key: "precision_mode" value: "{"FP16" if fp16 else "FP32"}" }}\n'
        f'      parameters {{ key: "max_workspace_size_bytes" value: "{_WORKSPACE}" }}\n'
        "    } ]\n"
        "  }\n"
        "}"
    )


def _openvino(model: Exported, wishes: Wishes) -> _Shelf:
    if wishes.gpu:
        raise Invalid("Triton's OpenVINO backend runs on the CPU: leave --gpu out, or export an ONNX model.")
    files = {"model.xml": model.contents[model.main]}
    for name, content in model.beside().items():
        files["model.bin" if name.endswith(".bin") else name] = content
    return _Shelf(backend="openvino", files=files, inputs=model.inputs, outputs=model.outputs)


def _forest(kind: Callable[[bytes], tuple[str, str]]) -> "Callable[[Exported, Wishes], _Shelf]":
    """The Forest Inference Library: one table of FP32 in, and one number or one probability for each class out."""

    def shelf(model: Exported, wishes: Wishes) -> _Shelf:
        content = model.contents[model.main]
        model_type, name = kind(content)
        answers = model.outputs[0].shape[1:]
        is_classifier = "true" if answers else "false"
        given = TensorSpec(name="input__0", datatype="FP32", shape=model.inputs[0].shape)
        told = TensorSpec(name="output__0", datatype="FP32", shape=(-1, *(answers or (1,))))
        # Its older releases say `output_class` for what newer ones call `is_classifier`.
        parameters = _parameters(
            model_type=model_type,
            default_model_filename=name,
            is_classifier=is_classifier,
            output_class=is_classifier,
            predict_proba=is_classifier,
        )
        return _Shelf(backend="fil", files={name: content}, inputs=(given,), outputs=(told,), blocks=(parameters,))

    return shelf


def xgboost_kind(content: bytes) -> tuple[str, str]:
    """UBJSON has the length of a key where JSON has a quote or a space."""
    is_text = content[1:2] in (b'"', b" ", b"\n", b"\r", b"\t")
    return ("xgboost_json", "xgboost.json") if is_text else ("xgboost_ubj", "xgboost.ubj")


_SHELVES: Final[dict[str, Callable[[Exported, Wishes], _Shelf]]] = {
    "onnx": _onnx,
    "openvino": _openvino,
    "lightgbm": _forest(lambda _: ("lightgbm", "model.txt")),
    "xgboost": _forest(xgboost_kind),
}
