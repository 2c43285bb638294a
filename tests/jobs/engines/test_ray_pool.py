"""A pool of a real Ray cluster under a real platform: from no host to a job that ran, and back to none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.jobs.operations import nodes
from falaj.jobs.operations.words import Resources
from tests.jobs.engines import ray_hosts
from tests.jobs.engines.ray_cluster import RealRay
from tests.jobs.yard import Yard

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]

SETTINGS = """
[jobs]
local = false
ray_address = "{url}"
ray_token = "{token}"
ray_python = "{python}"

[jobs.pools.burst]
cpus = 2
memory_mib = 2048
most = 2
delay_seconds = 1
cool_down_seconds = 5
add = ["{program}", "{script}", "{hosts}", "add", "{{name}}"]
remove = ["{program}", "{script}", "{hosts}", "remove", "{{name}}"]
"""


@pytest.fixture
def ray(no_process_survives: None) -> Iterator[RealRay]:
    made = RealRay()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def yard(ray: RealRay, tmp_path: Path) -> Iterator[Yard]:
    hosts = ray.hosts_by_command(cpus=2, memory=2 << 30)
    given = {"url": ray.url, "token": ray.token, "python": ray.python, "program": sys.executable, "hosts": hosts}
    made = Yard(tmp_path, SETTINGS.format(script=ray_hosts.__file__, **given))
    yield made
    made.close()


def listed(yard: Yard) -> list[nodes.Node]:
    return list(yard.call(nodes.LIST_NODES, nodes.LIST_NODES.request()).items)


def test_a_host_joins_ray_for_a_job_and_leaves_it_after_the_cool_down(ray: RealRay, yard: Yard):
    assert listed(yard) == []
    submitted = yard.submit("sh", "-c", "echo from a host that was not there", resources=Resources(cpus=2, memory_mib=256))
    assert "pool burst" in submitted.plan.forecast.reason
    (coming,) = yard.when(lambda: listed(yard), bool)
    assert (coming.pool, coming.state, coming.engine) == ("burst", "starting", "ray")
    assert f"Host {coming.name} of pool burst is on its way" in yard.why(submitted.job.id).sentence
    job = yard.ended(submitted.job.id)
    assert job.state == "done"
    assert yard.log(job.id) == "from a host that was not there\n"
    (there,) = listed(yard)
    assert there.name.startswith(f"{coming.name}-"), "as Ray calls it"
    assert (there.pool, there.flags) == ("burst", ())
    (going,) = yard.when(lambda: listed(yard), lambda found: found[0].state == "going")
    assert going.name == there.name
    engine = ray.engine()
    yard.when(engine.nodes, lambda found: not found)
    engine.close()
    yard.when(lambda: list(ray.folder.glob("*.pid")), lambda found: not found)  # and its command has ended
