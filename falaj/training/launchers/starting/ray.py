"""Ray: a cluster of the job's own. The first task is its head and runs the script; the others join it. Whoever has not the
job's secret is not let in."""

import importlib.util
import os
import sys
from typing import Final

from falaj.training.launchers.starting import meeting
from falaj.training.launchers.starting.children import Children
from falaj.training.launchers.starting.failures import Missing, Unfit
from falaj.training.launchers.starting.seats import Seat, Told, secret_for

_STORE_PART: Final = 0.3  # of the memory that processes share, as Ray itself has it
_LEAST_STORE: Final = 80 << 20


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
    role = [f"--address={head}"] if seat.rank else ["--head", f"--port={seat.port}", "--dashboard-host=127.0.0.1"]
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
        daemon = children.start(joined, variables, hears=False, quietly=True)
        if seat.rank:
            return children.end_when_gone(hosts[0], seat.port, daemon)
        children.wait_for(hosts[0], seat.port, daemon)
        return children.end_of(children.start([sys.executable, *told.script], variables | {"RAY_ADDRESS": head}), daemon)


def _store() -> int:
    shared = os.statvfs("/dev/shm")  # nosec B108 - measured, not written
    return max(_LEAST_STORE, int(shared.f_frsize * shared.f_blocks * _STORE_PART))
