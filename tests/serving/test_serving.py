"""The whole way, with real processes: from a registered version to answers that never stop."""

import json
import re
import time
from contextlib import suppress

import httpx
import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http

from falaj.app.planes import plane_of
from falaj.serving.operations.endpoints import (
    CONFIGURE,
    DELETE_ENDPOINT,
    PROMOTE_REVISION,
    READ_LOGS,
    READ_TRAFFIC,
    ROLL_BACK,
    SPLIT_TRAFFIC,
    Configure,
    LoggedCall,
    OneEndpoint,
    Options,
    PromoteRevision,
    ReadLogs,
    ReadTraffic,
    RollBack,
    Split,
)
from falaj.serving.operations.keys import CREATE_KEY, REVOKE_KEY, CreateKey, RevokeKey
from falaj.serving.operations.words import Arm
from tests.serving.graphs import loops, times
from tests.serving.site import PROJECT, Load, Site, body, until


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("site"), workers="2", hang_seconds="1.5")
    for factor in (1.0, 2.0, 3.0):
        made.register("times", times(factor))
    yield made
    made.close()


@pytest.fixture
def endpoint(site, request):
    """A fresh endpoint that multiplies by one."""
    name = request.node.name.partition("[")[0].replace("_", "-")[:90]
    site.deploy(name, "times", 1)
    yield name
    site.platform.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint=name))


def test_tritonclient_gets_right_answers_over_http_and_grpc_on_one_port(site, endpoint):
    address, token = site.url.removeprefix("http://"), site.token(endpoint)
    for kind in (tritonclient.http, tritonclient.grpc):
        headers = {"authorization": f"Bearer {token}"}
        client = kind.InferenceServerClient(address)
        assert client.is_server_live()
        assert client.is_model_ready(endpoint, headers=headers)
        given = kind.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(np.array([[1, 2, 3, 4]], dtype=np.float32))
        assert client.infer(endpoint, [given], headers=headers).as_numpy("y").tolist() == [[1, 2, 3, 4]]
        client.close()


def test_updates_canaries_and_rollbacks_under_load_fail_nobody_and_misroute_nobody(site, endpoint):
    call, named = site.platform.call, {"project": PROJECT, "endpoint": endpoint}
    with Load(site, endpoint, {"1": 1.0, "2": 2.0, "3": 3.0}).running() as load:
        site.deploy(endpoint, "times", 2, mode="canary", share=3_000)
        until(lambda: load.answers["2"] > 20)
        site.settled(call(PROMOTE_REVISION, PromoteRevision(**named)))
        before = load.answers["2"]
        until(lambda: load.answers["2"] > before + 50)
        site.deploy(endpoint, "times", 3)
        until(lambda: load.answers["3"] > 20)
        site.settled(call(ROLL_BACK, RollBack(**named)))
        seen = load.answers["3"]
        time.sleep(0.3)
        assert load.answers["3"] <= seen + 8  # nothing but what was on its way
        arms = (Arm(revision=2, share=5_000), Arm(revision=3, share=5_000))
        site.settled(call(SPLIT_TRAFFIC, Split(**named, arms=arms)))
        until(lambda: load.answers["3"] > seen + 20)
    assert load.failures == []
    assert load.wrong == []


def test_a_killed_worker_fails_only_what_it_had_in_hand_and_is_replaced(site, endpoint):
    with Load(site, endpoint, {"1": 1.0}).running() as load:
        until(lambda: load.answers["1"] > 100)
        victim = site.workers()[0]
        victim.kill()
        until(lambda: len(site.workers()) == 2 and victim.pid not in [one.pid for one in site.workers()])
        seen = load.answers["1"]
        until(lambda: load.answers["1"] > seen + 200)
    assert load.wrong == []
    assert len(load.failures) <= 4  # one for each caller at most


def test_predictions_outlive_the_control_plane_and_a_restart_of_the_plane_without_it(site, endpoint):
    token = site.token(endpoint)
    site.platform.kill()
    try:
        with site.http(token) as http:
            assert http.post(f"/v2/models/{endpoint}/infer", json=body()).json()["outputs"][0]["data"] == [1, 2, 3, 4]
        pid = site.supervisor.pid
        for worker in site.workers():
            worker.kill()
        with site.http(token) as http:
            until(lambda: _answers(http, endpoint))
        assert site.supervisor.pid == pid
    finally:
        site.platform.start()
    assert site.settled(site.show(endpoint)).ready == 1
    assert site.supervisor.pid == pid  # found again, not started anew


def _answers(http: httpx.Client, endpoint: str) -> bool:
    try:
        return http.post(f"/v2/models/{endpoint}/infer", json=body()).status_code == 200
    except httpx.TransportError:
        return False


def test_a_model_that_hangs_workers_is_put_away_and_the_one_before_takes_over(site, endpoint):
    version = site.register("loops", loops())
    site.deploy(endpoint, "loops", version)
    with site.http(site.token(endpoint)) as http:
        for _ in range(3):
            before = {one.pid for one in site.workers()}
            with pytest.raises(httpx.TransportError):
                http.post(f"/v2/models/{endpoint}/infer", json=body(1e15, 1, 1, 1), timeout=20)
            until(lambda before=before: len({one.pid for one in site.workers()} - before) > 0)
        until(lambda: site.show(endpoint).arms[0].revision == 1)
        site.settled(site.show(endpoint))
        said = http.post(f"/v2/models/{endpoint}/infer", json=body()).json()
    assert (said["model_version"], said["outputs"][0]["data"]) == ("1", [1, 2, 3, 4])
    quarantined = {one.number: one.quarantined for one in site.show(endpoint).revisions}
    assert "worker" in quarantined.get(2, "worker")


def test_a_revoked_key_is_refused_within_moments(site, endpoint):
    made = site.platform.call(CREATE_KEY, CreateKey(project=PROJECT, label="shop", endpoints=(endpoint,)))
    with site.http(made.token) as http:
        assert http.post(f"/v2/models/{endpoint}/infer", json=body()).status_code == 200
        site.platform.call(REVOKE_KEY, RevokeKey(project=PROJECT, key=made.key.id))
        until(lambda: http.post(f"/v2/models/{endpoint}/infer", json=body()).status_code == 401, seconds=20)


def test_the_traffic_that_the_console_shows_is_what_callers_did(site, endpoint):
    with site.http(site.token(endpoint)) as http:
        for _ in range(25):
            http.post(f"/v2/models/{endpoint}/infer", json=body())
        http.post(f"/v2/models/{endpoint}/infer", json=body() | {"outputs": [{"name": "z"}]})
    request = ReadTraffic(project=PROJECT, endpoint=endpoint, seconds=60)

    def seen() -> tuple[int, int]:
        points = site.platform.call(READ_TRAFFIC, request).points
        return sum(point.requests for point in points), sum(point.errors for point in points)

    until(lambda: seen()[0] >= 25)
    assert seen() == (25, 0)  # what was asked wrongly is the caller's affair, and says nothing about the model


def test_sampled_calls_are_logged_without_what_is_masked_however_many_there_are(site, endpoint):
    options = Options(log_share=10_000, masked=("y",))
    site.platform.call(CONFIGURE, Configure(project=PROJECT, endpoint=endpoint, options=options))
    rows = [float(number % 7) for number in range(1200)]
    asked = 0

    def logged() -> list[LoggedCall]:
        return list(site.platform.call(READ_LOGS, ReadLogs(project=PROJECT, endpoint=endpoint)).items)

    with site.http(site.token(endpoint)) as http:
        while not logged():  # the options arrive in a moment
            assert http.post(f"/v2/models/{endpoint}/infer", json=body()).status_code == 200
            asked += 1
        for _ in range(200):  # far more than one report can hold
            assert http.post(f"/v2/models/{endpoint}/infer", json=body(*rows)).status_code == 200
    assert json.loads(logged()[-1].inputs) == {"x": [[1, 2, 3, 4]]}
    assert json.loads(logged()[-1].outputs) == {"y": "masked"}
    request = ReadTraffic(project=PROJECT, endpoint=endpoint, seconds=60)
    until(lambda: sum(point.requests for point in site.platform.call(READ_TRAFFIC, request).points) == asked + 200)
    until(lambda: len(logged()) == 100)  # a page


def test_a_killed_supervisor_is_followed_by_another_one_on_the_same_port(site, endpoint):
    url, killed, token = site.url, site.supervisor, site.token(endpoint)
    killed.kill()

    def is_back() -> bool:
        with suppress(KeyError, psutil.NoSuchProcess), site.http(token) as http:
            return site.supervisor.pid != killed.pid and _answers(http, endpoint)
        return False

    until(is_back)
    assert site.url == url


def test_the_command_line_deploys_asks_and_goes_back(site):
    falaj = site.platform.falaj
    made = json.loads(falaj("deploy", "times:1", "--name", "by-hand", "--project", PROJECT, "--json").stdout)
    assert made["revision"] == 1
    falaj("deploy", "times:2", "--name", "by-hand", "--project", PROJECT)
    tried = json.loads(falaj("endpoint", "test", "by-hand", "--project", PROJECT, "--json").stdout)
    assert [(one["revision"], one["ok"]) for one in tried["items"]] == [(2, True)]
    asked = ("predict", "by-hand", '{"x": [1, 2, 3, 4]}', "--project", PROJECT, "--json")
    assert json.loads(falaj(*asked).stdout)["predictions"] == [[2, 4, 6, 8]]
    configured = falaj("endpoint", "configure", "by-hand", "--latency-ms", "50", "--project", PROJECT)
    assert "1 of 1 planes" in configured.stdout
    assert falaj("endpoint", "rollback", "by-hand", "--yes", "--project", PROJECT).returncode == 0
    assert json.loads(falaj(*asked).stdout)["predictions"] == [[1, 2, 3, 4]]


def test_a_model_that_nobody_asks_for_leaves_memory_and_its_cold_start_is_shown(site, endpoint):
    call, named = site.platform.call, {"project": PROJECT, "endpoint": endpoint}
    site.settled(call(CONFIGURE, Configure(**named, options=Options(idle_seconds=1))))
    with site.http(site.token(endpoint)) as http:
        until(lambda: [entry["state"] for entry in http.post("/v2/repository/index").json()] == ["UNAVAILABLE"])
        assert _answers(http, endpoint)
    until(lambda: site.show(endpoint).revisions[0].cold_start_ms > 0)
    shown = site.platform.falaj("endpoint", "show", endpoint, "--project", PROJECT).stdout
    assert re.search(r"cold start +revision 1: \d+ ms", shown)


def test_a_plane_of_another_version_is_started_anew(site, endpoint):
    running = plane_of(site.platform.home).running
    before = site.supervisor.pid
    running.write_text(json.dumps(json.loads(running.read_text()) | {"version": "0.0.1"}))
    until(lambda: running.exists() and json.loads(running.read_text())["pid"] != before)
    with site.http(site.token(endpoint)) as http:
        until(lambda: _answers(http, endpoint))
