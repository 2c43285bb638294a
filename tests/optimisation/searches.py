"""Searches on a real platform, as users begin them: models and rows put there, jobs awaited or killed, variants fetched."""

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

import falaj as sdk
from falaj.client.http import Client
from falaj.jobs.operations.jobs import SHOW_JOB, Job, OneJob
from falaj.optimisation.making.running import answers
from falaj.optimisation.making.values import Made, Sample
from falaj.optimisation.operations.optimisations import SHOW_OPTIMISATION, OneOptimisation, Optimisation
from falaj.optimisation.operations.variants import READ_VARIANT_FILE, ReadVariantFile, Variant
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.optimisation.trained import Columns, part, table
from tests.serving.site import PROJECT, Site, until

PATIENCE = 240.0
ROOM = ("--memory", "2GiB", "--retries", "0")


_FLAVOURS = {
    ".onnx": "onnx: {{data: {file}}}",
    ".lgb": "lightgbm: {{data: {file}}}",
    ".pkl": "sklearn: {{pickled_model: {file}, serialization_format: cloudpickle}}",
}


def run(site: Site, *arguments: str, status: int = 0, **environment: str) -> str:
    """What the command printed; where it fails, with why."""
    done = site.platform.falaj(*arguments, **environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr if status else done.stdout


def register(client: Client, model: str, file: str, content: bytes, columns: tuple[str, ...] = ()) -> None:
    """Version 1; with columns it has a signature that names them."""
    flavour = _FLAVOURS[Path(file).suffix].format(file=file)
    inputs = json.dumps([{"type": "double", "name": name} for name in columns])
    described = f"flavors:\n  {flavour}\nsignature:\n  inputs: '{inputs}'\n".encode()
    files = {file: content} | ({"MLmodel": described} if columns else {})
    client.call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
    run = client.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    for name, one in files.items():
        client.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), chunks=iter((one,)))
    client.call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=run, folder="model"))


def save(client: Client, name: str, columns: Columns, known: int) -> None:
    """The first so many rows to learn from (NAME), the others to judge by (NAME-later)."""
    for dataset, rows in (
        (name, part(columns, 0, known)),
        (f"{name}-later", part(columns, known, len(columns[next(iter(columns))]))),
    ):
        sdk.save_dataset(dataset, table(rows), project=PROJECT, client=client)


def begun(site: Site, *arguments: str) -> tuple[str, str]:
    """The optimisation and its job."""
    told = json.loads(run(site, "optimise", *ROOM, *arguments, "--json"))
    return told["optimisation"]["id"], told["job"]["id"]


def searched(site: Site, client: Client, *arguments: str) -> Optimisation:
    optimisation, job = begun(site, *arguments)
    done = awaited(client, job)
    assert done.state == "done", run(site, "job", "logs", job)
    return shown(client, optimisation)


def awaited(client: Client, job: str) -> Job:
    """Once it is over."""
    deadline = time.monotonic() + PATIENCE
    while (now := job_of(client, job)).ended is None:
        assert time.monotonic() < deadline, "the job did not end in time"
        time.sleep(0.3)
    return now


def job_of(client: Client, job: str) -> Job:
    return client.call(SHOW_JOB, OneJob(project=PROJECT, job=job))


def shown(client: Client, optimisation: str) -> Optimisation:
    return client.call(SHOW_OPTIMISATION, OneOptimisation(project=PROJECT, optimisation=optimisation))


def by_name(found: Optimisation) -> dict[str, Variant]:
    return {one.name: one for one in found.variants}


def kill_while(site: Site, client: Client, optimisation: str, job: str, **states: str) -> None:
    """Once candidates are in these states."""

    def are_so() -> bool:
        now = {one.name: one.state for one in shown(client, optimisation).variants}
        assert job_of(client, job).ended is None, f"it ended before it could be killed: {now}\n{run(site, 'job', 'logs', job)}"
        time.sleep(0.1)
        return states.items() <= now.items()

    until(are_so, PATIENCE)
    assert kill_inside(optimisation) == 1


def kill_inside(optimisation: str) -> int:
    """The program of its job, as by `kill -9`; how many there were."""
    killed = 0
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if optimisation in line and "falaj.client.optimising.job" in line and "bwrap" not in line[0]:
            process.send_signal(signal.SIGKILL)
            killed += 1
    return killed


def said_by(client: Client, variant: Variant, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """What the variant answers when its very files are run here."""

    def content(file: str) -> bytes:
        asked = ReadVariantFile(project=PROJECT, model=variant.model, version=variant.version, variant=variant.id, file=file)
        return b"".join(client.call(READ_VARIANT_FILE, asked).chunks)

    settings = {one.name: one.value for one in variant.settings}
    files = {one.name: content(one.name) for one in variant.files}
    made = Made(runtime=variant.runtime, file=variant.file, files=files, settings=settings)
    return answers(made, Sample(inputs=inputs))


def said_through(site: Site, endpoint: str, tensors: dict[str, np.ndarray]) -> tuple[str, list[np.ndarray]]:
    """Which variant answered, and with what."""
    with site.http(site.token(endpoint)) as http:
        return _read(http.post(f"/v2/models/{endpoint}/infer", json=_body(tensors)))


def _body(tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    kinds = {"float32": "FP32", "float64": "FP64", "int64": "INT64"}
    inputs = [
        {"name": name, "datatype": kinds[str(one.dtype)], "shape": list(one.shape), "data": one.ravel().tolist()}
        for name, one in tensors.items()
    ]
    return {"inputs": inputs}


def _binary(tensors: dict[str, np.ndarray]) -> tuple[bytes, dict[str, str]]:
    """Reading numbers from JSON would take longer than answering."""
    body, raw = _body(tensors), [one.tobytes() for one in tensors.values()]
    for told, one in zip(body["inputs"], raw, strict=True):
        del told["data"]
        told["parameters"] = {"binary_data_size": len(one)}
    head = json.dumps(body).encode()
    return b"".join([head, *raw]), {"inference-header-content-length": str(len(head))}


def _read(response: httpx.Response) -> tuple[str, list[np.ndarray]]:
    assert response.status_code == 200, response.text
    said: dict[str, Any] = response.json()
    arrays = [np.array(one["data"]).reshape(one["shape"]) for one in said["outputs"]]
    return response.headers.get("x-falaj-variant", ""), arrays


def said_under_load(
    site: Site, endpoint: str, tensors: dict[str, np.ndarray], *, callers: int = 24
) -> dict[str, list[np.ndarray]]:
    """What each form said that answered, once more than one had; some callers are turned away."""
    body, headers = _binary(tensors)
    token, seen, over = site.token(endpoint), dict[str, list[np.ndarray]](), threading.Event()

    def call() -> None:
        with site.http(token) as http:
            while not over.is_set():
                response = http.post(f"/v2/models/{endpoint}/infer", content=body, headers=headers)
                if response.status_code != 503:
                    variant, said = _read(response)
                    seen.setdefault(variant, said)

    with ThreadPoolExecutor(callers) as threads:
        calling = [threads.submit(call) for _ in range(callers)]
        try:
            until(lambda: len(seen) > 1 or any(one.done() for one in calling))
        finally:
            over.set()
        for one in calling:
            one.result()
    return seen


def certificate_file(site: Site, folder: Path, model: str, variant: str, *, status: int) -> tuple[str, Path]:
    """What the command printed of it, and where it wrote it; the key lies beside it."""
    path = folder / f"{model}-{variant}.json"
    return run(site, "model", "certificate", model, "1", variant, "--file", str(path), status=status), path
