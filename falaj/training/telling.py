"""What a training tells of itself: figures, words and files of its run, by the job's own token and MLflow's protocol.

It is told beside the training, which never waits for it and never fails by it; `close` waits until all is told.
"""

import json
import math
import os
import queue
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

_Told = tuple[str, Any]
_SECONDS: Final = 30.0
_PATIENCE: Final = 30.0
_PAUSES: Final = (1.0, 4.0)  # seconds, before what nobody answered is told again
_REFUSED: Final = "refused"
_LONGEST: Final = 5000  # characters of a tag
_AT_ONCE: Final = 100  # figures in one message, as many as MLflow takes of any kind
_WAITING: Final = 10_000  # what is told faster than it can be sent is dropped beyond these


class Run(Protocol):
    """Where a training's figures go. Nothing here raises because of the network."""

    def figures(self, figures: Mapping[str, float], step: int = 0) -> None: ...

    def parameters(self, parameters: Mapping[str, object]) -> None: ...

    def words(self, words: Mapping[str, str]) -> None:
        """Tags of the run: what is to be read on its page."""

    def file(self, path: Path, name: str) -> None:
        """Kept with the run under this name; the file must stay until `close`."""

    def close(self) -> None: ...


class NoRun:
    """Of a training that is no job."""

    def figures(self, figures: Mapping[str, float], step: int = 0) -> None:
        pass

    def parameters(self, parameters: Mapping[str, object]) -> None:
        pass

    def words(self, words: Mapping[str, str]) -> None:
        pass

    def file(self, path: Path, name: str) -> None:
        pass

    def close(self) -> None:
        pass


class RemoteRun:
    """A run of an MLflow server, Falaj's own or another. `lost` counts what could not be told."""

    def __init__(
        self,
        url: str,
        token: str,
        run: str,
        authorities: str | None = None,
        *,
        workspace: str = "",
        patience: float = _PATIENCE,
    ) -> None:
        """`patience` is how many seconds `close` waits for a server that is slow or gone."""
        self._url, self._run, self._patience = url.rstrip("/"), run, patience
        self._context = ssl.create_default_context(cafile=authorities) if url.startswith("https:") else None
        self._waiting: queue.Queue[_Told | None] = queue.Queue(_WAITING)
        self._headers = {"Authorization": f"Bearer {token}"} | ({"X-MLFLOW-WORKSPACE": workspace} if workspace else {})
        self._artifacts = ""
        self._closing = threading.Event()
        self.lost = 0
        self._teller = threading.Thread(target=self._tell, name="falaj-run", daemon=True)
        self._teller.start()

    def figures(self, figures: Mapping[str, float], step: int = 0) -> None:
        now = time.time_ns() // 1_000_000
        for name, value in figures.items():
            self._put("metrics", {"key": name, "value": _number(float(value)), "timestamp": now, "step": step})

    def parameters(self, parameters: Mapping[str, object]) -> None:
        for name, value in parameters.items():
            self._put("params", {"key": name, "value": str(value)})

    def words(self, words: Mapping[str, str]) -> None:
        for name, text in words.items():
            self._put("tags", {"key": name, "value": text[:_LONGEST]})

    def file(self, path: Path, name: str) -> None:
        self._put("file", (path, name))

    def close(self) -> None:
        self._closing.set()
        with suppress(queue.Full):
            self._waiting.put_nowait(None)  # wakes who waits for more
        self._teller.join(self._patience)

    def _put(self, kind: str, told: Any) -> None:
        try:
            self._waiting.put_nowait((kind, told))
        except queue.Full:
            self.lost += 1

    def _tell(self) -> None:
        while not (self._closing.is_set() and self._waiting.empty()):
            told = [self._waiting.get()]
            while len(told) < _AT_ONCE and not self._waiting.empty():
                told.append(self._waiting.get_nowait())
            said = [one for one in told if one is not None]
            self._send([one for one in said if one[0] != "file"])
            for path, name in (one for kind, one in said if kind == "file"):
                self.lost += not self._send_file(path, name)

    def _send(self, told: list[_Told]) -> None:
        """What is refused is told in halves, so that one that nobody wants does not take the others along."""
        if not told:
            return
        message: dict[str, list[Any]] = {"metrics": [], "params": [], "tags": []}
        for kind, one in told:
            message[kind].append(one)
        answer = self._post("runs/log-batch", {"run_id": self._run} | message)
        if answer is None or (answer is _REFUSED and len(told) == 1):
            self.lost += len(told)
        elif answer is _REFUSED:
            half = len(told) // 2
            self._send(told[:half])
            self._send(told[half:])

    def _post(self, method: str, document: dict[str, Any]) -> Any:
        body = json.dumps(document).encode()
        for pause in (*_PAUSES, None):
            answer = self._ask("POST", f"/api/2.0/mlflow/{method}", body, {"Content-Type": "application/json"})
            if answer is not None or pause is None or self._closing.wait(pause):
                break
        return answer

    def _send_file(self, path: Path, name: str) -> bool:
        if not self._artifacts:
            found = self._ask("GET", f"/api/2.0/mlflow/runs/get?run_id={quote(self._run, safe='')}")
            if not isinstance(found, dict):
                return False
            self._artifacts = str(found["run"]["info"]["artifact_uri"]).partition(":/")[2].lstrip("/")
        place = f"/api/2.0/mlflow-artifacts/artifacts/{quote(self._artifacts)}/{quote(name)}"
        try:
            with path.open("rb") as file:
                length = {"Content-Length": str(path.stat().st_size), "Content-Type": "application/octet-stream"}
                return isinstance(self._ask("PUT", place, file, length), dict)
        except OSError:
            return False

    def _ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """What was answered; `_REFUSED` where it was no, None where nobody answered."""
        request = Request(self._url + path, data=body, headers=self._headers | dict(headers or {}), method=method)
        try:
            with urlopen(request, timeout=_SECONDS, context=self._context) as answer:  # nosec B310 - http or https, checked when made
                return json.loads(answer.read() or b"{}")
        except HTTPError as error:
            error.close()
            return _REFUSED if error.code in (400, 413, 422) else None
        except (URLError, OSError, ValueError, HTTPException):
            return None


def _number(value: float) -> float | str:
    """JSON has no word for what is not finite; MLflow reads it from a text."""
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def is_first(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the process that speaks for its training, by what launchers tell each one of its place."""
    return all(variables.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK"))


def run_from_environment(variables: Mapping[str, str] = os.environ) -> Run:
    """The run of the job that this process belongs to, told by its first process alone; elsewhere one that tells nobody."""
    url, token, run = (variables.get(f"MLFLOW_{name}", "") for name in ("TRACKING_URI", "TRACKING_TOKEN", "RUN_ID"))
    if not (url.startswith(("http://", "https://")) and run and is_first(variables)):
        return NoRun()
    return RemoteRun(url, token, run, variables.get("FALAJ_CA"), workspace=variables.get("MLFLOW_WORKSPACE", ""))
