"""A stock MLflow of its own environment: filled by its own client, and served by its own server."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx

from falaj.base.values import value
from tests.mlflow.clients import python_of
from tests.servers.processes import Server, free_ports

FILL = Path(__file__).with_name("fill_mlflow.py")
NOW, POINTS = 1_760_000_000_000, 2500  # as the script has them
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


@value
class Filled:
    """An MLflow with a bit of everything in it: its database, and the ids of what was made."""

    folder: Path
    ids: dict[str, Any]

    @property
    def file(self) -> Path:
        return self.folder / "mlflow.db"

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.file}"


def filled(client: str, folder: Path) -> Filled:
    """Artifacts lie in `mlruns` beside the database, as they do where nobody says otherwise."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        [python_of(client), "-W", "ignore", FILL, f"sqlite:///{folder / 'mlflow.db'}", folder / "made"],
        cwd=folder,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Filled(folder=folder, ids=json.loads(done.stdout.splitlines()[-1]))


class MlflowServer:
    """`mlflow server` on a port of its own."""

    def __init__(self, client: str, store: Filled) -> None:
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        command = [str(python_of(client).with_name("mlflow")), "server", "--backend-store-uri", store.uri, "--port", str(port)]
        command += ["--host", "127.0.0.1", "--workers", "1"]
        self._server = Server(command, log=store.folder / "server.log", cwd=store.folder, env=os.environ | QUIET)
        self._server.wait_until(self._answers)

    def stop(self) -> None:
        self._server.stop()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False
