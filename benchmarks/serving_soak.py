"""Predictions under load for as long as you like, while models are updated and everything is killed in turn.

make soak SOAK_MINUTES=60        the last line is one JSON object; the exit status is 1 where anything was wrong

Version N of the model multiplies by N and every answer names its version, so each answer is held against what it should be.
A caller may lose a request only while a process is being killed; a wrong answer is never excused.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import onnx
import psutil
import tritonclient.grpc as triton
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from falaj.app.home import Home, read_document
from falaj.app.planes import plane_of
from falaj.base.errors import FalajError
from falaj.client.http import Client
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.keys import CREATE_KEY, CreateKey
from falaj.serving.operations.words import WHOLE, Arm, Mode
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun

PROJECT, MODEL, ENDPOINT = "default", "times", "soak"
VERSIONS: Final = 5
WIDTH: Final = 8
EXCUSED_FOR: Final = 15.0  # seconds after a kill in which a request may be lost
GROWTH_X, GROWTH_MB = 1.25, 40.0
OURS: Final[dict[str, Any]] = {"project": PROJECT, "endpoint": ENDPOINT}


def multiplies(factor: int) -> bytes:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        MODEL,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", WIDTH])],
        [numpy_helper.from_array(np.array(factor, np.float32), "k")],
    )
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


class Site:
    """A platform and its plane in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(path=folder / "home")
        kept = {name: text for name, text in os.environ.items() if not name.startswith("FALAJ_")}
        self._environment = kept | {"FALAJ_SERVING_WORKERS": "2"}
        self._output = folder / "output"
        self._process: subprocess.Popen[bytes] | None = None
        self.killed = 0.0

    def start(self) -> None:
        with self._output.open("ab") as output:
            command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "falaj.cli.main", "up"]
            arguments = ["--home", str(self.home.path), "--port", "0"]
            self._process = subprocess.Popen([*command, *arguments], stdout=output, stderr=output, env=self._environment)
        until(lambda: read_document(self.home.server).get("pid") == self._process.pid and self._answers())  # type: ignore[union-attr]

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{read_document(self.home.server)['url']}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def client(self) -> Client:
        known = read_document(self.home.credentials)
        return Client(known["url"], known["token"], timeout=30)

    def call(self, operation: Any, request: Any, **more: Any) -> Any:
        with self.client() as client:
            return client.call(operation, request, **more)

    @property
    def url(self) -> str:
        return str(read_document(plane_of(self.home).running).get("url", ""))

    def supervisor(self) -> psutil.Process:
        return psutil.Process(int(read_document(plane_of(self.home).running)["pid"]))

    def workers(self) -> list[psutil.Process]:
        return self.supervisor().children()

    def kill(self, what: str) -> None:
        self.killed = time.monotonic()
        if what == "worker":
            random.choice(self.workers()).kill()
        elif what == "plane":
            self.supervisor().kill()
        elif self._process is not None:
            self._process.kill()
            self._process.wait()
            self.start()

    def stop(self) -> None:
        command = [sys.executable, "-m", "falaj.cli.main", "down", "--home", str(self.home.path)]
        subprocess.run(command, env=self._environment, check=False, capture_output=True)
        if self._process is not None:
            self._process.wait(timeout=60)


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("it did not come true in time")
        time.sleep(0.05)


class Tally:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.by_version: Counter[int] = Counter()
        self.told: list[str] = []

    def add(self, what: str, words: str = "") -> None:
        with self.lock:
            self.counts[what] += 1
            if words and len(self.told) < 20:
                self.told.append(f"{what}: {words[:300]}")


class Callers:
    """Threads that ask over REST in JSON, over REST in binary and over gRPC, and never stop."""

    def __init__(self, site: Site, token: str, tally: Tally, ending: threading.Event) -> None:
        self._site, self._token, self._tally, self._ending = site, token, tally, ending
        self.threads = [threading.Thread(target=self._ask, args=(way,)) for way in (self._json, self._binary, self._grpc) * 2]

    def _ask(self, way: Callable[[], None]) -> None:
        while not self._ending.is_set():
            try:
                way()
            except (httpx.TransportError, InferenceServerException, OSError, KeyError) as error:
                excused = time.monotonic() - self._site.killed < EXCUSED_FOR
                self._tally.add("excused" if excused else "failed", "" if excused else repr(error))
                time.sleep(0.05)

    def _check(self, given: Any, version: int, got: Any) -> None:
        right = (given * np.float32(version)).tolist() == np.asarray(got, np.float32).reshape(given.shape).tolist()
        self._tally.add("answers" if right else "wrong", "" if right else f"version {version}: {given} -> {got}")
        self._tally.by_version[version] += 1

    def _rows(self) -> Any:
        return np.random.default_rng().standard_normal((random.randint(1, 8), WIDTH), dtype=np.float32)

    def _post(self, http: httpx.Client, content: bytes, headers: dict[str, str]) -> httpx.Response | None:
        response = http.post(f"/v2/models/{ENDPOINT}/infer", content=content, headers=headers)
        if response.status_code == 200:
            return response
        excused = time.monotonic() - self._site.killed < EXCUSED_FOR
        self._tally.add("excused" if excused else "failed", "" if excused else f"{response.status_code} {response.text}")
        return None

    def _http(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self._token}"}
        return httpx.Client(base_url=self._site.url, headers=headers, timeout=20, trust_env=False)

    def _json(self) -> None:
        with self._http() as http:
            while not self._ending.is_set():
                rows = self._rows()
                tensor = {"name": "x", "datatype": "FP32", "shape": rows.shape, "data": rows.ravel().tolist()}
                response = self._post(http, json.dumps({"inputs": [tensor]}).encode(), {})
                if response is not None:
                    said = response.json()
                    self._check(rows, said["parameters"]["version"], said["outputs"][0]["data"])

    def _binary(self) -> None:
        with self._http() as http:
            while not self._ending.is_set():
                rows = self._rows()
                tensor = {"name": "x", "datatype": "FP32", "shape": rows.shape, "parameters": {"binary_data_size": rows.nbytes}}
                asked = {"inputs": [tensor], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}
                head = json.dumps(asked).encode()
                response = self._post(http, head + rows.tobytes(), {"inference-header-content-length": str(len(head))})
                if response is not None:
                    length = int(response.headers["inference-header-content-length"])
                    version = json.loads(response.content[:length])["parameters"]["version"]
                    self._check(rows, version, np.frombuffer(response.content[length:], np.float32))

    def _grpc(self) -> None:
        client = triton.InferenceServerClient(self._site.url.removeprefix("http://"))
        try:
            while not self._ending.is_set():
                rows = self._rows()
                given = triton.InferInput("x", list(rows.shape), "FP32")
                given.set_data_from_numpy(rows)
                headers = {"authorization": f"Bearer {self._token}"}
                answer = client.infer(ENDPOINT, [given], headers=headers, client_timeout=20)
                self._check(rows, answer.get_response().parameters["version"].int64_param, answer.as_numpy("y"))
        finally:
            client.close()


class Updater:
    """Deploys, splits, promotes and goes back, a second or two apart."""

    def __init__(self, site: Site, tally: Tally, ending: threading.Event) -> None:
        self._site, self._tally, self._ending = site, tally, ending
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ending.wait(random.uniform(0.5, 2.0)):
            try:
                random.choice((self._deploy, self._deploy, self._promote, self._go_back, self._split))()
                self._tally.add("updates")
            except (FalajError, KeyError):  # the control plane is down, or there is nothing to go back to
                self._tally.add("refused updates")

    def _deploy(self) -> None:
        mode: Mode = random.choice(("live", "canary", "shadow", "ab"))
        version = random.randint(1, VERSIONS)
        share = random.randint(500, 5_000)
        request = declared.Deploy(**OURS, model=MODEL, version=version, mode=mode, share=share)
        self._site.call(declared.DEPLOY_REVISION, request, retry=False)

    def _promote(self) -> None:
        self._site.call(declared.PROMOTE_REVISION, declared.PromoteRevision(**OURS), retry=False)

    def _go_back(self) -> None:
        self._site.call(declared.ROLL_BACK, declared.RollBack(**OURS), retry=False)

    def _split(self) -> None:
        page = self._site.call(declared.READ_REVISIONS, declared.ReadRevisions(**OURS, limit=2), retry=False)
        if len(page.items) == 2:
            share = random.randint(1, WHOLE - 1)
            arms = (Arm(revision=page.items[0].number, share=share), Arm(revision=page.items[1].number, share=WHOLE - share))
            self._site.call(declared.SPLIT_TRAFFIC, declared.Split(**OURS, arms=arms), retry=False)


def prepared(site: Site) -> str:
    """Versions registered, the first deployed; a key that outlives the soak."""
    site.start()
    site.call(CREATE_MODEL, CreateModel(project=PROJECT, model=MODEL))
    for factor in range(1, VERSIONS + 1):
        run = site.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
        put = PutArtifact(project=PROJECT, holder=run, name="model.onnx")
        site.call(PUT_ARTIFACT, put, chunks=iter((multiplies(factor),)))
        site.call(CREATE_VERSION, CreateVersion(project=PROJECT, model=MODEL, holder=run, run=run))
    site.call(declared.DEPLOY_REVISION, declared.Deploy(**OURS, model=MODEL, version=1))
    until(lambda: site.call(declared.SHOW_ENDPOINT, declared.OneEndpoint(**OURS)).ready)
    return str(site.call(CREATE_KEY, CreateKey(project=PROJECT, label="soak")).token)


def soak(site: Site, minutes: float) -> dict[str, Any]:
    token, tally, ending = prepared(site), Tally(), threading.Event()
    callers, updater = Callers(site, token, tally, ending), Updater(site, tally, ending)
    for thread in (*callers.threads, updater.thread):
        thread.start()
    end, sizes = time.monotonic() + 60 * minutes, []
    kinds = ["worker", "worker", "plane", "worker", "control plane"]
    pause = max(6.0, min(60.0, 60 * minutes / 6))
    while time.monotonic() < end:
        time.sleep(min(pause, max(0.0, end - time.monotonic())))
        with suppress(psutil.Error, KeyError):
            sizes.append(sum(one.memory_info().rss for one in (site.supervisor(), *site.workers())) / 2**20)
        if end - time.monotonic() > pause:
            what = kinds[tally.counts["kills"] % len(kinds)]
            tally.add("kills")
            with suppress(psutil.Error, KeyError, IndexError):
                site.kill(what)
            print(f"{dict(tally.counts)}, {what} killed, {sizes[-1] if sizes else 0:.0f} MB", flush=True)
    ending.set()
    for thread in (*callers.threads, updater.thread):
        thread.join()
    early, late = sizes[len(sizes) // 4], sizes[-1]
    grown = late > early * GROWTH_X and late > early + GROWTH_MB
    counts = tally.counts
    return {
        "minutes": minutes,
        **{name.replace(" ", "_"): counts[name] for name in ("answers", "wrong", "failed", "excused", "updates", "kills")},
        "versions_seen": len(tally.by_version),
        "mb_early": round(early, 1),
        "mb_late": round(late, 1),
        "told": tally.told,
        "ok": not (counts["wrong"] or counts["failed"] or grown) and counts["answers"] > 0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="falaj-soak-") as folder:
        site = Site(Path(folder))
        try:
            found = soak(site, arguments.minutes)
        finally:
            site.stop()
    print(json.dumps(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
