"""Mean time from submission to end on Muri's traces, 8 hosts with 8 GPUs each: durations told, and not told.

A job that gives back keeps its progress; every start, the first too, takes what it took in Muri's artifact.
"""

import time
from typing import Final, NamedTuple

from scheduler_traces import MURI_NODES, gpu_nodes, muri

from falaj.base.clock import SECOND
from falaj.jobs.scheduler.playing import Play
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Queue, Rules

SRSF: Final = {"trace1": 980_141, "trace3": 185_022}  # published, seconds; durations known
TIRESIAS: Final = {"trace1": 3_330_371, "trace3": 347_213}  # not known


class Completed(NamedTuple):
    mean_jct: float  # seconds
    jobs: int
    stops: int
    rounds: int
    seconds: float  # of real time


def replay(trace: str, *, known: bool, limit: int | None = None) -> Completed:
    read = muri(trace, known=known, limit=limit)
    queue = Queue(name="muri", quotas={}, order="shortest")
    scheduler = Scheduler(Rules(), nodes=gpu_nodes(MURI_NODES), queues=[queue])
    play = Play(scheduler, start_cost=lambda job: read.start_cost[job.id])
    play.coming(read.arrivals)
    began = time.perf_counter()
    play.run()
    seconds = time.perf_counter() - began
    happened = play.happenings()
    spans = [(one.ended - one.submitted) / SECOND for one in happened if one.ended is not None]
    if len(spans) != len(read.arrivals):
        raise RuntimeError(f"{len(read.arrivals) - len(spans)} jobs of {trace} were never done")
    stops = sum(one.stopped for one in happened)
    return Completed(sum(spans) / len(spans), len(spans), stops, play.rounds, seconds)
