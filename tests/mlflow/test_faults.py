"""Bad input and bad luck: what is refused, how, and that nothing is left behind."""

import json
import socket
import threading
import time

import httpx
import pytest

from falaj.governance.roles import Role
from tests.app.running import RunningPlatform
from tests.mlflow.plain import Api, Refused

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def outsider(platform: RunningPlatform) -> str:
    """The token of somebody who has a role in `other` alone."""
    return platform.person("outsider", roles={"other": Role.SCIENTIST})


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error_code"]


# Who asks


def test_strangers_and_wrong_tokens_are_told_so(platform: RunningPlatform) -> None:
    for token in (None, "falaj_wrong"):
        with platform.http(token) as http:
            answer = http.get("/api/2.0/mlflow/experiments/get", params={"experiment_id": "0"})
        assert code_of(answer) == (401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_password_of_any_user_name_is_the_token(platform: RunningPlatform) -> None:
    with httpx.Client(base_url=platform.url, auth=("anybody", platform.token), trust_env=False) as http:
        assert http.get("/api/2.0/mlflow/experiments/get", params={"experiment_id": "0"}).status_code == 200


def test_somebody_who_may_only_look_is_refused(platform: RunningPlatform) -> None:
    token = platform.person("onlooker", roles={"default": Role.VIEWER})
    with platform.http(token) as http:
        api = Api(http)
        assert api.get("experiments/get", experiment_id="0")["experiment"]["name"] == "Default"
        with pytest.raises(Refused) as refused:
            api.post("experiments/create", name="mine")
    assert (refused.value.status, refused.value.code) == (403, "PERMISSION_DENIED")


# Which project


def test_the_only_project_goes_without_saying(platform: RunningPlatform, outsider: str) -> None:
    with platform.http(outsider) as http:
        Api(http).post("experiments/create", name="unsaid")
        assert Api(http, "/mlflow/other").get("experiments/get-by-name", experiment_name="unsaid")
    with platform.http(outsider, **{"X-MLFLOW-WORKSPACE": "other"}) as http:
        assert Api(http).get("experiments/get-by-name", experiment_name="unsaid")


def test_a_project_that_is_not_ones_own_does_not_exist(platform: RunningPlatform, outsider: str) -> None:
    for name in ("default", "nothing", "No Name"):
        with platform.http(outsider, **{"X-MLFLOW-WORKSPACE": name}) as http, pytest.raises(Refused) as refused:
            Api(http).get("experiments/get", experiment_id="0")
        assert (refused.value.status, refused.value.code) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_who_is_in_several_projects_is_told_how_to_say_which(platform: RunningPlatform) -> None:
    token = platform.person("wanderer", roles={"mlflow3": Role.SCIENTIST, "mlflow2": Role.SCIENTIST})
    with platform.http(token) as http, pytest.raises(Refused, match="MLFLOW_WORKSPACE") as refused:
        Api(http).get("experiments/get", experiment_id="0")
    assert refused.value.code == "INVALID_PARAMETER_VALUE"


def test_an_address_and_a_header_that_differ_are_refused(platform: RunningPlatform) -> None:
    with platform.http(platform.token, **{"X-MLFLOW-WORKSPACE": "other"}) as http, pytest.raises(Refused, match="leave one"):
        Api(http, "/mlflow/default").get("experiments/get", experiment_id="0")


def test_another_projects_run_does_not_exist(platform: RunningPlatform, api: Api, outsider: str) -> None:
    run = api.run()
    api.put_file(run, "secret.txt", b"secret")
    with platform.http(outsider) as http:
        stranger = Api(http)
        for ask in (
            lambda: stranger.get("runs/get", run_id=run),
            lambda: stranger.post("runs/log-metric", run_id=run, key="k", value=1, timestamp=1),
            lambda: stranger.post("runs/log-batch", run_id=run, params=[{"key": "k", "value": "v"}]),
            lambda: stranger.post("runs/update", run_id=run, status="KILLED"),
            lambda: stranger.post("runs/delete", run_id=run),
            lambda: stranger.get("metrics/get-history", run_id=run, metric_key="k"),
            lambda: stranger.get("metrics/get-history-bulk", run_id=[run], metric_key="k"),
            lambda: stranger.get("artifacts/list", run_id=run),
        ):
            with pytest.raises(Refused) as refused:
                ask()
            assert (refused.value.status, refused.value.code) == (404, "RESOURCE_DOES_NOT_EXIST"), refused.value
        assert code_of(stranger.get_file(run, "secret.txt")) == (404, "RESOURCE_DOES_NOT_EXIST")
        assert code_of(stranger.put_file(run, "mine.txt", b"x")) == (404, "RESOURCE_DOES_NOT_EXIST")
    assert api.get("runs/get", run_id=run)["run"]["info"]["status"] == "RUNNING"


# What is sent


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"null", b'"x"', b"\x00", b'{"run_id": 5}', b'{"run_id": {"a": 1}}', b'{"metrics": [{}]}', b""],
)
def test_bodies_that_say_nothing_sensible_are_refused(api: Api, content: bytes) -> None:
    answer = api.http.post("/api/2.0/mlflow/runs/log-batch", content=content, headers=JSON)
    assert code_of(answer) == (400, "INVALID_PARAMETER_VALUE")


def test_a_body_that_is_not_said_to_be_json_is_refused(api: Api) -> None:
    answer = api.http.post("/api/2.0/mlflow/runs/create", content=b"{}", headers={"content-type": "text/plain"})
    assert code_of(answer) == (400, "INVALID_PARAMETER_VALUE")
    assert "application/json" in answer.json()["message"]


def test_a_parameter_of_a_megabyte_gets_a_clear_answer(api: Api) -> None:
    run = api.run()
    api.post("runs/log-parameter", run_id=run, key="long", value="x" * 900_000)
    [param] = api.get("runs/get", run_id=run)["run"]["data"]["params"]
    assert param["value"] == "x" * 6000
    with pytest.raises(Refused, match="larger than 1048576 bytes") as refused:
        api.post("runs/log-parameter", run_id=run, key="longer", value="x" * (1 << 20))
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize(
    "text",
    [
        "metrics.auc > 1; DROP TABLE tracking_runs",
        "metrics.auc > 1 -- comment",
        "params.a = 'x' UNION SELECT 1",
        "params.a = 'unclosed",
        "1 = 1",
        "metrics.auc > 'text'",
        "attributes.password = 'x'",
        "tags.a = 'b' OR tags.c = 'd'",
        "(((((((((",
        "params.a IN (SELECT 1)",
    ],
)
def test_filters_are_read_and_never_run(api: Api, text: str) -> None:
    with pytest.raises(Refused) as refused:
        api.post("runs/search", experiment_ids=["0"], filter=text)
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER_VALUE")


def test_quotes_in_values_are_values(api: Api) -> None:
    run = api.run()
    api.post("runs/log-parameter", run_id=run, key="odd", value="a'; DROP TABLE x; --")
    found = api.post("runs/search", experiment_ids=["0"], filter='params.odd = "a\'; DROP TABLE x; --"')
    assert [one["info"]["run_id"] for one in found["runs"]] == [run]


def test_a_page_token_that_was_not_given_out_is_refused(api: Api) -> None:
    for path, fields in (
        ("runs/search", {"experiment_ids": ["0"]}),
        ("experiments/search", {"max_results": 5}),
    ):
        with pytest.raises(Refused) as refused:
            api.post(path, **fields, page_token="bm90aGluZw")
        assert refused.value.code == "INVALID_PARAMETER_VALUE"


def test_artifacts_kept_elsewhere_are_not_promised(api: Api) -> None:
    with pytest.raises(Refused, match="leave artifact_location out"):
        api.post("experiments/create", name="elsewhere", artifact_location="s3://bucket/place")


# Artifacts


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../../x",
        "%2e%2e/x",
        "%2E%2E%2Fx",
        "..%2fx",
        "%252e%252e/x",
        "a%5c..%5cx",
        "%2fetc%2fpasswd",
        "a%00b",
        "a%0d%0ab",
        "%ff",
        "./x",
        "",
    ],
)
def test_artifact_names_that_try_to_leave_their_run_are_refused(platform: RunningPlatform, api: Api, name: str) -> None:
    run = api.run()
    path = f"/api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts/{name}"
    for method in ("PUT", "GET"):
        head = f"{method} {path} HTTP/1.1\r\nhost: {platform.url[7:]}\r\nauthorization: Bearer {platform.token}\r\n"
        answer = platform.raw(f"{head}content-length: 1\r\nconnection: close\r\n\r\nx".encode())
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404")), answer
        assert b"error_code" in answer
    assert api.get("artifacts/list", run_id=run)["files"] == []


def test_a_listing_does_not_leave_its_run(api: Api) -> None:
    run = api.run()
    for path in ("..", "../..", "a/../..", "%2e%2e", "\\..", "/etc"):
        answer = api.http.get("/api/2.0/mlflow/artifacts/list", params={"run_id": run, "path": path})
        assert answer.json().get("error_code") == "INVALID_PARAMETER_VALUE" or answer.json()["files"] == []


def test_no_download_can_make_a_browser_run_it(api: Api) -> None:
    run = api.run()
    for name in ("page.html", "picture.svg", "code.js", "odd\"name'.html", "صفحة.html"):
        assert api.put_file(run, name, b"<script>alert(1)</script>").json() == {}
        answer = api.get_file(run, name)
        assert answer.content == b"<script>alert(1)</script>"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; ")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_line_break_in_the_name_of_a_project_gets_into_no_header(platform: RunningPlatform) -> None:
    with platform.http() as http:
        assert http.get("/mlflow/default").headers["location"] == "/projects/default"
        for name in ("default%0A", "default%0D%0Aset-cookie:a=b", "default%00"):
            answer = http.get(f"/mlflow/{name}")
            assert (answer.status_code, answer.headers.get("location")) == (404, None)


def test_an_upload_cut_in_the_middle_leaves_nothing(platform: RunningPlatform, api: Api) -> None:
    run = api.run()
    head = (
        f"PUT /api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts/cut.bin HTTP/1.1\r\nhost: {platform.url[7:]}\r\n"
        f"authorization: Bearer {platform.token}\r\ncontent-length: 1000000\r\n\r\n"
    )
    with platform.connect() as connection:
        connection.sendall(head.encode() + b"x" * 200_000)
        connection.shutdown(socket.SHUT_RDWR)
    time.sleep(0.3)
    assert api.get("artifacts/list", run_id=run)["files"] == []
    assert code_of(api.get_file(run, "cut.bin")) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_parts_need_the_pass_of_their_upload_and_nothing_shows_before_they_are_joined(
    platform: RunningPlatform, api: Api
) -> None:
    run = api.run()
    at = "/api/2.0/mlflow-artifacts/mpu"
    begun = api.http.post(f"{at}/create/0/{run}/artifacts/deep", json={"path": "C:\\data\\w.bin", "num_parts": 2}).json()
    assert platform.token not in json.dumps(begun)
    with httpx.Client(trust_env=False) as bucket:
        assert code_of(bucket.put(begun["credentials"][0]["url"], content=b"x"))[0] == 401
        tags = []
        for credential, content in zip(begun["credentials"], (b"first ", b"second"), strict=True):
            answer = bucket.put(credential["url"], content=content, headers=credential["headers"])
            assert answer.status_code == 200
            tags.append({"part_number": credential["part_number"], "etag": answer.headers["etag"]})
        lent = begun["credentials"][0]["headers"]
        assert code_of(bucket.post(f"{platform.url}/api/2.0/mlflow/experiments/create", json={"name": "x"}, headers=lent)) == (
            403,
            "PERMISSION_DENIED",
        )
    assert api.get("artifacts/list", run_id=run)["files"] == []
    end = {"path": "w.bin", "upload_id": begun["upload_id"]}
    wrong = api.http.post(f"{at}/complete/0/{run}/artifacts/deep", json=end | {"parts": [tags[0] | {"etag": "made up"}]})
    assert code_of(wrong) == (400, "INVALID_PARAMETER_VALUE")
    assert api.http.post(f"{at}/complete/0/{run}/artifacts/deep", json=end | {"parts": tags[::-1]}).json() == {}
    assert api.get_file(run, "deep/w.bin").content == b"first second"
    begun = api.http.post(f"{at}/create/0/{run}/artifacts", json={"path": "gone.bin", "num_parts": 1}).json()
    assert (
        api.http.post(f"{at}/abort/0/{run}/artifacts", json={"path": "gone.bin", "upload_id": begun["upload_id"]}).json() == {}
    )


@pytest.mark.parametrize("number", ["0", "10001", "000001" + "9" * 30, "000001" + "9" * 5000, "-1", "1e3"])
def test_a_part_whose_number_is_none_is_refused(api: Api, number: str) -> None:
    run = api.run()
    at = "/api/2.0/mlflow-artifacts/mpu"
    begun = api.http.post(f"{at}/create/0/{run}/artifacts", json={"path": "w.bin"}).json()
    answer = api.http.put(f"{at}/parts/{begun['upload_id']}/{number}", content=b"x")
    assert code_of(answer) == (400, "INVALID_PARAMETER_VALUE")


# Two at once


def test_two_writers_on_one_run_lose_nothing(platform: RunningPlatform, api: Api) -> None:
    run = api.run()

    def write(half: int) -> None:
        with platform.http(platform.token) as http:
            for step in range(half, 100, 2):
                Api(http).post("runs/log-metric", run_id=run, key="loss", value=step, timestamp=step, step=step)

    writers = [threading.Thread(target=write, args=(half,)) for half in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    history = api.get("metrics/get-history", run_id=run, metric_key="loss")["metrics"]
    assert [point["step"] for point in history] == list(range(100))


def test_the_same_parameter_from_two_writers_has_one_value(platform: RunningPlatform, api: Api) -> None:
    run = api.run()
    answers: list[int] = []

    def write(number: int) -> None:
        with platform.http(platform.token) as http:
            fields = {"run_id": run, "key": "depth", "value": str(number)}
            answers.append(http.post("/api/2.0/mlflow/runs/log-parameter", json=fields).status_code)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(answers) == [200, 400, 400, 400]


# What is not served


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/api/3.0/mlflow/traces", (501, "NOT_IMPLEMENTED")),
        ("POST", "/api/3.0/mlflow/traces/search", (501, "NOT_IMPLEMENTED")),
        ("GET", "/api/2.0/mlflow/traces/abc/info", (501, "NOT_IMPLEMENTED")),
        ("GET", "/api/3.0/mlflow/gateway/endpoints/list", (501, "NOT_IMPLEMENTED")),
        ("POST", "/api/2.0/mlflow/webhooks", (501, "NOT_IMPLEMENTED")),
        ("POST", "/api/3.0/mlflow/scorers/register", (501, "NOT_IMPLEMENTED")),
        ("POST", "/api/3.0/mlflow/datasets/create", (501, "NOT_IMPLEMENTED")),
        ("GET", "/api/2.0/mlflow-artifacts/presigned/0/x/artifacts/y", (501, "NOT_IMPLEMENTED")),
        ("POST", "/mlflow/default/v1/traces", (501, "NOT_IMPLEMENTED")),
        ("GET", "/api/2.0/mlflow/nothing/here", (404, "ENDPOINT_NOT_FOUND")),
        ("DELETE", "/api/2.0/mlflow/runs/get", (404, "ENDPOINT_NOT_FOUND")),
        ("GET", "/ajax-api/2.0/mlflow/%ff", (404, "ENDPOINT_NOT_FOUND")),
    ],
)
def test_what_is_not_served_says_so_in_mlflows_own_words(api: Api, method: str, path: str, code: tuple[int, str]) -> None:
    answer = api.http.request(method, path)
    assert code_of(answer) == code
    assert answer.json()["message"]
