"""The traces of jobs over time, as arrivals to be played: Muri's (SIGCOMM'22) and Philly's, both from Microsoft's cluster."""

import csv
import gzip
import math
import sys
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from falaj.base.clock import SECOND, Moment
from falaj.jobs.scheduler.playing import Arrival
from falaj.jobs.scheduler.values import CARD, GPU, Cohort, Job, Node, Queue, Quota, Shape

TRACES: Final = Path(__file__).resolve().parents[2] / "shared" / "traces"
PER_NODE: Final = 8
ZONE: Final = "here"
# Seconds that each start takes, by model and the binary logarithm of its GPUs (Muri's artifact).
START_SECONDS: Final = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
OTHER_START_SECONDS: Final = 10
MURI_NODES: Final = 8
# Nodes of Philly's virtual clusters (Helios' artifact), of which a fifth is played.
PHILLY_NODES: Final = {
    "6214e9": 64,
    "7f04ca": 32,
    "11cb48": 16,
    "b436b2": 64,
    "ee9e8c": 64,
    "e13805": 16,
    "6c71a0": 32,
    "2869ce": 16,
    "ed69ec": 8,
    "103959": 8,
    "0e4a51": 32,
}
PHILLY_SHRUNK: Final = 5
_FIRST, _LAST = datetime.fromisoformat("2017-10-01"), datetime.fromisoformat("2017-11-30 23:59")


class Muri(NamedTuple):
    arrivals: list[Arrival]
    start_cost: dict[str, int]  # by job
    model: dict[str, str]


def require(folder: str) -> Path:
    found = TRACES / folder
    if not found.is_dir():
        sys.exit(f"there are no traces at {found}: this benchmark replays them")
    return found


def gpu_nodes(count: int) -> list[Node]:
    return [
        Node(name=f"node-{number:02d}", zone=ZONE, cpu_milli=10**6, memory_mib=10**6, cards=("V100",) * PER_NODE)
        for number in range(count)
    ]


def gpu_job(id: str, gpus: int, submitted: int, queue: str, duration: int) -> Job:
    """Whole nodes where it needs more than one has, all at once."""
    tasks, rest = divmod(gpus, PER_NODE)
    if tasks and rest:
        tasks, each = gpus // math.gcd(gpus, PER_NODE), math.gcd(gpus, PER_NODE)
    else:
        tasks, each = (tasks, PER_NODE) if tasks else (1, gpus)
    return Job(
        id=id,
        project=queue,
        user="",
        queue=queue,
        submitted=Moment(submitted),
        shape=Shape(cpu_milli=1000, memory_mib=1024, gpus=each),
        zones=(ZONE,),
        count=tasks,
        duration=duration,
    )


def muri(trace: str, *, known: bool, queue: str = "muri", limit: int | None = None) -> Muri:
    """`known`: whether jobs say how long they take."""
    arrivals, start_cost, model = [], {}, {}
    with (require("muri") / f"{trace}.csv").open() as file:
        for row in list(csv.DictReader(file))[:limit]:
            gpus = int(row["num_gpu"])
            takes = round(float(row["iterations"]) * float(row["iteration_time"]) * 1.015 / 1000 * SECOND)
            job = gpu_job(row["job_id"], gpus, int(row["submit_time"]) * 1000, queue, takes if known else 0)
            seconds = START_SECONDS.get(row["model_name"], (OTHER_START_SECONDS,) * 6)[int(math.log2(gpus))]
            arrivals.append(Arrival(job=job, takes=takes))
            start_cost[job.id], model[job.id] = seconds * SECOND, row["model_name"]
    return Muri(sorted(arrivals, key=lambda one: one.job.submitted), start_cost, model)


def philly(clusters: tuple[str, ...] = tuple(PHILLY_NODES), *, pooled: bool = False, known: bool = False) -> list[Arrival]:
    """The jobs of October and November 2017, in the queue of their virtual cluster or all in one."""
    rows = []
    with gzip.open(require("philly") / "philly_pollux.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            at = datetime.fromisoformat(row["timestamp"])
            if _FIRST <= at <= _LAST and row["cluster"] in clusters:
                came = round((at - _FIRST).total_seconds() * SECOND)
                rows.append((came, round(float(row["duration"]) * SECOND), int(row["num_gpus"]), row["cluster"]))
    return [
        Arrival(
            job=gpu_job(f"{number:05d}", gpus, came, "pool" if pooled else cluster, takes if known else 0), takes=max(1, takes)
        )
        for number, (came, takes, gpus, cluster) in enumerate(sorted(rows))
    ]


def philly_nodes(cluster: str) -> int:
    return math.ceil(PHILLY_NODES[cluster] / PHILLY_SHRUNK)


def philly_queues(clusters: tuple[str, ...] = tuple(PHILLY_NODES), order: str = "fifo") -> tuple[list[Queue], list[Cohort]]:
    """A queue for each virtual cluster, owed its nodes' GPUs, that lends to the others and borrows from them."""
    queues = [
        Queue(
            name=cluster,
            cohort="all",
            quotas={GPU: Quota(nominal=philly_nodes(cluster) * PER_NODE * CARD)},
            order="shortest" if order == "shortest" else "fifo",
        )
        for cluster in clusters
    ]
    return queues, [Cohort(name="all", quotas={})]
