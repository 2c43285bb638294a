"""Datasets in a real Spark session, which has an environment of its own, against a real platform."""

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Running
from tests.training.elsewhere import KEPT, ROOT, promises_of

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]
MODULE = "tests.datasets.spark_promises"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("platform")
    running = Running(place / "home", place / "config")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def kept(platform: Running) -> dict[str, str]:
    """All of them in one session: starting it takes longest."""
    python = Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients")) / "spark" / "bin" / "python"
    credentials = json.loads((platform.home / "credentials.json").read_text())
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "FALAJ_URL": platform.url,
        "FALAJ_TOKEN": credentials["token"],
        "FALAJ_PROJECT": "default",
    }
    command = [str(python), "-m", MODULE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("promise", promises_of(MODULE))
def test_promise(promise: str, kept: dict[str, str]) -> None:
    assert kept[promise] == KEPT
