"""What strangers and neighbours tried on a real plane, and got nowhere with."""

import gzip
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import grpc
import httpx
import psutil
import pytest

from falaj.app.home import read_document
from falaj.app.planes import plane_of
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.serving.operations.endpoints import DEPLOY_REVISION, Deploy
from falaj.serving.operations.keys import ASK_FOR_TOKEN, AskForToken
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.serving.graphs import times
from tests.serving.site import Site, body, until

MIB = 1024 * 1024


class TwoProjects:
    """A plane with one worker that both share; each has an endpoint `own-PROJECT`."""

    def __init__(self, site: Site) -> None:
        self.site, self.tokens = site, {}
        call = site.platform.call
        for project, factor in (("alpha", 2.0), ("beta", 5.0)):
            call(CREATE_PROJECT, CreateProject(name=project, zones=("home",)))
            call(CREATE_MODEL, CreateModel(project=project, model="times"))
            run = call(CREATE_RUN, CreateRun(project=project)).info.id
            put = PutArtifact(project=project, holder=run, name="model.onnx")
            call(PUT_ARTIFACT, put, chunks=iter((times(factor),)))
            call(CREATE_VERSION, CreateVersion(project=project, model="times", holder=run, run=run))
            call(DEPLOY_REVISION, Deploy(project=project, endpoint=f"own-{project}", model="times", version=1))
            self.tokens[project] = call(ASK_FOR_TOKEN, AskForToken(project=project)).token
        until(lambda: read_document(plane_of(site.platform.home).running))
        for project, token in self.tokens.items():
            with site.http(token) as http:
                until(lambda http=http, name=f"own-{project}": http.get(f"/v2/models/{name}/ready").status_code == 200)

    def connect(self) -> socket.socket:
        host, _, port = self.site.url.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)), timeout=10)

    def memory(self) -> int:
        return sum(worker.memory_info().rss for worker in self.site.workers())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("attacked"), workers="1")
    try:
        yield TwoProjects(site)
    finally:
        site.close()


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/repository/index", "/v2/models/own-beta/infer"])
def test_bodies_that_strangers_announce_take_no_memory(both, path):
    before = both.memory()
    strangers = [both.connect() for _ in range(16)]
    method = "GET" if path.endswith("live") else "POST"
    for stranger in strangers:
        stranger.sendall(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {60 * MIB}\r\n\r\na".encode())
    assert all(stranger.recv(12) in (b"HTTP/1.1 413", b"HTTP/1.1 401") for stranger in strangers)
    assert both.memory() - before < 64 * MIB
    for stranger in strangers:
        stranger.close()


def test_a_body_that_is_announced_by_somebody_we_know_takes_memory_as_it_comes(both):
    before, token = both.memory(), both.tokens["alpha"]
    slow = [both.connect() for _ in range(16)]
    for one in slow:
        head = f"POST /v2/models/own-alpha/infer HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
        one.sendall(f"{head}content-length: {60 * MIB}\r\n\r\na".encode())
    time.sleep(0.5)
    assert both.memory() - before < 64 * MIB
    for one in slow:
        one.close()


def test_nothing_that_a_stranger_compressed_is_unfolded_and_little_does_not_become_much(both):
    bomb = gzip.compress(b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[' + b"[]," * 5_000_000 + b"[]]}]}")
    for token, status in (("", 401), (both.tokens["alpha"], 413)):
        with both.site.http(token) as http:
            answer = http.post("/v2/models/own-alpha/infer", content=bomb, headers={"content-encoding": "gzip"})
        assert answer.status_code == status


def test_metrics_that_two_projects_ask_for_at_once_are_each_ones_own(both):
    mixed: list[str] = []

    def read(own: str, other: str) -> None:
        with both.site.http(both.tokens[own]) as http:
            for _ in range(40):
                text = http.get("/metrics").text
                if f'project="{other}"' in text or f'project="{own}"' not in text:
                    mixed.append(text)
            with both.site.http("bad") as stranger:
                assert stranger.get("/metrics").status_code == 401

    for project, token in both.tokens.items():
        with both.site.http(token) as http:
            assert http.post(f"/v2/models/own-{project}/infer", json=body()).status_code == 200
    threads = [threading.Thread(target=read, args=pair) for pair in (("alpha", "beta"), ("beta", "alpha")) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed == []


def test_one_project_that_floods_a_worker_with_large_requests_does_not_fail_anothers(both):
    """Bodies that do not end, and JSON that takes long to read."""
    token, ending, statuses = both.tokens["alpha"], threading.Event(), []
    head = f"POST /v2/models/own-alpha/infer HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
    slow = [both.connect() for _ in range(20)]

    def hold(one: socket.socket) -> None:
        with suppress(OSError):
            one.sendall(f"{head}content-length: {60 * MIB}\r\n\r\n".encode() + bytes(40 * MIB))

    def flood() -> None:
        with both.site.http(token) as http:
            while not ending.is_set():
                with suppress(httpx.TransportError):
                    http.post("/v2/models/own-alpha/infer", json=body(*([1.0] * 400_000)))

    threads = [threading.Thread(target=hold, args=(one,)) for one in slow]
    threads += [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    with both.site.http(both.tokens["beta"]) as http:
        for turn in range(60):
            large = body(*([1.0] * 40_000)) if turn % 20 == 0 else body()
            statuses.append(http.post("/v2/models/own-beta/infer", json=large).status_code)
    ending.set()
    for one in slow:
        one.close()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}


def test_another_projects_endpoint_is_not_there_whatever_is_asked_of_it(both):
    asked = [
        ("POST", "/v2/models/{}/infer", body()),
        ("POST", "/v2/models/{}/versions/1/infer", body()),
        ("POST", "/v2/endpoints/{}/predict", {"records": [{"x": [1, 2, 3, 4]}]}),
        ("GET", "/v2/models/{}", None),
        ("GET", "/v2/models/{}/ready", None),
        ("POST", "/v2/repository/models/{}/load", {}),
        ("POST", "/v2/repository/models/{}/unload", {}),
    ]
    with both.site.http(both.tokens["alpha"]) as http:
        for method, path, content in asked:
            theirs = http.request(method, path.format("own-beta"), json=content)
            nobodys = http.request(method, path.format("own-none"), json=content)
            assert (theirs.status_code, theirs.text.replace("own-beta", "own-none")) == (404, nobodys.text)
        assert {one["name"] for one in http.post("/v2/repository/index").json()} == {"own-alpha"}


def test_where_memory_runs_short_a_worker_goes_first(both):
    (worker,) = both.site.workers()
    own = int(Path(f"/proc/{both.site.supervisor.pid}/oom_score_adj").read_text())
    assert int(Path(f"/proc/{worker.pid}/oom_score_adj").read_text()) > own
    assert worker.rlimit(psutil.RLIMIT_DATA)[0] <= psutil.virtual_memory().total


def test_nothing_large_is_read_from_strangers_over_grpc(both):
    with grpc.insecure_channel(both.site.url.removeprefix("http://")) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            with pytest.raises(grpc.RpcError) as refusal:
                infer(b"not even protobuf" * 100_000, timeout=20, compression=compression)
            assert refusal.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_token_for_one_endpoint_sees_the_metrics_of_that_one(both):
    call = both.site.platform.call
    call(DEPLOY_REVISION, Deploy(project="alpha", endpoint="second", model="times", version=1))
    narrow = call(ASK_FOR_TOKEN, AskForToken(project="alpha", endpoint="own-alpha")).token
    with both.site.http(both.tokens["alpha"]) as http:
        until(lambda: http.get("/v2/models/second/ready").status_code == 200)
        for name in ("second", "own-alpha"):
            assert http.post(f"/v2/models/{name}/infer", json=body()).status_code == 200
        assert 'endpoint="second"' in http.get("/metrics").text
    with both.site.http(narrow) as http:
        text = http.get("/metrics").text
    assert 'endpoint="own-alpha"' in text
    assert 'endpoint="second"' not in text
