"""A real platform with a small model that was really trained, and the rows it was trained on and judged by."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
from skl2onnx import to_onnx
from sklearn.datasets import make_classification
from sklearn.neural_network import MLPClassifier

import falaj as sdk
from falaj.client.http import Client
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.serving.site import PROJECT, Site

COLUMNS = tuple(f"x{number}" for number in range(12))
ROWS = 9000


def customers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, what became of each, and where each is from."""
    rows, left = make_classification(n_samples=ROWS, n_features=12, n_informative=8, class_sep=1.6, flip_y=0.01, random_state=4)
    return rows.astype(np.float32), left, np.random.default_rng(5).choice(["ae", "om", "sa"], ROWS, p=[0.5, 0.3, 0.2])


def table(rows: np.ndarray, left: np.ndarray, country: np.ndarray) -> pa.Table:
    return pa.table({name: rows[:, at].astype(float) for at, name in enumerate(COLUMNS)} | {"left": left, "country": country})


def network(rows: np.ndarray, left: np.ndarray) -> bytes:
    """Wide enough that making it smaller is worth something."""
    model = MLPClassifier((256, 256), max_iter=12, early_stopping=True, random_state=0)
    with np.errstate(all="ignore"):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, left)
    return bytes(to_onnx(model, rows[:1], options={"zipmap": False}).SerializeToString())


def register(client: Client, model: str, files: dict[str, bytes], flavour: str = "onnx:\n    data: model.onnx") -> int:
    inputs = json.dumps([{"type": "double", "name": name} for name in COLUMNS])
    described = f"flavors:\n  {flavour}\nsignature:\n  inputs: '{inputs}'\n".encode()
    client.call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
    run = client.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    for name, file in (*files.items(), ("MLmodel", described)):
        client.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), chunks=iter((file,)))
    made: Any = client.call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=run, folder="model"))
    return int(made.version)


def stocked(site: Site) -> Client:
    """With the model `churn`, the rows it learnt from (`known`) and others (`later`)."""
    client = site.platform.client(timeout=120)
    rows, left, country = customers()
    register(client, "churn", {"model.onnx": network(rows[:5000], left[:5000])})
    sdk.save_dataset("known", table(rows[:5000], left[:5000], country[:5000]), project=PROJECT, client=client)
    sdk.save_dataset("later", table(rows[5000:], left[5000:], country[5000:]), project=PROJECT, client=client)
    return client
