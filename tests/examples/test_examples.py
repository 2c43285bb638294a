"""What a user copies works as it is written: with stock clients of MLflow and of the Open Inference Protocol, without Falaj."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from falaj.cli.demo.stage import Stage
from tests.mlflow.clients import python_of

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, Console(quiet=True)) as stage:
        stage.start()
        stage.falaj("project", "create", "clinic", "--zone", "home")
        yield stage


def script(name: str, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    kept = {name: text for name, text in os.environ.items() if not name.startswith("FALAJ_")}
    command = [str(python_of("examples")), str(EXAMPLES / name), *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=kept | variables, text=True, **pipes)


def said(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    return out


def test_models_are_trained_registered_deployed_and_asked_by_scripts_that_do_not_know_falaj(stage: Stage, tmp_path: Path):
    token = stage.falaj("token", "create", "notebook")["token"]
    tracking = {"MLFLOW_TRACKING_URI": stage.url, "MLFLOW_TRACKING_TOKEN": token, "MLFLOW_WORKSPACE": "clinic"}
    # Of two scripts that make an experiment at the same moment, mlflow's own client lets the second log into "Default".
    stage.falaj("experiment", "create", "tumours", "--project", "clinic")
    fitting = [script("train_models.py", "fit", name, **tracking) for name in ("logistic", "boosting")]
    assert [line.split()[0] for line in map(said, fitting)] == ["logistic", "boosting"]
    registered = json.loads(said(script("train_models.py", "register", **tracking)))

    clinic = ("--project", "clinic")
    url = stage.falaj("deploy", f"{registered['model']}:1", "--name", "tumours", *clinic)["endpoint"]["url"]
    key = stage.falaj("endpoint", "key", "create", "app", "--endpoint", "tumours", *clinic)["token"]
    patients = registered["patients"]
    plain = stage.falaj("predict", "tumours", f"@{stage.written('patients.json', json.dumps(patients))}", *clinic)
    rows = stage.written("rows.json", json.dumps([list(patient.values()) for patient in patients]))
    address = url.removeprefix("http://")
    told = json.loads(said(script("ask_model.py", address, "tumours", rows, INFERENCE_TOKEN=key)))
    wanted = {"revision": "1", "probabilities": [one["probabilities"] for one in plain["predictions"]]}
    assert told == {"REST": wanted, "gRPC": wanted}
