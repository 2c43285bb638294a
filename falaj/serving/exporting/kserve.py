"""An InferenceService for KServe, and the folder that its `storageUri` points to."""

import re
from typing import Any, Final

import yaml

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.serving.exporting import triton
from falaj.serving.exporting.models import Exported

MANIFEST: Final = "inference-service.yaml"
FOLDER: Final = "model"
_LONGEST_NAME: Final = 53  # what is left of a label when KServe has put its own words behind it
_OVERHEAD_MIB: Final = 512
# What KServe calls a model, and how its server finds the file in the folder. A repository of Triton's is called that, whatever
# is in it: for `onnx` KServe may choose a server that wants to find the model elsewhere.
_PLAIN_FILES: Final = {"lightgbm": "model.bst", "xgboost": "model"}
_FORMATS: Final = {"onnx": "triton", "openvino": "triton", "lightgbm": "lightgbm", "xgboost": "xgboost"}


@value
class Wishes:
    """`storage_uri` is where the folder will lie, e.g. `s3://bucket/fraud`."""

    storage_uri: str
    gpu: bool = False
    fp16: bool = False
    least_replicas: int = 1
    most_replicas: int = 3
    cpu: str = "1"


def files(model: Exported, wishes: Wishes) -> dict[str, bytes]:
    """By their path: the manifest, and below `model` what goes to `storage_uri`."""
    if model.runtime not in _FORMATS:
        raise Conflict(f"KServe has no server for {model.runtime} models; it takes {', '.join(sorted(_FORMATS))}.")
    if wishes.least_replicas > wishes.most_replicas:
        raise Invalid(f"At least {wishes.least_replicas} and at most {wishes.most_replicas} replicas cannot be.")
    manifest = yaml.safe_dump(service(model, wishes), sort_keys=False).encode()
    return {MANIFEST: manifest, **{f"{FOLDER}/{name}": content for name, content in _folder(model, wishes).items()}}


def service(model: Exported, wishes: Wishes) -> dict[str, Any]:
    memory = f"{_OVERHEAD_MIB + 3 * (model.size >> 20)}Mi"
    resources = {"cpu": wishes.cpu, "memory": memory} | ({"nvidia.com/gpu": "1"} if wishes.gpu else {})
    predictor: dict[str, Any] = {"minReplicas": wishes.least_replicas, "maxReplicas": wishes.most_replicas}
    if model.concurrency:
        predictor |= {
            "scaleMetric": "concurrency",
            "scaleTarget": model.concurrency,
            "containerConcurrency": model.concurrency,
        }
    predictor["model"] = {
        "modelFormat": {"name": _FORMATS[model.runtime]},
        "protocolVersion": "v2",
        "storageUri": wishes.storage_uri,
        "resources": {"requests": dict(resources), "limits": dict(resources)},
    }
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name_of(model.name),
            "annotations": {
                "falaj/endpoint": model.name,
                "falaj/revision": str(model.revision),
                "falaj/model": f"{model.model}:{model.version}",
            },
        },
        "spec": {"predictor": predictor},
    }


def name_of(endpoint: str) -> str:
    """As Kubernetes wants names: letters, digits and hyphens, a letter first."""
    plain = re.sub(r"[^a-z0-9]+", "-", endpoint).strip("-")
    return (plain if plain[:1].isalpha() else f"m-{plain}")[:_LONGEST_NAME].rstrip("-")


def _folder(model: Exported, wishes: Wishes) -> dict[str, bytes]:
    content = model.contents[model.main]
    if model.runtime in _PLAIN_FILES:
        kind = triton.xgboost_kind(content)[1].rpartition(".")[2] if model.runtime == "xgboost" else ""
        return {f"{_PLAIN_FILES[model.runtime]}{'.' if kind else ''}{kind}": content}
    shelves = triton.repository(model, triton.Wishes(gpu=wishes.gpu, fp16=wishes.fp16))
    # Callers name the service; Triton looks for a model of that very name.
    folder, named = f"{model.name}/", f"{name_of(model.name)}/"
    renamed = {named + place.removeprefix(folder): file for place, file in shelves.items()}
    config = f"{named}config.pbtxt"
    renamed[config] = re.sub(rb'(?m)^name: ".*"$', f'name: "{name_of(model.name)}"'.encode(), renamed[config], count=1)
    return renamed
