"""A real platform with a real serving plane, spoken to as users do."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from falaj.app.home import read_document
from falaj.app.planes import plane_of
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.endpoints import DEPLOY_REVISION, SHOW_ENDPOINT, Deploy, Endpoint, OneEndpoint
from falaj.serving.operations.keys import ASK_FOR_TOKEN, AskForToken
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.app.mortal import MortalPlatform
from tests.servers.processes import free_ports

PROJECT = "default"
PATIENCE = 60.0


class Site:
    def __init__(self, folder: Path, **settings: str) -> None:
        chosen = {"enabled": "true", "port": str(free_ports(1)[0])} | settings  # the usual one any other platform takes, too
        environment = {f"FALAJ_SERVING_{name.upper()}": text for name, text in chosen.items()}
        self.platform = MortalPlatform(folder / "home", **environment).start()

    def close(self) -> None:
        self.platform.falaj("down")
        self.platform.close()

    # Models and endpoints

    def register(self, model: str, content: bytes) -> int:
        """A version with one ONNX file; its number."""
        call = self.platform.call
        with suppress(Exception):
            call(CREATE_MODEL, CreateModel(project=PROJECT, model=model))
        run = call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
        call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name="model.onnx"), chunks=iter((content,)))
        return int(call(CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=run, run=run)).version)

    def deploy(self, endpoint: str, model: str, version: int, **more: Any) -> Endpoint:
        request = Deploy(project=PROJECT, endpoint=endpoint, model=model, version=version, **more)
        return self.settled(self.platform.call(DEPLOY_REVISION, request).endpoint)

    def settled(self, endpoint: Endpoint) -> Endpoint:
        """Once every plane answers by what was last said."""
        until(lambda: self.show(endpoint.name).ready >= max(1, self.show(endpoint.name).planes))
        return self.show(endpoint.name)

    def show(self, endpoint: str) -> Endpoint:
        found: Endpoint = self.platform.call(SHOW_ENDPOINT, OneEndpoint(project=PROJECT, endpoint=endpoint))
        return found

    def token(self, endpoint: str = "") -> str:
        return str(self.platform.call(ASK_FOR_TOKEN, AskForToken(project=PROJECT, endpoint=endpoint)).token)

    # The plane

    @property
    def url(self) -> str:
        return str(read_document(plane_of(self.platform.home).running)["url"])

    @property
    def supervisor(self) -> psutil.Process:
        return psutil.Process(read_document(plane_of(self.platform.home).running)["pid"])

    def workers(self) -> list[psutil.Process]:
        found = []
        for one in self.supervisor.children():
            with suppress(psutil.NoSuchProcess):  # it died this very moment
                found += [one] if "falaj.serving.plane.worker" in one.cmdline() else []
        return found

    def http(self, token: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)


def until(condition: Any, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def body(*numbers: float) -> dict[str, Any]:
    data = list(numbers) or [1.0, 2.0, 3.0, 4.0]
    return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(data) // 4, 4], "data": data}]}


class Load:
    """Callers that never stop asking `endpoint`, each answer held against `right`: revision -> factor."""

    def __init__(self, site: Site, endpoint: str, right: dict[str, float]) -> None:
        self._site, self._endpoint, self._right = site, endpoint, right
        self._ending = threading.Event()
        self.answers: Counter[str] = Counter()  # by revision
        self.failures: list[str] = []
        self.wrong: list[str] = []

    def ask(self) -> None:
        with self._site.http(self._site.token(self._endpoint)) as http:
            while not self._ending.is_set():
                try:
                    self._check(http.post(f"/v2/models/{self._endpoint}/infer", json=body()))
                except httpx.TransportError as error:
                    self.failures.append(repr(error))

    def _check(self, response: httpx.Response) -> None:
        if response.status_code != 200:
            self.failures.append(f"{response.status_code} {response.text}")
            return
        said = json.loads(response.content)
        factor = self._right[said["model_version"]]
        if said["outputs"][0]["data"] != [factor * number for number in (1.0, 2.0, 3.0, 4.0)]:
            self.wrong.append(response.text)
        self.answers[said["model_version"]] += 1

    @contextmanager
    def running(self, callers: int = 4) -> Iterator["Load"]:
        threads = [threading.Thread(target=self.ask) for _ in range(callers)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            for thread in threads:
                thread.join()
