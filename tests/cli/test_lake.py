"""Delta and Iceberg through the commands, as in the environment of somebody who installed `falaj[lake]`; and polars' frames."""

import json
import os
import subprocess
import sysconfig
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Running
from tests.servers.s3 import S3Storage
from tests.training.elsewhere import ROOT

pytestmark = pytest.mark.heavy
STEPS = "tests.cli.lake_steps"
TYPES = {"id": "int64", "name": "text", "price": "decimal(12, 2)", "at": "moment", "day": "date", "raw": "bytes"}


class Lake:
    """The command, and programs of one's own, run by the interpreter that has the libraries."""

    def __init__(self, platform: Running, storage: S3Storage) -> None:
        python = Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients")) / "lake" / "bin" / "python"
        self._python = str(python)
        credentials = json.loads((platform.home / "credentials.json").read_text())
        self._environment = platform.environment | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
            "AWS_ACCESS_KEY_ID": storage["access_key"],
            "AWS_SECRET_ACCESS_KEY": storage["secret_key"],
            "AWS_ENDPOINT_URL": storage["endpoint"],
            "FALAJ_URL": credentials["url"],
            "FALAJ_TOKEN": credentials["token"],
            "FALAJ_PROJECT": "default",
        }

    def json(self, *arguments: str) -> Any:
        return json.loads(self._ran("falaj.cli.main", *arguments, "--json"))

    def fails(self, *arguments: str) -> str:
        done = self._run("falaj.cli.main", *arguments)
        assert done.returncode in (1, 2), done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def step(self, name: str, *arguments: str) -> str:
        """Something done with the libraries themselves; what it printed last."""
        return self._ran(STEPS, name, *arguments).splitlines()[-1]

    def _ran(self, *arguments: str) -> str:
        done = self._run(*arguments)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [self._python, "-m", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def lake(platform: Running, s3_storage: S3Storage) -> Lake:
    return Lake(platform, s3_storage)


def test_a_delta_table_is_imported_by_version_and_exported_as_one(lake: Lake, tmp_path: Path) -> None:
    lake.step("delta", str(tmp_path / "wells"))
    made = lake.json("dataset", "import", "delta", f"delta:///{tmp_path}/wells", "--at", "0")
    assert (made["rows"], made["origin"]) == (2, "delta:///wells, version 0")
    assert {column["name"]: column["type"] for column in made["columns"]} == TYPES
    assert lake.json("dataset", "import", "delta", f"delta:///{tmp_path}/wells", "--at", "0")["version"] == 1
    newest = lake.json("dataset", "import", "delta", f"delta:///{tmp_path}/wells", "--mode", "overwrite")
    assert (newest["version"], newest["rows"]) == (2, 4)
    out = f"delta:///{tmp_path}/out"
    lake.json("dataset", "export", "delta@1", out)
    assert "--replace" in lake.fails("dataset", "export", "delta@2", out)
    lake.json("dataset", "export", "delta@2", out, "--replace")
    assert json.loads(lake.step("counted", str(tmp_path / "out"))) == [1, 4, 2]  # version, its rows, and those of the first
    assert lake.json("dataset", "import", "again", out)["rows"] == 4
    assert "no Delta table" in lake.fails("dataset", "import", "nothing", f"delta:///{tmp_path}/nothing")


def test_a_delta_table_in_a_bucket_goes_both_ways(lake: Lake, s3_storage: S3Storage, tmp_path: Path) -> None:
    lake.step("delta", str(tmp_path / "wells"))
    lake.json("dataset", "import", "bucket", f"delta:///{tmp_path}/wells")
    address = f"delta+s3://{s3_storage['bucket']}/{uuid.uuid4().hex}"
    lake.json("dataset", "export", "bucket", address)
    made = lake.json("dataset", "import", "back", address)
    assert (made["rows"], made["origin"]) == (4, f"{address}, version 0")


def test_an_iceberg_table_is_imported_at_its_newest_and_at_a_snapshot(lake: Lake, tmp_path: Path) -> None:
    snapshot = lake.step("iceberg", str(tmp_path))
    address = f"iceberg:///{tmp_path}/catalog.db"
    made = lake.json("dataset", "import", "ice", address, "--table", "sales.wells", "--at", snapshot)
    assert (made["rows"], {column["name"]: column["type"] for column in made["columns"]}) == (2, TYPES)
    newest = lake.json("dataset", "import", "ice", address, "--table", "sales.wells", "--mode", "overwrite")
    assert (newest["rows"], newest["version"]) == (4, 2)
    assert "sales.nothing" in lake.fails("dataset", "import", "ice", address, "--table", "sales.nothing")


def test_frames_of_polars_are_saved_and_read(lake: Lake) -> None:
    assert lake.step("polars") == "kept"
