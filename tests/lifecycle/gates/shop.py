"""A shop with a model that was really trained, versions of it that are as good and worse, and rows to judge them by."""

import json
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from skl2onnx import to_onnx
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression

import falaj as sdk
from falaj.client.http import Client
from falaj.datasets.operations.classes import CLASSIFY_COLUMNS, Classified, ClassifyColumns
from falaj.lifecycle.operations.gates import READ_RESULTS, RUN_GATES, GateRun, GateRuns, ReadResults, RunGates
from falaj.registry.operations.evidence import READ_EVIDENCE, Evidence, ReadEvidence
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.promotions import PROMOTE, Promote, Promotion
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun

PROJECT = "default"
MODEL = "scorer"
COLUMNS = tuple(f"x{number}" for number in range(6))
KNOWN, ROWS = 1500, 6000
PATIENCE = 120.0


def customers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, what became of each, and where each is from."""
    rows, left = make_classification(n_samples=ROWS, n_features=6, n_informative=4, class_sep=1.5, flip_y=0.02, random_state=4)
    return rows.astype(np.float32), left, np.random.default_rng(5).choice(["ae", "om", "sa"], ROWS, p=[0.5, 0.3, 0.2])


def table(start: int, end: int) -> pa.Table:
    rows, left, country = customers()
    columns: dict[str, Any] = {name: rows[start:end, at].astype(float) for at, name in enumerate(COLUMNS)}
    return pa.table(columns | {"left": left[start:end], "country": country[start:end]})


def trained(strength: float = 1.0, wrong: float = 0.0) -> bytes:
    """On the rows that are known, of which so many were labelled wrongly."""
    rows, left, _ = customers()
    labels = left[:KNOWN].copy()
    mislabelled = np.random.default_rng(7).random(KNOWN) < wrong
    labels[mislabelled] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=strength).fit(rows[:KNOWN], labels)
        return bytes(to_onnx(model, rows[:1], options={"zipmap": False}).SerializeToString())


def register(client: Client, content: bytes, *, model: str = MODEL, requirements: str = "", source_run: str = "") -> int:
    inputs = json.dumps([{"type": "double", "name": name} for name in COLUMNS])
    described = f"flavors:\n  onnx:\n    data: model.onnx\nsignature:\n  inputs: '{inputs}'\n".encode()
    files: Mapping[str, bytes] = {"model.onnx": content, "MLmodel": described}
    if requirements:
        files = {**files, "requirements.txt": requirements.encode()}
    run = source_run or client.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    for name, one in files.items():
        client.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), chunks=iter((one,)))
    request = CreateVersion(project=PROJECT, model=model, holder=run, folder="model", run=run)
    return int(client.call(CREATE_VERSION, request).version)


def stocked(client: Client) -> None:
    """Version 1 is the champion, 2 is as good, 3 is worse."""
    sdk.save_dataset("known", table(0, KNOWN), project=PROJECT, client=client)
    sdk.save_dataset("later", table(KNOWN, ROWS), project=PROJECT, client=client)
    client.call(CREATE_MODEL, CreateModel(project=PROJECT, model=MODEL))
    for content in (trained(), trained(0.5), trained(wrong=0.9)):
        register(client, content)
    promote(client, 1)


def priced(client: Client) -> None:
    """The model `price` of two versions, the second far worse, and rows whose countries are classified."""
    rows, _, country = customers()
    price = rows @ np.arange(1, 7, dtype=np.float32) + 0.1 * np.random.default_rng(3).normal(size=ROWS)
    columns: dict[str, Any] = {name: rows[:, at].astype(float) for at, name in enumerate(COLUMNS)}
    sdk.save_dataset("prices", pa.table(columns | {"price": price, "country": country}), project=PROJECT, client=client)
    hidden = (Classified(column="country", kind="sensitive"),)
    client.call(CLASSIFY_COLUMNS, ClassifyColumns(project=PROJECT, dataset="prices", columns=hidden))
    client.call(CREATE_MODEL, CreateModel(project=PROJECT, model="price"))
    for wrong in (0.0, 1.0):
        model = LinearRegression().fit(rows, price + wrong * rows[:, 0])
        register(client, bytes(to_onnx(model, rows[:1]).SerializeToString()), model="price")


def promote(client: Client, version: int, alias: str = "champion") -> Promotion:
    return client.call(PROMOTE, Promote(project=PROJECT, model=MODEL, alias=alias, version=version))


def run(client: Client, version: int, *gates: str, model: str = MODEL, source: str = "") -> dict[str, GateRun]:
    """By gate, once all are over."""
    request = RunGates(project=PROJECT, model=model, version=version, gates=gates, source=source)
    return by_gate(awaited(client, client.call(RUN_GATES, request)))


def awaited(client: Client, runs: GateRuns) -> GateRuns:
    deadline = time.monotonic() + PATIENCE
    request = ReadResults(project=PROJECT, model=runs.model, version=runs.version, batch=runs.batch)
    while not runs.over:
        runs = client.call(READ_RESULTS, request)
        assert time.monotonic() < deadline, f"the gates were not over in time: {runs}"
        time.sleep(0.1)
    return runs


def by_gate(runs: GateRuns) -> dict[str, GateRun]:
    return {one.gate: one for one in runs.items}


def evidence(client: Client, version: int, gate: str = "", model: str = MODEL) -> tuple[Evidence, ...]:
    request = ReadEvidence(project=PROJECT, model=model, version=version, gate=gate)
    return client.call(READ_EVIDENCE, request).items
