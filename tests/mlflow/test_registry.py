"""The model registry over plain REST: sources, aliases, stages, and files that never change."""

from typing import Any

import pytest

from falaj.api.mlflow.promotions import moved
from falaj.base.errors import Forbidden
from falaj.governance.roles import Role
from falaj.registry.operations.promotions import Promotion
from tests.app.running import RunningPlatform
from tests.mlflow.plain import Api, Refused

MLMODEL = b"flavors:\n  onnx:\n    data: model.onnx\n"


@pytest.fixture(scope="module")
def run(api: Api) -> str:
    """A run with a small model in the folder `model`."""
    id = api.run(run_name="registered")
    api.put_file(id, "model/MLmodel", MLMODEL)
    api.put_file(id, "model/data/weights.bin", b"weights")
    return id


def registered(api: Api, name: str, source: str, **fields: Any) -> dict[str, Any]:
    there = api.http.post("/api/2.0/mlflow/registered-models/create", json={"name": name}).json()
    assert there.get("error_code", "RESOURCE_ALREADY_EXISTS") == "RESOURCE_ALREADY_EXISTS"
    version: dict[str, Any] = api.post("model-versions/create", name=name, source=source, **fields)["model_version"]
    return version


def test_a_version_has_the_fields_of_the_reference(api: Api, run: str) -> None:
    made = registered(api, "reference", f"runs:/{run}/model", run_id=run, description="d", tags=[{"key": "a", "value": "b"}])
    assert made == {
        "name": "reference",
        "version": "1",
        "creation_timestamp": made["creation_timestamp"],
        "last_updated_timestamp": made["last_updated_timestamp"],
        "user_id": made["user_id"],
        "current_stage": "None",
        "source": f"runs:/{run}/model",
        "status": "READY",
        "tags": [{"key": "a", "value": "b"}],
        "aliases": [],
        "description": "d",
        "run_id": run,
        "run_link": "",
    }
    model = api.get("registered-models/get", name="reference")["registered_model"]
    assert [one["version"] for one in model["latest_versions"]] == ["1"]


def test_files_of_a_version_are_those_of_the_day_it_was_registered(api: Api, run: str) -> None:
    made = registered(api, "frozen", f"mlflow-artifacts:/0/{run}/artifacts/model")
    uri = api.get("model-versions/get-download-uri", name="frozen", version=made["version"])["artifact_uri"]
    at = f"/api/2.0/mlflow-artifacts/artifacts/{uri.removeprefix('mlflow-artifacts:/')}"
    listed = api.http.get("/api/2.0/mlflow-artifacts/artifacts", params={"path": uri.removeprefix("mlflow-artifacts:/")})
    assert listed.json()["files"] == [
        {"path": "MLmodel", "is_dir": False, "file_size": len(MLMODEL)},
        {"path": "data", "is_dir": True},
    ]
    api.put_file(run, "model/data/weights.bin", b"changed")
    assert api.http.get(f"{at}/data/weights.bin").content == b"weights"
    for method in ("PUT", "DELETE"):
        answer = api.http.request(method, f"{at}/data/weights.bin", content=b"x")
        assert (answer.status_code, answer.json()["error_code"]) == (403, "PERMISSION_DENIED")
    with pytest.raises(Refused, match="changed since"):
        registered(api, "copied", f"models:/frozen/{made['version']}")
    api.put_file(run, "model/data/weights.bin", b"weights")
    assert registered(api, "copied", f"models:/frozen/{made['version']}")["run_id"] == run


def test_a_source_that_is_not_there_or_not_ones_own_is_not_found(platform: RunningPlatform, api: Api, run: str) -> None:
    token = platform.person("borrower", roles={"other": Role.ENGINEER})
    with platform.http(token) as http:
        borrower = Api(http)
        for source in (f"runs:/{run}/model", f"mlflow-artifacts:/0/{run}/artifacts/model", "models:/reference/1"):
            with pytest.raises(Refused) as refused:
                registered(borrower, "borrowed", source)
            assert (refused.value.status, refused.value.code) == (404, "RESOURCE_DOES_NOT_EXIST")
    for source in (f"runs:/{'0' * 32}/model", f"models:/m-{'0' * 32}"):
        with pytest.raises(Refused) as refused:
            registered(api, "borrowed", source)
        assert refused.value.code == "RESOURCE_DOES_NOT_EXIST"


@pytest.mark.parametrize("climb", ["..", "%2e%2e", "a/../..", "%252e%252e"])
def test_a_source_never_climbs_out_of_its_run(api: Api, run: str, climb: str) -> None:
    for source in (f"runs:/{run}/{climb}", f"mlflow-artifacts:/0/{run}/artifacts/{climb}", f"file:///models/{climb}/etc"):
        with pytest.raises(Refused) as refused:
            registered(api, "climbing", source)
        assert refused.value.code == "INVALID_PARAMETER_VALUE"


def test_files_elsewhere_are_written_down_and_left_there(api: Api) -> None:
    made = registered(api, "elsewhere", "s3://bucket/model")
    assert api.get("model-versions/get-download-uri", name="elsewhere", version=made["version"]) == {
        "artifact_uri": "s3://bucket/model"
    }


@pytest.mark.parametrize(
    "place", ["https://elsewhere.example/m", "HTTP://elsewhere.example/", "mlflow-artifacts://elsewhere.example/m"]
)
def test_no_client_is_sent_with_its_token_to_a_place_that_somebody_wrote_down(api: Api, place: str) -> None:
    """Stock clients show their token to whatever address of this kind they are told to fetch a version's files from."""
    made = registered(api, "elsewhere", place)
    with pytest.raises(Refused, match=r"elsewhere\.example") as refused:
        api.get("model-versions/get-download-uri", name="elsewhere", version=made["version"])
    assert refused.value.code == "INVALID_PARAMETER_VALUE"


def test_an_alias_is_moved_followed_and_removed(api: Api, run: str) -> None:
    for _ in range(2):
        registered(api, "aliased", f"runs:/{run}/model")
    for version in ("1", "2"):
        assert api.post("registered-models/alias", name="aliased", alias="champion", version=version) == {}
        found = api.get("registered-models/alias", name="aliased", alias="champion")["model_version"]
        assert (found["version"], found["aliases"]) == (version, ["champion"])
    assert api.send("DELETE", "registered-models/alias", name="aliased", alias="champion") == {}
    with pytest.raises(Refused) as refused:
        api.get("registered-models/alias", name="aliased", alias="champion")
    assert refused.value.code == "RESOURCE_DOES_NOT_EXIST"


def test_a_scientist_may_register_and_not_promote(platform: RunningPlatform, api: Api, run: str) -> None:
    registered(api, "guarded", f"runs:/{run}/model")
    token = platform.person("scientist", roles={"default": Role.SCIENTIST})
    with platform.http(token) as http, pytest.raises(Refused) as refused:
        Api(http).post("registered-models/alias", name="guarded", alias="champion", version="1")
    assert (refused.value.status, refused.value.code) == (403, "PERMISSION_DENIED")


def test_a_move_that_waits_for_approval_is_told_as_refused_with_what_to_do() -> None:
    waiting = Promotion(
        state="waiting", model="m", alias="champion", version=2, before=1, kind="promote", approval="ab" * 16, needed=2, given=1
    )
    with pytest.raises(Forbidden, match="falaj model approve abab"):
        moved(waiting)


def test_stages_are_names_in_any_case(api: Api, run: str) -> None:
    registered(api, "staged", f"runs:/{run}/model")
    fields = {"name": "staged", "version": "1"}
    moved = api.post("model-versions/transition-stage", **fields, stage="production", archive_existing_versions=False)
    assert moved["model_version"]["current_stage"] == "Production"
    latest = api.get("registered-models/get-latest-versions", name="staged", stages=["Production", "Staging"])
    assert [one["version"] for one in latest["model_versions"]] == ["1"]
    with pytest.raises(Refused, match="stage is"):
        api.post("model-versions/transition-stage", **fields, stage="Somewhere")


@pytest.mark.parametrize("name", ["a/b", "a:b", "", "x" * 256, "a\x00b"])
def test_names_that_no_address_could_hold_are_refused(api: Api, name: str) -> None:
    with pytest.raises(Refused) as refused:
        api.post("registered-models/create", name=name)
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER_VALUE")


def test_versions_are_numbers(api: Api) -> None:
    for version in ("", "0", "x", "1.5", "-1", "99999999999999"):
        with pytest.raises(Refused) as refused:
            api.get("model-versions/get", name="reference", version=version)
        assert refused.value.code == "INVALID_PARAMETER_VALUE"
