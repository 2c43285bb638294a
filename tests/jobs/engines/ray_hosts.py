"""What an operator would write for a pool of Ray hosts: `add NAME` starts one that joins the cluster, `remove NAME` ends it.

Run as a program with the file that `RealRay.hosts_by_command` writes. Either may be repeated.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def is_ours(pid: int, name: str) -> bool:
    try:
        return name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def add(told: dict[str, object], file: Path, name: str) -> None:
    if file.exists() and is_ours(int(file.read_text()), name):
        return
    command = [*told["command"], f"--node-name={name}"]  # type: ignore[misc]
    with file.with_suffix(".log").open("wb") as log:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=told["environment"], start_new_session=True
        )
    file.write_text(str(started.pid))


def remove(file: Path, name: str) -> None:
    if not file.exists():
        return
    pid = int(file.read_text())
    deadline = time.monotonic() + 20
    with contextlib.suppress(ProcessLookupError):
        while is_ours(pid, name) and time.monotonic() < deadline:
            os.kill(pid, signal.SIGTERM)  # it ends what it started
            time.sleep(0.5)
        if is_ours(pid, name):
            os.killpg(pid, signal.SIGKILL)
    file.unlink()


if __name__ == "__main__":
    config, verb, name = sys.argv[1:]
    told = json.loads(Path(config).read_text())
    file = Path(config).parent / f"{name}.pid"
    if verb == "add":
        add(told, file, name)
    else:
        remove(file, name)
