"""Keepers of pools that are made to be killed, each a process of its own; the hosts they asked for live on in a folder.

`python -m tests.jobs.mortal_pools` forks itself for every line it reads: a folder and where to die.
"""

import time
from pathlib import Path

from falaj.base.clock import SECOND
from falaj.jobs.pools.values import Pool
from tests.jobs import mortal
from tests.jobs.cluster import Cluster
from tests.jobs.mortal import LONGEST_LIFE, FastClock
from tests.jobs.provider import ProvidedEngine, hosts_of, keeper_of, provided

JOBS = 2
# As a provider would keep it: every host that was ever made, by name. It takes a while, so that it outlives who ran it, and
# would make a second one if it were run twice at once.
ADD = 'test -e "$0/made/$1.host" || { sleep 1; echo "$1" >> "$0/asked"; echo "{}" > "$0/made/$1.host"; }'


def pool_in(folder: Path) -> Pool:
    return provided(folder, add=("sh", "-c", ADD, str(folder), "{name}"), most=5, cool_down=10 * SECOND)


def open_cluster(folder: Path) -> Cluster:
    (folder / "made").mkdir(exist_ok=True)
    clock = FastClock()
    return Cluster(folder, clock, engines={"timers": ProvidedEngine("timers", folder / "made", clock, folder / "timers")})


def live(folder: Path) -> None:
    """Until all jobs are over and no host is left."""
    cluster = open_cluster(folder)
    controller, keeper = cluster.controller(real=True), keeper_of(cluster, folder, pool_in(folder))
    until = time.monotonic() + LONGEST_LIFE
    while time.monotonic() < until:
        controller.step()
        keeper.step()
        if cluster.states() == {"done": JOBS} and not hosts_of(cluster):
            return
        time.sleep(0.002)
    raise TimeoutError("it never came to an end")


if __name__ == "__main__":
    mortal.main(live)
