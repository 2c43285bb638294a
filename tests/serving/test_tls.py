"""Planes under certificates that no authority we know has signed: believed because the platform names them, and no others."""

import html
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton

from falaj.app.certificates import self_signed
from falaj.app.predictions import PlanePredictor
from falaj.base.errors import Invalid, Unavailable
from falaj.client.predictions import Planes
from falaj.client.trust import trust
from falaj.web.serving.predictor import Question
from tests.app.mortal import environment_of
from tests.serving.authorities import Authority
from tests.serving.graphs import times
from tests.serving.site import PROJECT, Site, until

RECORD = {"x": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class CertifiedSite(Site):
    """`known_by` is what somebody must know who believes its plane by himself."""

    def __init__(self, folder: Path, files: tuple[Path, Path], known_by: Path) -> None:
        self.files = tuple(Path(shutil.copy(file, folder)) for file in files)
        self.known_by = known_by
        certificate, private_key = map(str, self.files)
        super().__init__(folder, workers="1", certificate=certificate, private_key=private_key)


@pytest.fixture(scope="module", params=["self-signed", "private authority"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[CertifiedSite]:
    folder = tmp_path_factory.mktemp("site")
    if request.param == "self-signed":
        files = self_signed(folder / "own", ["127.0.0.1"])
        site = CertifiedSite(folder, files, files[0])
    else:
        site = CertifiedSite(folder, authority.issue(), authority.file)
    try:
        site.deploy("fraud", "times", site.register("times", times(2.0)))
        yield site
    finally:
        site.close()


def question(site: Site, **more: object) -> Question:
    endpoint = site.show("fraud")
    fields = {"url": endpoint.url, "certificates": endpoint.certificates} | more
    return Question(**fields, token=site.token("fraud"), endpoint="fraud", body=json.dumps(RECORD).encode())


def predicted(site: Site, context: ssl.SSLContext, url: str = "") -> object:
    planes = Planes([url or site.url], site.token("fraud"), trust=context)
    return planes.predict("fraud", [RECORD])["predictions"]


def test_the_commands_and_the_console_believe_the_planes_of_their_platform(site: Site):
    assert site.url.startswith("https://")
    asked = site.platform.falaj("predict", "fraud", json.dumps(RECORD), "--project", PROJECT, "--json")
    assert json.loads(asked.stdout)["predictions"] == [[2, 4, 6, 8]], asked.stderr
    tried = site.platform.falaj("endpoint", "test", "fraud", "--project", PROJECT)
    assert tried.returncode == 0, tried.stdout
    said = PlanePredictor().predict(question(site))
    assert (said.status, said.document["predictions"]) == (200, [[2, 4, 6, 8]])


def test_the_form_of_the_console_gets_an_answer(site: Site):
    link = site.platform.falaj("console", "--no-browser").stdout.strip()
    headers = {"sec-fetch-site": "same-origin", "accept": "text/html"}
    with httpx.Client(base_url=site.platform.url, headers=headers, follow_redirects=True, trust_env=False) as browser:
        entering = hidden(browser.get(link).text)
        browser.post("/sign-in", data=entering | {"code": link.partition("code=")[2]})
        place = f"/projects/{PROJECT}/endpoints/fraud"
        form = re.search(r'<form[^>]*action="([^"]*)"[^>]*hx-target="#answer".*?</form>', browser.get(place).text, re.DOTALL)
        assert form is not None
        page = browser.post(form.group(1), data=hidden(form.group()) | {"records": json.dumps(RECORD)})
    assert "[[2.0, 4.0, 6.0, 8.0]]" in re.sub(r"\s+", " ", html.unescape(page.text)).replace("[ ", "[").replace(" ]", "]")


def hidden(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page))


def test_tritonclient_believes_what_the_platform_says_its_planes_show(site: Site, tmp_path: Path):
    told = site.platform.falaj("endpoint", "certificates", "fraud", "--project", PROJECT)
    (tmp_path / "planes.pem").write_text(told.stdout)
    client = triton.InferenceServerClient(
        site.url.removeprefix("https://"), ssl=True, root_certificates=str(tmp_path / "planes.pem")
    )
    given = triton.InferInput("x", [1, 4], "FP32")
    given.set_data_from_numpy(np.array([RECORD["x"]], np.float32))
    answer = client.infer("fraud", [given], headers={"authorization": f"Bearer {site.token('fraud')}"})
    assert answer.as_numpy("y").tolist() == [[2, 4, 6, 8]]
    client.close()


def test_who_knows_the_authority_need_not_be_told_the_certificate(site: CertifiedSite):
    assert predicted(site, trust(authorities=str(site.known_by))) == [[2, 4, 6, 8]]
    with pytest.raises(Invalid, match="cannot be read as certificates"):
        trust(authorities="/nowhere.pem")


def test_who_does_not_know_the_certificate_is_refused(site: Site):
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        predicted(site, trust())
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        PlanePredictor().predict(question(site, certificates=()))


def test_curl_calls_the_endpoint_by_the_line_that_a_deployment_prints(site: Site, tmp_path: Path):
    """It offers HTTP/2, over which there is gRPC alone, and must get REST. The model has no signature: what it is sent has its
    own input's name and length."""
    made = site.platform.falaj("deploy", "times:1", "--name", "fraud", "--project", PROJECT)
    [line] = [line.strip() for line in made.stdout.splitlines() if line.strip().startswith("curl")]
    falaj = tmp_path / "falaj"
    falaj.write_text(f'#!/bin/sh\nexec {sys.executable} -m falaj.cli.main "$@" --home {site.platform.home.path}\n')
    falaj.chmod(0o700)
    environment = environment_of(PATH=f"{tmp_path}:{os.environ['PATH']}", PYTHONPATH=str(Path(__file__).parents[2]))
    said = subprocess.run(["bash", "-c", f"{line} -sS"], capture_output=True, text=True, env=environment, check=False)
    assert '"predictions":[[2.0,2.0,2.0,2.0]]' in said.stdout, said.stderr


class _Impostor(BaseHTTPRequestHandler):
    asked: list[str]

    def do_POST(self) -> None:
        self.asked.append(self.headers["authorization"])

    def log_message(self, *_: object) -> None: ...


@contextmanager
def impostor(certificate: Path, private_key: Path, asked: list[str]) -> Iterator[str]:
    """Somebody who answers in a plane's stead, under a certificate for the same address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Impostor", (_Impostor,), {"asked": asked}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private_key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_another_certificate_for_the_same_address_gets_no_token(site: Site, authority: Authority, tmp_path: Path):
    believed = site.show("fraud").certificates
    asked: list[str] = []
    for made in (self_signed(tmp_path / "other", ["127.0.0.1"]), authority.issue(called="impostor")):
        with impostor(*made, asked) as url:
            with pytest.raises(Unavailable, match=r"(?i)certificate"):
                predicted(site, trust(certificates=believed), url)
            with pytest.raises(Unavailable, match=r"(?i)certificate"):
                PlanePredictor().predict(question(site, url=url))
    assert asked == []


def test_a_certificate_holds_for_its_own_names_alone(site: Site):
    elsewhere = site.url.replace("127.0.0.1", "localhost")
    with pytest.raises(Unavailable, match=r"(?i)certificate|hostname|mismatch"):
        predicted(site, trust(certificates=site.show("fraud").certificates), elsewhere)


def test_a_renewed_certificate_is_believed_as_soon_as_the_plane_has_reported_it(site: CertifiedSite, tmp_path: Path):
    before = site.show("fraud").certificates
    for renewed, file in zip(self_signed(tmp_path / "renewed", ["127.0.0.1"]), site.files, strict=True):
        Path(shutil.copy(renewed, file.with_suffix(".new"))).replace(file)
    until(lambda: site.show("fraud").certificates not in ((), before))
    assert predicted(site, trust(certificates=site.show("fraud").certificates)) == [[2, 4, 6, 8]]
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        predicted(site, trust(certificates=before))
