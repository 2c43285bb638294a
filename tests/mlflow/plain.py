"""MLflow's protocol without any client of MLflow's: what a program in another language sends."""

from typing import Any

import httpx


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


class Api:
    """Paths are relative to `/api/2.0/mlflow`. An error is raised as `Refused`."""

    def __init__(self, http: httpx.Client, prefix: str = "") -> None:
        self.http = http
        self._at = f"{prefix}/api/2.0/mlflow"

    def get(self, path: str, **fields: Any) -> Any:
        return _read(self.http.get(f"{self._at}/{path}", params=fields))

    def post(self, path: str, **fields: Any) -> Any:
        return _read(self.http.post(f"{self._at}/{path}", json=fields))

    def send(self, method: str, path: str, **fields: Any) -> Any:
        return _read(self.http.request(method, f"{self._at}/{path}", json=fields))

    def run(self, **fields: Any) -> str:
        """The id of a new run."""
        return str(self.post("runs/create", **({"experiment_id": "0", "start_time": 1} | fields))["run"]["info"]["run_id"])

    def put_file(self, run: str, name: str, content: bytes) -> httpx.Response:
        return self.http.put(f"{self._at}-artifacts/artifacts/0/{run}/artifacts/{name}", content=content)

    def get_file(self, run: str, name: str) -> httpx.Response:
        return self.http.get(f"{self._at}-artifacts/artifacts/0/{run}/artifacts/{name}")


def _read(answer: httpx.Response) -> Any:
    document = answer.json()
    if answer.status_code != 200:
        raise Refused(answer.status_code, document["error_code"], document["message"])
    return document
