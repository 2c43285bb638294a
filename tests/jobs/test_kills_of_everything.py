"""A thousand jobs on this host and on a Ray of several hosts, while kill -9 takes whatever runs them: every job ends once.

All of it is real: `falaj up` in a process of its own, its scheduler, database, ledger and engines. What is killed at random
moments is the platform itself, keepers, the commands of jobs, drivers and workers of Ray, and whole Ray hosts.
"""

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Database
from falaj.governance.identity.store import tokens
from falaj.governance.ledger.store import leaves
from falaj.governance.projects.operations import UPDATE_PROJECT, UpdateProject
from falaj.governance.zones.operations import CREATE_ZONE, CreateZone
from falaj.jobs.engines.ray_letters import OWNER
from falaj.jobs.operations.jobs import LIST_JOBS, Job, ListJobs
from falaj.jobs.store import tables
from falaj.tracking.store.metrics import metrics
from falaj.tracking.store.runs import runs
from tests.app.effects import verify_ledger
from tests.app.running import RunningPlatform
from tests.jobs.engines.ray_cluster import MARK, RealRay, kill
from tests.jobs.living import Kind, Living
from tests.servers.processes import NO_TLS, Server, free_ports

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(2400)]

ON_THIS_HOST, ON_RAY = 940, 60
# How often each is killed. Those of Ray fall into the time in which jobs run on Ray, which takes longest.
DEATHS: dict[str, int] = {"platform": 8, "keeper": 20, "command": 10}
DEATHS_ON_RAY: dict[str, int] = {"ray host": 2, "ray driver": 2, "ray worker": 2, "command": 2}
# It tells its run that it began and that it ends, each by a number that no other process has: what is told again because the
# platform died before it answered counts once, what another process tells counts twice. A token that counts no more ends it.
COMMAND = r"""
trap '' PIPE
port=${FALAJ_URL##*:} mark=$((SRANDOM))
tell() {
    local said="" step=$((FALAJ_TRY * 2 + $1))
    local body="{\"run_id\":\"$FALAJ_RUN\",\"key\":\"did\",\"value\":$mark,\"timestamp\":$2,\"step\":$step}"
    until [[ $said == *" 200 "* ]]; do
        [[ $said == *" 40"[013]" "* ]] && echo "$said" && exit 9
        [[ $said ]] && sleep 0.2
        said=none
        { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || continue
        printf 'POST /api/2.0/mlflow/runs/log-metric HTTP/1.1\r\nHost: platform\r\nConnection: close\r\n' >&3
        printf 'Authorization: Bearer %s\r\nContent-Type: application/json\r\n' "$FALAJ_TOKEN" >&3
        printf 'Content-Length: %d\r\n\r\n%s' ${#body} "$body" >&3
        IFS= read -r -t 30 said <&3
        said=${said:-none}
        exec 3>&-
    done 2>/dev/null
}
now() { local micro=${EPOCHREALTIME/./}; echo "${micro%???}"; }
tell 0 "$(now)"
sleep 0.2
tell 1 "$(now)"
"""


class Site:
    """The platform, its Ray, and all that is submitted to it."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.jobs: set[str] = set()
        self._closing = threading.Event()
        self.ray = RealRay()
        self.hosts: list[Server] = []
        try:
            self.hosts += [self.ray.add(cpus=2), self.ray.add(cpus=2)]
            (port,) = free_ports(1)  # that it comes back on
            given = {"FALAJ_DATABASE_URL": database_url} if database_url else {}
            self.platform = RunningPlatform(folder / "home", "--port", str(port), settings=self._settings(), **given)
        except BaseException:
            self.ray.close()
            raise
        self.database: Database = (
            PostgresDatabase(database_url) if database_url else SqliteDatabase(self.platform.home.database)
        )
        self.platform.call(CREATE_ZONE, CreateZone(name="cluster", country="AE"))
        self.platform.call(UPDATE_PROJECT, UpdateProject(project="default", zones=("home", "cluster")))
        self.living = Living((folder, self.ray.folder), f"{MARK}={self.ray.token[:16]}", self.jobs)

    def _settings(self) -> str:
        told = {
            "cpus": 2.0,
            "ray_address": self.ray.url,
            "ray_token": self.ray.token,
            "ray_python": str(self.ray.python),
            "ray_zone": "cluster",
        }
        return "\n".join(["[jobs]", *(f"{name} = {json.dumps(given)}" for name, given in told.items())])

    def close(self) -> None:
        self._closing.set()
        self.living.close()
        self.platform.close()
        for process in self.living.now():  # of a test that failed: jobs outlive their platform
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.database.close()
        self.ray.close()

    def submit_all(self, zones: list[str]) -> None:
        for zone in zones:
            if not self._closing.is_set():
                self.submit(zone)

    def submit(self, zone: str) -> None:
        """As a client does that asks until it is answered, by one key: it is submitted once however often it has to ask."""
        spec = {"command": ["bash", "-c", COMMAND], "zone": zone, "experiment": "kills", "timeout": 300, "retries": 5}
        spec["resources"] = {"cpus": 0.25 if zone == "home" else 0.5, "memory_mib": 64}
        key = os.urandom(16).hex()
        while not self._closing.is_set():
            try:
                with self.platform.http(self.platform.token, **{"idempotency-key": key}) as http:
                    answer = http.post("/v1/projects/default/jobs", json={"spec": spec})
            except httpx.TransportError:
                time.sleep(0.2)
                continue
            if answer.status_code < 500:
                assert answer.status_code == 200, answer.text
                self.jobs.add(answer.json()["job"]["id"])
                return
            time.sleep(0.2)

    def listed(self) -> list[Job]:
        found: list[Job] = []
        cursor = ""
        while True:
            page = self.platform.call(LIST_JOBS, ListJobs(project="default", limit=500, cursor=cursor))
            found += page.items
            if not (cursor := page.next):
                return found

    def rows(self, table: Any) -> list[Any]:
        return list(self.database.read(lambda work: work.execute(select(table)).all()))

    def done(self) -> Counter[str]:
        """How many are over, by zone."""
        columns = select(tables.jobs.c.zone).where(tables.jobs.c.ended.is_not(None))
        return Counter(row.zone for row in self.database.read(lambda work: work.execute(columns).all()))

    # Killing

    def die(self, what: str, chance: random.Random) -> None:
        if what == "platform":
            time.sleep(chance.random())  # at any moment, not just after something ended
            self.platform.kill()
            self.living.killed["platform"] += 1
            self.platform.start()
        elif what == "ray host":
            kill(self.hosts.pop(chance.randrange(len(self.hosts))))
            self.living.killed["ray host"] += 1
            self.hosts.append(self.ray.add(cpus=2))
        else:
            kind: Kind = what  # type: ignore[assignment]
            self.living.kill_one(kind, chance)


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path, no_process_survives: None) -> Iterator[Site]:
    made = Site(tmp_path, request.getfixturevalue("postgres_url") if request.param == "postgres" else "")
    try:
        yield made
    finally:
        made.close()


def test_kill_9_of_controller_workers_and_ray_hosts_during_a_thousand_jobs_and_every_job_ends_exactly_once(site: Site) -> None:
    seed, began = random.randrange(2**32), time.monotonic()
    chance = random.Random(seed)
    zones = ["home"] * ON_THIS_HOST + ["cluster"] * ON_RAY
    chance.shuffle(zones)
    submitting = threading.Thread(target=site.submit_all, args=(zones,))
    submitting.start()
    here, there = moments(DEATHS, ON_THIS_HOST, chance), moments(DEATHS_ON_RAY, ON_RAY, chance)
    while submitting.is_alive() or sum(site.done().values()) < len(zones):
        done = site.done()
        assert time.monotonic() - began < 2000, (seed, done, site.living.killed)
        for zone, planned in (("home", here), ("cluster", there)):
            if planned and done[zone] >= planned[0][0]:
                site.die(planned.pop(0)[1], chance)
        time.sleep(0.1)
    submitting.join()
    took = time.monotonic() - began
    told = {"seed": seed, "seconds": round(took), "killed": site.living.killed}
    assert not site.living.at_once, (told, "two tries of a job ran at once", site.living.at_once)
    wait_until_nothing_is_left(site, told)
    tries = check_records(site)
    check_effects(site)
    check_ledger(site)
    assert set(site.living.killed) == {*DEATHS, *DEATHS_ON_RAY}, told
    assert tries["lost"], told
    print(json.dumps(told | {"tries": tries, "seen running": len(site.living.seen)}))


def moments(deaths: dict[str, int], jobs: int, chance: random.Random) -> list[tuple[int, str]]:
    """When each comes: once so many jobs are over."""
    return sorted((chance.randrange(jobs // 50, jobs * 17 // 20), what) for what, many in deaths.items() for _ in range(many))


def wait_until_nothing_is_left(site: Site, told: object, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while left := what_is_left(site):
        assert time.monotonic() < deadline, (told, left)
        time.sleep(0.5)


def what_is_left(site: Site) -> dict[str, Any]:
    """Processes, what engines still have, logs that are not kept, and what the controller has not heard of."""
    headers = {"Authorization": f"Bearer {site.ray.token}"}
    with httpx.Client(base_url=site.ray.url, headers=headers, verify=NO_TLS) as http:
        # Ray itself writes down one that was removed soon after it ended again, as nobody's: those count for nothing.
        ray = [job["submission_id"] for job in http.get("/api/jobs/").json() if OWNER in (job["metadata"] or {})]
    attempts = [place.name for place in (site.platform.home.jobs / "attempts").iterdir()]
    left = {
        "processes": site.living.now(),
        # What a platform that died had half written is nobody's attempt, and goes when one starts an hour later.
        "with the local engine": [name for name in attempts if not name.startswith(".")],
        "with Ray": ray,
        "logs": [row.id for row in site.rows(tables.attempts) if row.log is None],
        "news": site.rows(tables.news),
    }
    return {what: found for what, found in left.items() if found}


def check_records(site: Site) -> Counter[str]:
    """Each job is over once, by one try that was done, and no two of its tries overlap. How tries ended."""
    jobs = {job.id: job for job in site.listed()}
    assert len(jobs) == ON_THIS_HOST + ON_RAY
    assert jobs.keys() == site.jobs, "what was acknowledged is there, and nothing else"
    assert {job.state for job in jobs.values()} == {"done"}
    tries: dict[str, list[Any]] = {id: [] for id in jobs}
    for row in sorted(site.rows(tables.attempts), key=lambda row: row.number):
        tries[row.job].append(row)
    ends = Counter(row.job for row in site.rows(tables.events) if row.kind in ("done", "failed", "cancelled"))
    assert ends == Counter(jobs.keys()), "one event that says that it is over"
    metered = Counter(row.attempt for row in site.rows(tables.metering))
    for job, attempts in tries.items():
        assert [row.number for row in attempts] == list(range(1, len(attempts) + 1))
        assert len(attempts) == jobs[job].attempts
        assert [row.cause for row in attempts].count("done") == 1, attempts
        assert attempts[-1].cause == "done"
        assert {row.state for row in attempts} == {"ended"}
        assert metered[attempts[-1].id] == 1
        spans = [(row.started, row.ended) for row in attempts if row.started is not None]
        assert all(before[1] <= after[0] for before, after in pairwise(spans)), (job, spans)
    assert not [row for row in site.rows(tokens) if row.label.startswith("job ") and row.revoked is None]
    return Counter(row.cause for attempts in tries.values() for row in attempts)


def check_effects(site: Site) -> None:
    """What jobs did: a try that was done began once and ended once, and no try did anything twice."""
    jobs = {job.run: job for job in site.listed()}
    numbered = {row.number: jobs[row.id] for row in site.rows(runs)}
    steps: dict[str, Counter[int]] = {job: Counter() for job in site.jobs}
    order: dict[str, list[tuple[int, int]]] = {job: [] for job in site.jobs}
    for row in site.rows(metrics):
        steps[numbered[row.run].id][row.step] += 1
        order[numbered[row.run].id].append((row.step, row.at))
    for job in jobs.values():
        last = job.attempts * 2
        assert max(steps[job.id].values()) == 1, (job.id, steps[job.id])
        assert steps[job.id][last] == steps[job.id][last + 1] == 1
        assert max(steps[job.id]) == last + 1
        moments = [at for _, at in sorted(order[job.id])]
        assert moments == sorted(moments), "a try did something after the next one had begun"


def check_ledger(site: Site) -> None:
    """Every start and every end is on record once, and the record is whole."""
    with site.platform.http(site.platform.token) as http:
        verify_ledger(http)
    found = [(row.operation, json.loads(row.record)) for row in site.rows(leaves) if row.outcome == "done"]
    turns = [record["facts"] for operation, record in found if operation == "job.schedule"]
    attempts = len(site.rows(tables.attempts))
    assert sum(turn["over"] for turn in turns) == len(site.jobs)
    assert sum(turn["started"] for turn in turns) == sum(turn["ended"] for turn in turns) == attempts
    submitted = Counter(record["facts"]["job"] for operation, record in found if operation == "job.submit")
    assert submitted == Counter(site.jobs)
