"""Delta and Iceberg tables, whose libraries are large and have an environment of their own."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.servers.s3 import S3Storage
from tests.training.elsewhere import KEPT, ROOT, promises_of

pytestmark = pytest.mark.heavy
MODULE = "tests.tables.connectors.lake_promises"


@pytest.mark.parametrize("promise", promises_of(MODULE))
def test_promise(promise: str, s3_storage: S3Storage) -> None:
    python = Path(os.environ.get("FALAJ_CLIENTS", ROOT / ".clients")) / "lake" / "bin" / "python"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "AWS_ACCESS_KEY_ID": s3_storage["access_key"],
        "AWS_SECRET_ACCESS_KEY": s3_storage["secret_key"],
        "AWS_ENDPOINT_URL": s3_storage["endpoint"],
        "LAKE_BUCKET": s3_storage["bucket"],
    }
    command = [str(python), "-m", "tests.training.elsewhere", MODULE, promise]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[promise] == KEPT
