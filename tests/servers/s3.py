"""A real S3 server: SeaweedFS, whose one binary comes from PyPI."""

import json
import secrets
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import httpx
import pytest

from tests.servers.processes import NO_TLS, Server, free_ports, program

REGION = "us-east-1"
ATTEMPTS = 3  # between finding ports free and listening on them, somebody else may take one


class S3Storage(TypedDict):
    endpoint: str
    bucket: str
    access_key: str
    secret_key: str
    region: str


class S3Server:
    """`stop` and `start` keep the data and the ports; a test that stops it must start it again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="falaj-s3-"))
        self.access_key = "test" + secrets.token_hex(8)
        self.secret_key = secrets.token_hex(20)
        identity = {
            "name": "falaj",
            "credentials": [{"accessKey": self.access_key, "secretKey": self.secret_key}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        (self.folder / "identities.json").write_text(json.dumps({"identities": [identity]}))
        self._server: Server | None = None
        self._choose_ports()

    def _choose_ports(self) -> None:
        names = [
            "master.port",
            "master.port.grpc",
            "volume.port",
            "volume.port.grpc",
            "filer.port",
            "filer.port.grpc",
            "s3.port",
            "s3.port.grpc",
        ]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.endpoint = f"http://127.0.0.1:{self._ports['s3.port']}"
        self._filer = f"http://127.0.0.1:{self._ports['filer.port']}"

    def start_anywhere(self) -> None:
        """The first start: on other ports if somebody was quicker on these."""
        for _ in range(ATTEMPTS - 1):
            try:
                return self.start()
            except RuntimeError:
                self._choose_ports()
        return self.start()

    def start(self) -> None:
        command = [
            program("weed", str(Path(sys.executable).parent / "weed")),
            "-logtostderr",
            "server",
            f"-dir={self.folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            *(f"-{name}={port}" for name, port in self._ports.items()),
            "-filer",
            "-s3",
            f"-s3.config={self.folder / 'identities.json'}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=100000",  # never by the disk's free space: each bucket takes volumes of its own
            "-master.electionTimeout=1s",
            "-master.telemetry=false",
        ]
        # It keeps its data when killed, and takes ten seconds to stop when asked nicely.
        self._server = Server(command, log=self.folder / "log", end=signal.SIGKILL, cwd=self.folder)
        self._server.wait_until(self._answers)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _answers(self) -> bool:
        """Ready means that an object can be stored: the parts find each other after they listen."""
        try:
            stored = httpx.put(f"{self._filer}/ready", content=b"ready", timeout=2, verify=NO_TLS)
            return stored.is_success and httpx.get(self.endpoint, timeout=2, verify=NO_TLS).status_code < 500
        except httpx.HTTPError:
            return False

    def create_bucket(self) -> str:
        bucket = f"test-{uuid.uuid4().hex}"
        httpx.post(f"{self._filer}/buckets/{bucket}/", timeout=10, verify=NO_TLS).raise_for_status()
        return bucket


@pytest.fixture(scope="session")
def s3_server(no_process_survives: None) -> Iterator[S3Server]:
    server = S3Server()
    try:
        server.start_anywhere()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def s3_storage(s3_server: S3Server) -> S3Storage:
    """A fresh bucket for each test, and the way to it."""
    return {
        "endpoint": s3_server.endpoint,
        "bucket": s3_server.create_bucket(),
        "access_key": s3_server.access_key,
        "secret_key": s3_server.secret_key,
        "region": REGION,
    }
