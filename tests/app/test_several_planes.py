"""Two control planes over one Postgres, each with the engine of its own home: what one of them does to its jobs, whoever
decides, while it lives, while it is gone and when it is back."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations import nodes as hosts
from falaj.jobs.operations.words import Resources
from tests.app.conftest import MakePlatform
from tests.app.mortal import MortalPlatform

pytestmark = pytest.mark.heavy


def until(true: Callable[[], Any], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


class Planes:
    def __init__(self, make: MakePlatform, folder: Path, url: str) -> None:
        self.a, self.b = (self._plane(make, folder, name, url) for name in "ab")

    def _plane(self, make: MakePlatform, folder: Path, name: str, url: str) -> MortalPlatform:
        plane = make(name)
        plane.home.path.mkdir(mode=0o700)
        plane.home.settings.write_text(
            f'[database]\nurl = "{url}"\n[keys]\ndirectory = "{folder}/keys"\n[storage.local]\ndirectory = "{folder}/blobs"\n'
            f'[jobs]\nhost = "host-{name}"\ncpus = 1.0\nmemory_mib = 2000\n[serving]\nenabled = false\n'
        )
        return plane

    def submit(self, plane: MortalPlatform, mark: str) -> str:
        spec = declared.Spec(
            command=("sh", "-c", f"echo here {mark}; sleep {mark}; true"), resources=Resources(cpus=1.0, memory_mib=100)
        )
        made = plane.call(declared.SUBMIT_JOB, declared.Submit(project="default", spec=spec))
        return str(made.job.id)

    def tries(self, plane: MortalPlatform, job: str) -> list[Any]:
        """Newest first."""
        return list(plane.call(declared.LIST_ATTEMPTS, declared.OneJob(project="default", job=job)).items)

    def show(self, plane: MortalPlatform, job: str) -> Any:
        return plane.call(declared.SHOW_JOB, declared.OneJob(project="default", job=job))

    def log(self, plane: MortalPlatform, job: str) -> Any:
        return plane.call(declared.READ_LOG, declared.ReadLog(project="default", job=job))

    def left(self) -> list[Path]:
        return [place for plane in (self.a, self.b) for place in (plane.home.jobs / "attempts").iterdir()]


def processes(mark: str) -> int:
    """How many of them run."""
    found = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                found += (process / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", mark.encode()]
            except OSError:
                continue
    return found


def host_of(planes: Planes, job: str) -> str:
    return str(planes.tries(planes.b, job)[0].places[0].node)


def test_a_job_runs_once_at_a_time_and_ends_once_whichever_plane_dies(
    make_platform: MakePlatform, tmp_path: Path, postgres_url: str
) -> None:
    planes = Planes(make_platform, tmp_path, postgres_url)
    planes.a.start()
    planes.b.start()
    until(lambda: len(planes.b.call(hosts.LIST_NODES, hosts.LIST_NODES.request()).items) == 2, 30, "both hosts are seen")
    marks = {planes.submit(planes.b, mark): mark for mark in ("6001.5", "6002.5")}
    until(lambda: all(processes(mark) == 1 for mark in marks.values()), 30, "both run")
    until(lambda: all(planes.show(planes.a, job).state == "running" for job in marks), 15, "both are seen to run")
    on_a, on_b = sorted(marks, key=lambda job: host_of(planes, job))
    assert [host_of(planes, job) for job in (on_a, on_b)] == ["host-a", "host-b"]
    assert (planes.log(planes.a, on_a).text, planes.log(planes.b, on_b).text) == (
        f"here {marks[on_a]}\n",
        f"here {marks[on_b]}\n",
    )
    assert "out of reach from here" in planes.log(planes.b, on_a).note

    planes.a.kill()
    until(lambda: "silent" in _states(planes.b), 60, "it is said that its engine does not answer")
    planes.a.restart()
    until(lambda: _states(planes.b) == ["ready", "ready"], 30, "it is back")
    assert [len(planes.tries(planes.b, job)) for job in marks] == [1, 1]
    assert [processes(mark) for mark in marks.values()] == [1, 1]
    assert planes.log(planes.a, on_a).text == f"here {marks[on_a]}\n"

    for job, plane in ((on_a, planes.b), (on_b, planes.a)):
        plane.call(declared.CANCEL_JOB, declared.Cancel(project="default", job=job))
    until(lambda: all(planes.show(planes.a, job).state == "cancelled" for job in marks), 60, "both are cancelled")
    until(lambda: not planes.left(), 30, "nothing is left behind")
    assert [processes(mark) for mark in marks.values()] == [0, 0]
    assert [len(planes.tries(planes.b, job)) for job in marks] == [1, 1]
    for plane in (planes.a, planes.b):
        assert [planes.log(plane, job).text for job in marks] == [f"here {mark}\n" for mark in marks.values()]


def test_a_job_of_a_plane_that_stays_away_is_tried_elsewhere_and_its_orphan_ends_when_that_is_back(
    make_platform: MakePlatform, tmp_path: Path, postgres_url: str
) -> None:
    planes = Planes(make_platform, tmp_path, postgres_url)
    planes.a.start()
    job = planes.submit(planes.a, "6003.5")
    until(lambda: processes("6003.5") == 1, 30, "it runs")
    planes.b.start()
    planes.a.kill()
    until(lambda: len(planes.tries(planes.b, job)) == 2, 200, "it is tried again")
    assert host_of(planes, job) == "host-b"
    until(lambda: processes("6003.5") == 2, 30, "nobody can end what is left on a host whose plane is gone")
    planes.a.restart()
    until(lambda: processes("6003.5") == 1, 15, "it ends what is left itself")
    assert planes.show(planes.a, job).state == "running"
    planes.a.call(declared.CANCEL_JOB, declared.Cancel(project="default", job=job))
    until(lambda: planes.show(planes.a, job).state == "cancelled", 60, "it is cancelled")
    until(lambda: not planes.left(), 30, "nothing is left behind")
    assert processes("6003.5") == 0
    assert len(planes.tries(planes.b, job)) == 2


def _states(plane: MortalPlatform) -> list[str]:
    return sorted(node.state for node in plane.call(hosts.LIST_NODES, hosts.LIST_NODES.request()).items)
