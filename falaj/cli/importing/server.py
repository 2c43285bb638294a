"""An MLflow that runs: read through its public REST interface, artifacts included, wherever that server keeps them."""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from falaj.base.errors import Invalid, NotFound, PermanentError, Unavailable
from falaj.cli.importing.records import Experiment, File, LoggedModel, Registered, Run, Version
from falaj.tracking.operations.models import ModelMetric, ModelStatus
from falaj.tracking.operations.runs import Dataset, DatasetInput
from falaj.tracking.operations.words import Metric, Param, Tag

ATTEMPTS = 5
CHUNK = 1 << 20
PROMPT_TAG = "mlflow.prompt.is_prompt"  # prompts stand among the registered models and are none
STATUSES: Mapping[str, ModelStatus] = {
    "LOGGED_MODEL_PENDING": "PENDING",
    "LOGGED_MODEL_READY": "READY",
    "LOGGED_MODEL_UPLOAD_FAILED": "UPLOAD_FAILED",
}


class ServerSource:
    """Credentials come from the variables that MLflow's own clients read."""

    def __init__(self, address: str, *, workspace: str = "") -> None:
        parts = urlsplit(address)
        if parts.username or parts.password:
            raise Invalid("Leave the password out of the address: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.")
        self.label = f"{address.rstrip('/')} {workspace}".rstrip()
        name, password = os.environ.get("MLFLOW_TRACKING_USERNAME"), os.environ.get("MLFLOW_TRACKING_PASSWORD")
        headers = {"x-mlflow-workspace": workspace} if workspace else {}
        if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
            headers["authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=address.rstrip("/"),
            headers=headers,
            auth=(name, password or "") if name and not token else None,
            verify=os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or True,
            timeout=120,
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

    def totals(self, wanted: Collection[str]) -> dict[str, int]:
        """Nothing: a server tells how much there is only by handing it out, page by page."""
        return {}

    def experiments(self) -> Iterator[Experiment]:
        for found in self._pages("POST", "experiments/search", "experiments", {"max_results": 1000, "view_type": "ALL"}):
            yield Experiment(
                id=found["experiment_id"],
                name=found["name"],
                deleted=found.get("lifecycle_stage") == "deleted",
                tags=_tags(found.get("tags")),
            )

    def runs(self, experiment: str) -> Iterator[Run]:
        wish = {"experiment_ids": [experiment], "run_view_type": "ALL", "max_results": 500}
        for found in self._pages("POST", "runs/search", "runs", wish):
            yield _run(found)

    def points(self, run: Run) -> Iterator[Metric]:
        for latest in run.latest:
            wish = {"run_id": run.id, "metric_key": latest.key, "max_results": 25_000}
            for point in self._pages("GET", "metrics/get-history", "metrics", wish):
                yield _metric(point)

    def logged_models(self, experiment: str) -> Iterator[LoggedModel]:
        wish = {"experiment_ids": [experiment], "max_results": 50}
        try:
            for found in self._pages("POST", "logged-models/search", "models", wish):
                yield _logged_model(found)
        except NotFound:
            return  # before MLflow 3 there were none

    def registered(self) -> Iterator[Registered]:
        versions: dict[str, list[Version]] = defaultdict(list)
        for found in self._pages("GET", "model-versions/search", "model_versions", {"max_results": 10_000}):
            versions[found["name"]].append(_version(found))
        for found in self._pages("GET", "registered-models/search", "registered_models", {"max_results": 100}):
            tags = _tags(found.get("tags"))
            if any(tag.key == PROMPT_TAG and tag.value == "true" for tag in tags):
                continue
            yield Registered(
                name=found["name"],
                description=found.get("description", ""),
                tags=tags,
                aliases=tuple((one["alias"], int(one["version"])) for one in found.get("aliases", ())),
                versions=tuple(sorted(versions[found["name"]], key=lambda version: version.version)),
            )

    def files(self, holder: Run | LoggedModel) -> Iterator[File]:
        folders = [""]
        while folders:
            folder = folders.pop()
            if isinstance(holder, Run):
                query = {"run_id": holder.id} | ({"path": folder} if folder else {})
                answer = self._ask("GET", "artifacts/list", query)
            else:
                query = {"artifact_directory_path": folder} if folder else {}
                answer = self._ask("GET", f"logged-models/{holder.id}/artifacts/directories", query)
            for entry in answer.get("files", ()):
                if entry.get("is_dir"):
                    folders.append(entry["path"])
                else:
                    yield File(name=entry["path"], size=int(entry.get("file_size", 0)))

    @contextmanager
    def opened(self, holder: Run | LoggedModel, file: File) -> Iterator[Iterator[bytes]]:
        if isinstance(holder, Run):
            url, query = "/get-artifact", {"run_id": holder.id, "path": file.name}
        else:
            url = f"/ajax-api/2.0/mlflow/logged-models/{holder.id}/artifacts/files"
            query = {"artifact_file_path": file.name}
        try:
            with self._http.stream("GET", url, params=query) as response:
                if response.status_code != 200:
                    response.read()
                    raise _error_of(response)
                yield response.iter_bytes(CHUNK)
        except httpx.TransportError as error:
            raise Unavailable(f"The MLflow server broke off while sending {file.name}: {error}.") from error

    def _pages(self, method: Literal["GET", "POST"], path: str, field: str, wish: dict[str, Any]) -> Iterator[Any]:
        page: dict[str, Any] = {}
        while True:
            answer = self._ask(method, path, wish | page)
            yield from answer.get(field, ())
            if not (following := answer.get("next_page_token")):
                return
            page = {"page_token": following}

    def _ask(self, method: Literal["GET", "POST"], path: str, wish: dict[str, Any]) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(method, f"/api/2.0/mlflow/{path}", wish)
            except Unavailable as error:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(error.delay * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _once(self, method: Literal["GET", "POST"], url: str, wish: dict[str, Any]) -> Any:
        try:
            response = self._http.get(url, params=wish) if method == "GET" else self._http.post(url, json=wish)
        except httpx.TransportError as error:
            raise Unavailable(f"The MLflow server at {self._http.base_url} does not answer: {error}.", delay=0.5) from error
        if response.status_code != 200:
            raise _error_of(response)
        try:
            return response.json()
        except ValueError:
            raise PermanentError(f"{response.url} answered no JSON; is it the address of an MLflow server?") from None


def _error_of(response: httpx.Response) -> Exception:
    try:
        said = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        said = f"it answered {response.status_code}"
    words = f"The MLflow server refused {response.url.path}: {said}"
    if response.status_code in (401, 403):
        return PermanentError(
            f"{words}. Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, for that server."
        )
    if response.status_code == 404:
        return NotFound(words)
    if response.status_code in (408, 429) or response.status_code >= 500:
        return Unavailable(words, delay=0.5)
    return PermanentError(words)


def _tags(found: Any) -> tuple[Tag, ...]:
    return tuple(Tag(key=one["key"], value=one.get("value", "")) for one in found or ())


def _params(found: Any) -> tuple[Param, ...]:
    return tuple(Param(key=one["key"], value=one.get("value", "")) for one in found or ())


def _metric(found: Any) -> Metric:
    """Numbers may come as texts, and `NaN` does."""
    return Metric(
        key=found["key"],
        value=float(found.get("value", 0.0)),
        timestamp=int(found.get("timestamp", 0)),
        step=int(found.get("step", 0)),
    )


def _run(found: Any) -> Run:
    info, data, inputs = found["info"], found.get("data", {}), found.get("inputs", {})
    tags = _tags(data.get("tags"))
    return Run(
        id=info.get("run_id") or info["run_uuid"],
        experiment=info["experiment_id"],
        name=info.get("run_name") or next((tag.value for tag in tags if tag.key == "mlflow.runName"), ""),
        user=info.get("user_id", ""),
        status=info.get("status", "FINISHED"),
        started=int(info.get("start_time", 0)),
        ended=int(info["end_time"]) if "end_time" in info else None,
        deleted=info.get("lifecycle_stage") == "deleted",
        params=_params(data.get("params")),
        tags=tags,
        latest=tuple(_metric(one) for one in data.get("metrics", ())),
        datasets=tuple(
            DatasetInput(dataset=_dataset(one["dataset"]), tags=_tags(one.get("tags")))
            for one in inputs.get("dataset_inputs", ())
        ),
        models_used=tuple(one["model_id"] for one in inputs.get("model_inputs", ())),
        models_made=tuple(
            (one["model_id"], int(one.get("step", 0))) for one in found.get("outputs", {}).get("model_outputs", ())
        ),
        place=info.get("artifact_uri", ""),
    )


def _dataset(found: Any) -> Dataset:
    return Dataset(
        name=found["name"],
        digest=found["digest"],
        source_type=found.get("source_type", ""),
        source=found.get("source", ""),
        schema=found.get("schema", ""),
        profile=found.get("profile", ""),
    )


def _logged_model(found: Any) -> LoggedModel:
    info, data = found["info"], found.get("data", {})
    return LoggedModel(
        id=info["model_id"],
        experiment=info["experiment_id"],
        name=info.get("name", ""),
        kind=info.get("model_type", ""),
        run=info.get("source_run_id", ""),
        status=STATUSES.get(info.get("status", ""), "PENDING"),
        params=_params(data.get("params")),
        tags=_tags(info.get("tags")),
        metrics=tuple(
            ModelMetric(
                metric=_metric(one),
                run=one.get("run_id", ""),
                dataset_name=one.get("dataset_name", ""),
                dataset_digest=one.get("dataset_digest", ""),
            )
            for one in data.get("metrics", ())
        ),
        place=info.get("artifact_uri", ""),
    )


def _version(found: Any) -> Version:
    return Version(
        version=int(found["version"]),
        description=found.get("description", ""),
        source=found.get("source", ""),
        place="",
        run=found.get("run_id", ""),
        stage=found.get("current_stage") or "None",
        tags=_tags(found.get("tags")),
    )
