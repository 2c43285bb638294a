"""Kill -9 at every point between a write and an act: every job ends exactly once, none is lost, none is doubled."""

import signal
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import falaj.jobs
from falaj.jobs.store import tables
from tests.jobs.cluster import Cluster
from tests.jobs.mortal import Nursery, failpoints_in, open_cluster, spans, submit_some
from tests.jobs.test_keeping import kept

JOBS = 60
# Each failpoint, and the visits at which processes die one after the other before one is let live.
DEATHS = {
    "jobs.taken-over": (1, 1),
    "jobs.turn-written": (1, 2, 5),
    "jobs.attempt-started": (1, 3, 20),
    "jobs.attempt-stopped": (1, 2),
    "jobs.log-stored": (1, 4),
    "jobs.log-kept": (1, 4),
    "sqlite.before-commit": (3, 6, 15),
    "sqlite.after-commit": (3, 6, 15),
    "storage.object-written": (2,),
}


@pytest.fixture(scope="module")
def nursery(no_process_survives: None) -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def test_every_failpoint_of_the_controller_is_died_at():
    assert failpoints_in(falaj.jobs) == {name for name in DEATHS if name.startswith("jobs.")}


@pytest.mark.parametrize("name", DEATHS)
def test_killed_at(name: str, nursery: Nursery, tmp_path: Path):
    cluster = open_cluster(tmp_path)
    expected = submit_some(cluster, JOBS)
    cluster.database.close()
    for visit in DEATHS[name]:
        assert nursery.bear(tmp_path, f"{name}@{visit}") == -signal.SIGKILL
    assert nursery.bear(tmp_path) == 0

    cluster = open_cluster(tmp_path)
    assert {row.id: row.state for row in cluster.rows(tables.jobs)} == expected
    for job, end in expected.items():
        check(cluster, job, end)
    assert not list((tmp_path / "timers").glob("*.json")), "nothing is left at the engine"
    assert cluster.rows(tables.news) == []
    cluster.database.close()


def check(cluster: Cluster, job: str, end: str) -> None:
    tries = cluster.tries(job)
    assert Counter(cluster.told(job))[end] == 1
    causes = Counter(attempt.cause for attempt in tries)
    assert causes["done"] == (end == "done")
    assert causes["failed"] == (2 if end == "failed" else 0)
    assert [attempt.number for attempt in tries] == list(range(1, len(tries) + 1))
    assert all(before[1] <= after[0] for before, after in pairwise(spans(cluster, job))), "two ran at once"
    ran = [attempt for attempt in tries if attempt.log]
    assert ran
    assert kept(cluster, job) == tries[0].id.encode() if tries[0].log else tries[0].cause == "unstarted"
