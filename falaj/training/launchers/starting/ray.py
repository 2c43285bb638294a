"""Ray: a cluster of the job's own. The first task is its head and runs the script; the others join it. Whoever has not the
job's secret is not let in."""

import importlib.util
import os
import subprocess
import sys
import threading
from typing import IO, Final

from falaj.training.launchers.starting import meeting
from falaj.training.launchers.starting.children import Children
from falaj.training.launchers.starting.failures import Missing, Unfit
from falaj.training.launchers.starting.seats import Seat, Told, secret_for

_STORE_PART: Final = 0.3  # of the memory that processes share, as Ray itself has it
_LEAST_STORE: Final = 80 << 20
_UP: Final = b"Ray runtime started"
_PATIENCE: Final = 120.0  # seconds


def start(seat: Seat, told: Told) -> int:
    if seat.is_open:
        raise Unfit(meeting.not_private("Ray"))
    if importlib.util.find_spec("ray") is None:
        raise Missing("there is no Ray in the job's environment; name `ray[train]` in its lock file.")
    hosts = [host for host, _ in meeting.meet(seat, "")] if seat.size > 1 else [seat.address]
    head = f"{hosts[0]}:{seat.port}"
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secret_for("ray"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_COLOR_PREFIX": "0",  # a log is no terminal
    }
    # Nobody sees a dashboard in here, and its dozen processes would have the job's memory.
    role = [f"--address={head}"] if seat.rank else ["--head", f"--port={seat.port}", "--include-dashboard=false"]
    offered = [f"--num-cpus={told.cpus}", f"--num-gpus={told.gpus}", f"--object-store-memory={_store()}"]
    with Children() as children:
        joined = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            *role,
            *offered,
            f"--node-ip-address={hosts[seat.rank]}",
            "--block",
        ]
        if seat.rank:
            companion = children.start(joined, variables, hears=False, quietly=True)
            return children.end_when_gone(hosts[0], seat.port, companion)
        daemon = children.start(joined, variables | {"PYTHONUNBUFFERED": "1"}, hears=False, heard=True)
        children.wait_for(hosts[0], seat.port, daemon)
        _wait_until_up(daemon)
        return children.end_of(children.start([sys.executable, *told.script], variables | {"RAY_ADDRESS": head}), daemon)


def _wait_until_up(daemon: "subprocess.Popen[bytes]") -> None:
    """Ray gives up on its own start after half a minute: a script that begins meanwhile would take the processor from it."""
    up = threading.Event()
    threading.Thread(target=_hear, args=(daemon.stdout, up), daemon=True).start()
    up.wait(_PATIENCE)


def _hear(said: IO[bytes], up: threading.Event) -> None:
    """To the end, or else it would wait for somebody to read on; whoever runs it sees how it ends."""
    for line in iter(said.readline, b""):
        if _UP in line:
            up.set()
    up.set()


def _store() -> int:
    shared = os.statvfs("/dev/shm")  # nosec B108 - measured, not written
    return max(_LEAST_STORE, int(shared.f_frsize * shared.f_blocks * _STORE_PART))
