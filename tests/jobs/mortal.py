"""Controllers that are made to be killed, each a process of its own; what they run on, timers in a folder, lives on.

`python -m tests.jobs.mortal` imports everything once and forks itself for every line it reads: a folder and where to die.
"""

import ast
import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from falaj.base.clock import Moment
from falaj.jobs.store import jobs, tables
from falaj.testing.timers import TimerEngine
from tests.jobs.cluster import START, Cluster, node

SPEED = 40  # times as fast as real time, so that nobody waits for retries
LONGEST_LIFE = 60.0
CANCELLED = "cancel me"  # the name of jobs that are cancelled once they run


class FastClock:
    """The same for every process."""

    def now(self) -> Moment:
        return Moment(START + (time.time_ns() // 1000 - START) * SPEED)


def open_cluster(folder: Path) -> Cluster:
    clock = FastClock()
    timers = TimerEngine("timers", [node("n1", cpus=8), node("n2", cpus=8)], clock, folder / "timers")
    timers.logs = _Logs()
    return Cluster(folder, clock, engines={"timers": timers})


class _Logs(dict[str, bytes]):
    """Every attempt wrote its own id."""

    def get(self, attempt: str, default: Any = None) -> bytes:
        return attempt.encode()


def live(folder: Path) -> None:
    """Until nothing is left to do."""
    cluster = open_cluster(folder)
    controller, keeper = cluster.controller(), cluster.log_keeper()
    until = time.monotonic() + LONGEST_LIFE
    while time.monotonic() < until:
        controller.step()
        keeper.step()
        rows = cluster.rows(tables.jobs)
        for row in rows:
            if row.name == CANCELLED and row.state == "running" and not row.wanted:
                cluster.cancel(row.id)
        if all(row.ended is not None for row in rows) and all(row.log is not None for row in cluster.rows(tables.attempts)):
            return
        time.sleep(0.002)
    raise TimeoutError("it never came to an end")


def failpoints_in(package: ModuleType) -> set[str]:
    """Those that the modules of a package name, not those below it."""
    found = set()
    for file in Path(package.__path__[0]).glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "failpoint":
                (argument,) = call.args
                assert isinstance(argument, ast.Constant)
                found.add(str(argument.value))
    return found


class Nursery:
    """Where they are born. One at a time."""

    def __init__(self, program: str = "tests.jobs.mortal") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def bear(self, folder: Path, failpoint: str = "") -> int:
        """Let one live; how it ended, as `Popen.returncode` says it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), failpoint]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def main(live: Callable[[Path], None]) -> None:
    for line in sys.stdin:
        folder, failpoint = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ["FALAJ_FAILPOINT"] = failpoint
            importlib.reload(sys.modules["falaj.base.failpoints"])  # it reads the environment when it is imported
            try:
                live(Path(folder))
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def spans(cluster: Cluster, job: str) -> list[tuple[int, int]]:
    return [(row.started, row.ended) for row in cluster.tries(job) if row.started is not None]


def submit_some(cluster: Cluster, many: int) -> dict[str, str]:
    """Jobs of every kind, and what is to become of each."""
    rows, expected = [], {}
    for number in range(many):
        kind = number % 6
        if kind == 0:
            row, end = cluster.row("3", "failed", retries=1), "failed"
        elif kind == 1:
            row, end = cluster.row("4000", name=CANCELLED), "cancelled"
        else:
            row, end = cluster.row(str(kind)), "done"
        rows.append(row)
        expected[row["id"]] = end
    cluster.database.write(lambda work: jobs.add(work, rows, cluster.clock.now()))
    return expected


if __name__ == "__main__":
    main(live)
