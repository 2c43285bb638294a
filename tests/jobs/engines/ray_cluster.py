"""A real Ray of several hosts on one machine: a head that runs nothing but drivers, and hosts that can be killed."""

import json
import os
import secrets
import shutil
import signal
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from falaj.jobs.engines.ray import RayCluster, RayEngine
from tests.mlflow.clients import python_of
from tests.servers.processes import NO_TLS, Server, free_ports

OBJECTS = 80_000_000  # bytes; Ray takes no less
MARK = "FALAJ_TEST_RAY"


class RealRay:
    def __init__(self) -> None:
        self.token = secrets.token_hex(24)
        self.python = python_of("ray")
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # names of sockets have to be short
        gcs, dashboard, client = free_ports(3)
        self.url, self._address = f"http://127.0.0.1:{dashboard}", f"127.0.0.1:{gcs}"
        self._environment = (
            os.environ
            | {
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN": self.token,
                "RAY_agent_register_timeout_ms": "120000",  # machines are busy
                "RAY_raylet_start_wait_time_s": "120",
                MARK: self.token[:16],
            }
        )
        self._hosts: list[Server] = []
        own = ("--head", f"--port={gcs}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}")
        self.head = self._start("head", *own, f"--ray-client-server-port={client}", f"--temp-dir={self.folder}", "--num-cpus=0")
        self.head.wait_until(lambda: len(self._alive()) == 1, seconds=120)

    def add(self, cpus: int = 4, gpus: int = 0, memory: int = 4 << 30, labels: str = "") -> Server:
        before = self._alive()
        label = (f"--labels={labels}",) if labels else ()
        name, amounts = f"host{len(self._hosts)}", (f"--num-cpus={cpus}", f"--num-gpus={gpus}", f"--memory={memory}")
        host = self._start(name, f"--address={self._address}", *amounts, *label)
        host.wait_until(lambda: bool(self._alive() - before), seconds=120)
        self._hosts.append(host)
        return host

    def hosts_by_command(self, cpus: int = 4, memory: int = 4 << 30) -> Path:
        """The file that `ray_hosts` needs to start hosts of this cluster, one at a time."""
        amounts = (f"--num-cpus={cpus}", "--num-gpus=0", f"--memory={memory}")
        file = self.folder / "hosts.json"
        command = self._command(f"--address={self._address}", *amounts)
        file.write_text(json.dumps({"command": command, "environment": self._environment}))
        return file

    def engine(self, **changes: str) -> RayEngine:
        given = {"address": self.url, "token": self.token, "zone": "home", "interpreter": str(self.python)}
        return RayEngine(RayCluster(**given | changes))

    def close(self) -> None:
        for server in (*self._hosts, self.head):
            server.stop()
        for process in self._left():
            process.kill()
        deadline = time.monotonic() + 10
        while self._left() and time.monotonic() < deadline:
            time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, *arguments: str) -> Server:
        return Server(self._command(*arguments), log=self.folder / f"{name}.log", env=self._environment)

    def _command(self, *arguments: str) -> list[str]:
        agents = dict(
            zip(
                ("dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent", "metrics-export", "node-manager"),
                free_ports(5),
                strict=True,
            )
        )
        ports = [f"--{what}-port={port}" for what, port in agents.items()]
        common = ("--block", "--disable-usage-stats", f"--object-store-memory={OBJECTS}", "--include-log-monitor=False")
        workers = ("--min-worker-port=0", "--max-worker-port=0", "--node-ip-address=127.0.0.1")
        return [str(self.python), str(self.python.with_name("ray")), "start", *arguments, *ports, *common, *workers]

    def _alive(self) -> set[str]:
        """The ids of hosts that the head believes to live; one that was just killed may be among them."""
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            answer = httpx.get(f"{self.url}/api/v0/nodes", headers=headers, timeout=10, verify=NO_TLS)
            found = answer.json()["data"]["result"]["result"]
            return {about["node_id"] for about in found if about["state"] == "ALIVE"}
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return set()

    def _left(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.token[:16] and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


def kill(host: Server) -> None:
    """As a machine dies that nobody told: what holds the host in the cluster goes at once."""
    (raylet,) = [child for child in psutil.Process(host.pid).children(recursive=True) if child.name() == "raylet"]
    os.kill(raylet.pid, signal.SIGKILL)
