"""Several hosts, hosts without a control plane, and answers that are sent: with real processes."""

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from falaj.app.home import read_document
from falaj.base.errors import Unauthenticated
from falaj.client.http import Client
from falaj.client.predictions import Planes
from falaj.governance.zones.operations import CREATE_ZONE, CreateZone
from falaj.serving.operations.endpoints import CONFIGURE, Configure, Options
from falaj.serving.operations.keys import CREATE_KEY, CreateKey
from falaj.serving.operations.planes import DELETE_PLANE, READ_STATE, OnePlane, ReadState
from falaj.serving.plane.joining import Join, read_join, write_join
from tests.app.mortal import environment_of
from tests.serving.graphs import times
from tests.serving.site import PROJECT, Site, body, until


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("site"), workers="1")
    for factor in (1.0, 2.0):
        made.register("times", times(factor))
    yield made
    made.close()


class Host:
    """`falaj serve --directory` as on a machine of its own: another home, nothing of the platform's but what it is given."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        command = [
            sys.executable,
            "-m",
            "falaj.cli.main",
            "serve",
            "--directory",
            str(directory),
            "--port",
            "0",
            "--workers",
            "1",
        ]
        environment = environment_of(FALAJ_HOME=str(directory.with_name("nobody-s-home")))
        self.output = directory.with_name(directory.name + ".output")
        with self.output.open("wb") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            self.process = subprocess.Popen([*command, *arguments], env=environment, **streams)

    @property
    def url(self) -> str:
        def is_up() -> bool:
            assert self.process.poll() is None, self.output.read_text()
            return (self.directory / "running.json").exists()

        until(is_up)
        return str(read_document(self.directory / "running.json")["url"])

    def kill(self) -> None:
        """As when the machine loses its power."""
        if self.process.poll() is None:
            workers = psutil.Process(self.process.pid).children()
            for one in (self.process, *workers):
                one.kill()
            psutil.wait_procs(workers, timeout=10)
        self.process.wait()


@contextmanager
def joined(site: Site, folder: Path, name: str, zone: str = "home") -> Iterator[Host]:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.json"
    made = site.platform.falaj("plane", "create", name, "--zone", zone, "--file", str(file))
    assert made.returncode == 0, made.stderr
    host = Host(folder / name, "--join", str(file))
    try:
        yield host
    finally:
        host.kill()
        site.platform.call(DELETE_PLANE, OnePlane(plane=name))


def answer(url: str, endpoint: str, token: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.post(f"{url}/v2/models/{endpoint}/infer", json=body(), headers=headers, timeout=30, trust_env=False)


def test_a_deployment_waits_for_every_host_and_outlives_the_loss_of_one(site, tmp_path):
    site.deploy("spread", "times", 1)
    with joined(site, tmp_path, "second") as second:
        until(lambda: site.show("spread").planes == 2)
        made = site.platform.falaj("deploy", "times:2", "--name", "spread", "--project", PROJECT, "--json")
        endpoint = json.loads(made.stdout)["endpoint"]
        assert (endpoint["planes"], endpoint["ready"], len(endpoint["urls"])) == (2, 2, 2)
        assert set(endpoint["urls"]) == {site.url, second.url}
        token = site.token("spread")
        for url in endpoint["urls"]:
            assert answer(url, "spread", token).json()["outputs"][0]["data"] == [2, 4, 6, 8]
            assert httpx.get(f"{url}/v2/health/ready", trust_env=False).status_code == 200
        planes = Planes(endpoint["urls"], token)
        second.kill()
        for _ in range(4):
            assert planes.predict("spread", [{"x": [1, 2, 3, 4]}])["predictions"] == [[2, 4, 6, 8]]
        asked = ("predict", "spread", '{"x": [1, 2, 3, 4]}', "--project", PROJECT, "--json")
        assert json.loads(site.platform.falaj(*asked).stdout)["predictions"] == [[2, 4, 6, 8]]


def test_a_host_of_another_zone_gets_nothing_of_this_one(site, tmp_path):
    site.deploy("at-home", "times", 1)
    site.platform.call(CREATE_ZONE, CreateZone(name="abroad", country="DE", storage="local"))
    with joined(site, tmp_path, "foreign", "abroad") as foreign:
        url = foreign.url
        until(lambda: (foreign.directory / "state.sealed").exists())
        until(lambda: httpx.get(f"{url}/v2/health/ready", trust_env=False).status_code == 200)
        assert list((foreign.directory / "models").iterdir()) == []
        assert answer(url, "at-home", site.token()).status_code == 404
        assert site.show("at-home").planes == 1


def test_a_host_renews_its_token_before_it_ends(site, tmp_path):
    site.deploy("renewed", "times", 1)
    with joined(site, tmp_path, "lasting") as host:
        until(lambda: site.show("renewed").ready == 2)
        file = host.directory.with_name(host.directory.name + ".keys") / "plane.json"
        before = read_join(file)
        assert before.renew_at > time.time_ns() // 1000
        write_join(file, replace(before, renew_at=1))
        until(lambda: read_join(file).token != before.token)
        assert read_join(file).renew_at > time.time_ns() // 1000
        until(lambda: refused(before))
        site.deploy("renewed", "times", 2)  # it goes on hearing of what is new
        assert answer(host.url, "renewed", site.token("renewed")).json()["outputs"][0]["data"] == [2, 4, 6, 8]


def refused(join: Join) -> bool:
    with Client(join.url, join.token) as client:
        try:
            client.call(READ_STATE, ReadState(), retry=False)
        except Unauthenticated:
            return True
    return False


def test_an_edge_bundle_answers_where_no_platform_is(site, tmp_path):
    site.deploy("on-edge", "times", 2)
    exported = site.platform.falaj("export", "edge", "on-edge", "--directory", str(tmp_path / "made"), "--project", PROJECT)
    assert exported.returncode == 0, exported.stderr
    key = site.platform.call(CREATE_KEY, CreateKey(project=PROJECT, label="a device", endpoints=("on-edge",), days=7)).token
    shutil.copytree(tmp_path / "made", tmp_path / "carried")
    shutil.rmtree(tmp_path / "made")
    site.platform.stop()
    try:
        host = Host(tmp_path / "carried")
        try:
            until(lambda: is_ready(host.url))
            said = answer(host.url, "on-edge", key).json()
            assert (said["outputs"][0]["data"], said["model_version"]) == ([2, 4, 6, 8], "1")
            assert answer(host.url, "on-edge", "none").status_code == 401
            host.kill()
            again = Host(tmp_path / "carried")
            until(lambda: is_ready(again.url))
            assert answer(again.url, "on-edge", key).status_code == 200
            again.kill()
            spoilt = tmp_path / "carried" / "state.sealed"
            spoilt.write_bytes(bytes(len(spoilt.read_bytes())))
            broken = Host(tmp_path / "carried")
            assert broken.process.wait(60) != 0
            assert "not a state any more" in broken.output.read_text()
        finally:
            host.kill()
    finally:
        site.platform.start()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v2/health/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_a_model_is_exported_to_triton_and_to_kserve(site, tmp_path):
    site.deploy("to-others", "times", 1)
    falaj, named = site.platform.falaj, ("to-others", "--project", PROJECT)
    made = falaj("export", "triton", *named, "--directory", str(tmp_path / "repository"), "--gpu")
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "repository" / "to-others" / "config.pbtxt").read_text()
    assert text_format.Parse(text, model_config_pb2.ModelConfig()).max_batch_size > 0
    assert (tmp_path / "repository" / "to-others" / "1" / "model.onnx").read_bytes() == times(1.0)
    assert falaj("export", "triton", *named, "--directory", str(tmp_path / "repository")).returncode == 1
    wanted = ("--directory", str(tmp_path / "service"), "--storage-uri", "s3://models/to-others")
    made = falaj("export", "kserve", *named, *wanted)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "service" / "inference-service.yaml").exists()
    assert (tmp_path / "service" / "model" / "to-others" / "1" / "model.onnx").exists()


class _Receiver(BaseHTTPRequestHandler):
    got: list[tuple[dict[str, str], bytes]]

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.got.append(({name.lower(): text for name, text in self.headers.items()}, content))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_an_asynchronous_answer_is_sent_signed_to_a_listed_host_alone(site):
    site.deploy("called-back", "times", 2)
    got: list[tuple[dict[str, str], bytes]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Receiver", (_Receiver,), {"got": got}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        host = f"127.0.0.1:{server.server_address[1]}"
        options = Options(callbacks=(host,))
        request = Configure(project=PROJECT, endpoint="called-back", options=options)
        site.settled(site.platform.call(CONFIGURE, request))
        with site.http(site.token("called-back")) as http:
            ask = {"url": "/v2/models/called-back/infer", "json": body()}
            assert http.post(**ask, headers={"x-falaj-callback": "http://127.0.0.1:1/"}).status_code == 403
            taken = http.post(**ask, headers={"x-falaj-callback": f"http://{host}/hook"})
            assert taken.status_code == 202
        until(lambda: got)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    [(fields, content)] = got
    assert fields["webhook-id"] == taken.json()["id"]
    assert json.loads(content)["outputs"][0]["data"] == [2, 4, 6, 8]
    shown = site.platform.falaj("endpoint", "callback-secret", "called-back", "--project", PROJECT).stdout.strip()
    key = base64.b64decode(shown.removeprefix("whsec_"))
    signed = f"{fields['webhook-id']}.{fields['webhook-timestamp']}.".encode() + content
    assert fields["webhook-signature"] == "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert os.fsencode(shown) not in (site.platform.home.path / "serving" / "state.sealed").read_bytes()
