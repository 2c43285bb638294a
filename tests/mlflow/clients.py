"""The stock clients, each in an environment of its own (`scripts/make_client_venvs.sh`), and the flows they run."""

import os
import subprocess
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.app.running import RunningPlatform
from tests.mlflow.recording import Exchange, Recorder

ROOT = Path(__file__).parents[2]
CLIENTS = ("mlflow3", "mlflow2")
FLOWS = ("training", "autologging", "models", "tracking")
UNSERVED_FLOW = "tracing"


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a flow ended: what it said, and what it asked the platform."""

    status: int
    said: str
    exchanges: list[Exchange]
    unserved: list[Exchange]


def python_of(client: str) -> Path:
    python = Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients")) / client / "bin" / "python"
    assert python.exists(), f"{python} is missing: run scripts/make_client_venvs.sh"
    return python


class Flows:
    """Runs flows side by side, because most of their time goes by in importing libraries."""

    def __init__(self, platform: RunningPlatform, tokens: dict[str, str]) -> None:
        self._platform = platform
        self._tokens = tokens
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._running: dict[tuple[str, str], Future[Done]] = {}

    def start(self) -> None:
        for flow in (*FLOWS, UNSERVED_FLOW):
            for client in CLIENTS:
                self._running[client, flow] = self._pool.submit(self._run, client, flow)

    def done(self, client: str, flow: str) -> Done:
        return self._running[client, flow].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _run(self, client: str, flow: str) -> Done:
        """3.x clients name their project as a workspace; 2.x clients know none, so it stands in the address."""
        recorder = Recorder(self._platform.url)
        with recorder.recording(), tempfile.TemporaryDirectory() as folder:
            place = {"MLFLOW_TRACKING_URI": recorder.url, "MLFLOW_WORKSPACE": client}
            if client == "mlflow2":
                place = {"MLFLOW_TRACKING_URI": f"{recorder.url}/mlflow/{client}"}
            ended = subprocess.run(
                [python_of(client), Path(__file__).parent / "flows" / f"{flow}.py"],
                env=quiet_environment() | place | {"MLFLOW_TRACKING_TOKEN": self._tokens[client]},
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=280,
                check=False,
            )
        return Done(status=ended.returncode, said=ended.stdout, exchanges=recorder.exchanges, unserved=recorder.unserved())


def quiet_environment() -> dict[str, str]:
    """This process's own without what would lead a client elsewhere, and nothing said to anybody but the platform."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("MLFLOW", "FALAJ", "PYTHON"))}
    return inherited | {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "GIT_PYTHON_REFRESH": "quiet",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
