"""Kill -9 between writing that a host is to come or go and doing it: none is forgotten, none is doubled."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import falaj.jobs.pools
from falaj.jobs.operations.words import Resources
from falaj.jobs.store import tables
from tests.jobs.mortal import Nursery, failpoints_in
from tests.jobs.mortal_pools import JOBS, open_cluster

# Each failpoint, and the visits at which processes die one after the other before one is let live.
DEATHS = {"jobs.pool-written": (1, 1, 1, 1, 1), "jobs.pool-command-begun": (1, 2)}


@pytest.fixture(scope="module")
def nursery(no_process_survives: None) -> Iterator[Nursery]:
    made = Nursery("tests.jobs.mortal_pools")
    yield made
    made.close()


def test_every_failpoint_of_pools_is_died_at():
    assert failpoints_in(falaj.jobs.pools) == DEATHS.keys()


@pytest.mark.parametrize("name", DEATHS)
def test_killed_at(name: str, nursery: Nursery, tmp_path: Path):
    cluster = open_cluster(tmp_path)
    for _ in range(JOBS):
        cluster.submit("20", resources=Resources(cpus=4))
    cluster.database.close()
    for visit in DEATHS[name]:
        assert nursery.bear(tmp_path, f"{name}@{visit}") == -signal.SIGKILL
    assert nursery.bear(tmp_path) == 0

    asked = (tmp_path / "asked").read_text().split()
    assert len(asked) == len(set(asked)) == JOBS, "one for each job, and each of them once"
    assert list((tmp_path / "made").iterdir()) == [], "nothing is left at the provider"
    cluster = open_cluster(tmp_path)
    assert cluster.rows(tables.pool_hosts) == []
    cluster.database.close()
