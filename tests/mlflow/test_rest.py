"""The plain REST calls of MLflow's public reference, and the shapes in which they are answered."""

import math
from typing import Any

import httpx
import pytest

from tests.app.running import RunningPlatform
from tests.mlflow.plain import Api, Refused


def data_of(api: Api, run: str) -> dict[str, Any]:
    data: dict[str, Any] = api.get("runs/get", run_id=run)["run"]["data"]
    return data


def pairs(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["key"]: entry["value"] for entry in entries}


def test_an_experiment_has_the_fields_of_the_reference(api: Api) -> None:
    id = api.post("experiments/create", name="rest", tags=[{"key": "a", "value": "b"}])["experiment_id"]
    found = api.get("experiments/get", experiment_id=id)["experiment"]
    assert found == {
        "experiment_id": id,
        "name": "rest",
        "artifact_location": f"mlflow-artifacts:/{id}",
        "lifecycle_stage": "active",
        "creation_time": found["creation_time"],
        "last_update_time": found["last_update_time"],
        "tags": [{"key": "a", "value": "b"}],
        "workspace": "default",
    }
    assert isinstance(found["creation_time"], int)
    assert api.get("experiments/get-by-name", experiment_name="rest")["experiment"] == found


def test_experiments_are_searched_by_get_and_by_post_alike(api: Api) -> None:
    for number in range(3):
        api.post("experiments/create", name=f"page-{number}")
    wish: dict[str, Any] = {"filter": "name LIKE 'page-%'", "order_by": ["name ASC"], "max_results": 2}
    first = api.get("experiments/search", **wish, view_type="ACTIVE_ONLY")
    assert [one["name"] for one in first["experiments"]] == ["page-0", "page-1"]
    second = api.post("experiments/search", **wish, page_token=first["next_page_token"], view_type=1)
    assert [one["name"] for one in second["experiments"]] == ["page-2"]
    assert "next_page_token" not in second


def test_a_run_has_the_fields_of_the_reference(api: Api) -> None:
    made = api.post(
        "runs/create",
        experiment_id="0",
        user_id="amal",
        run_name="first",
        start_time="1700000000123",
        tags=[{"key": "k", "value": "v"}],
    )["run"]
    id = made["info"]["run_id"]
    assert made["info"] == {
        "run_id": id,
        "run_uuid": id,
        "run_name": "first",
        "experiment_id": "0",
        "user_id": "amal",
        "status": "RUNNING",
        "start_time": 1700000000123,
        "artifact_uri": f"mlflow-artifacts:/0/{id}/artifacts",
        "lifecycle_stage": "active",
    }
    assert pairs(made["data"]["tags"]) == {"k": "v", "mlflow.runName": "first"}
    ended = api.post("runs/update", run_uuid=id, status="FINISHED", end_time=1700000000456)["run_info"]
    assert (ended["status"], ended["end_time"]) == ("FINISHED", 1700000000456)


def test_metrics_are_logged_in_every_spelling_of_a_number(api: Api) -> None:
    run = api.run()
    for key, number in (("a", 1), ("b", 0.5), ("c", "NaN"), ("d", "Infinity"), ("e", "-Infinity"), ("f", "2.5")):
        api.post("runs/log-metric", run_id=run, key=key, value=number, timestamp="5", step="3")
    bare = b'{"run_id": "%s", "key": "g", "value": NaN, "timestamp": 5}' % run.encode()
    assert (
        api.http.post("/api/2.0/mlflow/runs/log-metric", content=bare, headers={"content-type": "application/json"}).json()
        == {}
    )
    found = pairs(data_of(api, run)["metrics"])
    assert found == {"a": 1.0, "b": 0.5, "c": "NaN", "d": "Infinity", "e": "-Infinity", "f": 2.5, "g": "NaN"}
    assert api.get("metrics/get-history", run_id=run, metric_key="d")["metrics"] == [
        {"key": "d", "value": "Infinity", "timestamp": 5, "step": 3}
    ]


def test_a_batch_is_logged_whole_or_not_at_all(api: Api) -> None:
    run = api.run()
    api.post(
        "runs/log-batch",
        run_id=run,
        metrics=[{"key": "m", "value": step, "timestamp": 1, "step": step} for step in range(3)],
        params=[{"key": "p", "value": "1"}],
        tags=[{"key": "t", "value": "x"}],
    )
    with pytest.raises(Refused) as refused:
        api.post(
            "runs/log-batch",
            run_id=run,
            metrics=[{"key": "other", "value": 1, "timestamp": 1}],
            params=[{"key": "p", "value": "2"}],
        )
    assert (refused.value.status, refused.value.code) == (400, "INVALID_PARAMETER_VALUE")
    data = data_of(api, run)
    assert pairs(data["metrics"]) == {"m": 2.0}
    assert pairs(data["params"]) == {"p": "1"}


def test_metrics_about_models_go_to_the_models_they_are_about(api: Api) -> None:
    run = api.run()
    models = [
        api.post("logged-models", experiment_id="0", name=f"model-{number}", source_run_id=run)["model"]["info"]["model_id"]
        for number in range(2)
    ]
    points = [
        {
            "key": "auc",
            "value": 0.5 + number / 10,
            "timestamp": 1,
            "model_id": model,
            "dataset_name": "d",
            "dataset_digest": "1",
        }
        for number, model in enumerate(models)
    ]
    api.post("runs/log-batch", run_id=run, metrics=[*points, {"key": "plain", "value": 1, "timestamp": 1}])
    assert set(pairs(data_of(api, run)["metrics"])) == {"auc", "plain"}
    for number, model in enumerate(models):
        [metric] = api.get(f"logged-models/{model}")["model"]["data"]["metrics"]
        assert metric == points[number] | {"step": 0, "run_id": run}


def test_curves_of_several_runs_are_read_at_once(api: Api) -> None:
    runs = [api.run() for _ in range(2)]
    for run in runs:
        points = [{"key": "loss", "value": 1 / (step + 1), "timestamp": step, "step": step} for step in range(100)]
        api.post("runs/log-batch", run_id=run, metrics=points)
    whole = api.get("metrics/get-history-bulk", run_id=runs, metric_key="loss")["metrics"]
    assert len(whole) == 200
    assert {point["run_id"] for point in whole} == set(runs)
    part = api.get(
        "metrics/get-history-bulk-interval", run_ids=runs, metric_key="loss", start_step=10, end_step=19, max_results=5
    )["metrics"]
    assert {point["step"] for point in part} <= set(range(10, 20))
    assert 2 <= len(part) <= 12
    with pytest.raises(Refused, match="both"):
        api.get("metrics/get-history-bulk-interval", run_ids=runs, metric_key="loss", start_step=10)


def test_runs_are_searched_with_filters_orders_and_pages(api: Api) -> None:
    experiment = api.post("experiments/create", name="searched")["experiment_id"]
    for number in range(5):
        run = api.run(experiment_id=experiment)
        api.post("runs/log-metric", run_id=run, key="auc", value=number / 5, timestamp=1)
    wish = {"experiment_ids": [experiment], "filter": "metrics.auc < 0.7", "order_by": ["metrics.auc DESC"], "max_results": 3}
    first = api.post("runs/search", **wish)
    assert [run["data"]["metrics"][0]["value"] for run in first["runs"]] == [0.6, 0.4, 0.2]
    rest = api.post("runs/search", **wish, page_token=first["next_page_token"])
    assert [run["data"]["metrics"][0]["value"] for run in rest["runs"]] == [0.0]
    assert api.post("runs/search") == {"runs": []}


def test_data_and_models_that_a_run_used_and_made_are_told_with_it(api: Api) -> None:
    run = api.run()
    model = api.post("logged-models", experiment_id="0", source_run_id=run)["model"]["info"]["model_id"]
    dataset = {"name": "rows", "digest": "abc", "source_type": "local", "source": "{}", "schema": "{}"}
    tags = [{"key": "mlflow.data.context", "value": "train"}]
    api.post("runs/log-inputs", run_id=run, datasets=[{"tags": tags, "dataset": dataset}], models=[{"model_id": model}])
    api.post("runs/outputs", run_id=run, models=[{"model_id": model, "step": 7}])
    found = api.get("runs/get", run_id=run)["run"]
    assert found["inputs"] == {"dataset_inputs": [{"tags": tags, "dataset": dataset}], "model_inputs": [{"model_id": model}]}
    assert found["outputs"] == {"model_outputs": [{"model_id": model, "step": 7}]}
    summaries = api.post("experiments/search-datasets", experiment_ids=["0"])["dataset_summaries"]
    assert {"experiment_id": "0", "name": "rows", "digest": "abc", "context": "train"} in summaries


def test_old_clients_tell_of_models_in_a_tag(api: Api) -> None:
    run = api.run()
    for number in range(2):
        told = f'{{"artifact_path": "model-{number}", "flavors": {{}}, "utc_time_created": "x", "run_id": "{run}"}}'
        api.post("runs/log-model", run_id=run, model_json=told)
    text = pairs(data_of(api, run)["tags"])["mlflow.log-model.history"]
    assert [model["artifact_path"] for model in httpx.Response(200, text=text).json()] == ["model-0", "model-1"]
    with pytest.raises(Refused, match="model_json"):
        api.post("runs/log-model", run_id=run, model_json="{}")


def test_a_server_says_what_it_can_do_to_everybody(platform: RunningPlatform) -> None:
    with platform.http() as stranger:
        for name in ("server-info", "server-features"):
            said = stranger.get(f"/api/3.0/mlflow/{name}").json()
            assert (said["workspaces_enabled"], said["multipart_uploads_enabled"]) == (True, True)
            assert not said["multipart_downloads_enabled"]
        assert stranger.get("/mlflow/default/version").text == "3.17.2"
        assert stranger.get("/mlflow/default/health").text == "OK"


def test_workspaces_are_projects(platform: RunningPlatform, api: Api) -> None:
    at = "/api/3.0/mlflow/workspaces"
    names = [workspace["name"] for workspace in api.http.get(at).json()["workspaces"]]
    assert names == ["default", "mlflow2", "mlflow3", "other"]
    assert api.http.get(f"{at}/default").json()["workspace"]["name"] == "default"
    assert api.http.get(f"{at}/nothing").json()["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    for method, path in (("POST", at), ("PATCH", f"{at}/default"), ("DELETE", f"{at}/default")):
        answer = api.http.request(method, path)
        assert (answer.status_code, answer.json()["error_code"]) == (403, "PERMISSION_DENIED")
        assert "falaj project" in answer.json()["message"]


def test_the_console_of_mlflow_asks_the_same_under_another_name(api: Api) -> None:
    answer = api.http.get("/ajax-api/2.0/mlflow/experiments/get", params={"experiment_id": "0"})
    assert answer.json()["experiment"]["name"] == "Default"


def test_values_no_number_can_have_survive_a_round_trip(api: Api) -> None:
    run = api.run()
    api.post("runs/log-metric", run_id=run, key="huge", value=1.7976931348623157e308, timestamp=1)
    api.post("runs/log-metric", run_id=run, key="tiny", value=5e-324, timestamp=1)
    found = pairs(data_of(api, run)["metrics"])
    assert found == {"huge": 1.7976931348623157e308, "tiny": 5e-324}
    assert math.isfinite(found["huge"])
