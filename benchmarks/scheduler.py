"""What the scheduler decides, and how fast, over real traces and through its own `decide` with the rules that ship.

make bench-scheduler        the last line is one JSON object; ARGS="--only muri" for one part, "--quick" for a look
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import scheduler_eta
import scheduler_kueue
import scheduler_muri
import scheduler_openb
import scheduler_pending
import scheduler_philly
from scheduler_openb import Place
from scheduler_traces import require

from falaj.base.clock import Moment
from falaj.jobs.scheduler.forecasting import QUICK, THOROUGH
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Job, Node, Queue, Rules


class Line(NamedTuple):
    """A row of the table. `figure` names it in the JSON; the others are told to people alone."""

    what: str
    ours: float
    bar: str
    published: str
    figure: str = ""


Part = Callable[[bool], list[Line]]


def deciding(nodes: Sequence[Node]) -> Place:
    """One queue without quotas. What does not start at once is gone."""
    scheduler = Scheduler(Rules(), nodes=nodes, queues=[Queue(name="default", quotas={})])

    def place(job: Job) -> bool:
        scheduler.submitted(job)
        started = bool(scheduler.decide(job.submitted).starts)
        if not started:
            scheduler.ended(job.id, Moment(job.submitted))
        return started

    return place


def openb(quick: bool) -> list[Line]:
    seeds = scheduler_openb.SEEDS[:1] if quick else scheduler_openb.SEEDS
    found = scheduler_openb.measure(deciding, scheduler_openb.load(require("openb")), seeds)
    packed, rate = found["openb_unallocated_pct"], found["openb_decisions_per_s"]
    fgd = f"FGD {scheduler_openb.PUBLISHED_FGD}, BestFit 7.09, Random 13.75"
    return [
        Line("openb: GPUs not given out, % (100 % asked for)", packed, "4.77, aim 4.0", fgd, "openb_unallocated_pct"),
        Line("openb: decisions a second, 1,213 hosts", rate, ">= 3000", "kube-scheduler 680-810", "openb_decisions_per_s"),
    ]


def muri(quick: bool) -> list[Line]:
    limit = 150 if quick else None
    lines = []
    for trace, number in (("trace1", 1), ("trace3", 3)):
        known = scheduler_muri.replay(trace, known=True, limit=limit)
        ratio = known.mean_jct / scheduler_muri.SRSF[trace]
        published = f"SRSF {scheduler_muri.SRSF[trace]:,}"
        lines.append(Line(f"Muri {number}: mean JCT, durations known, s", known.mean_jct, "", published))
        lines.append(Line(f"Muri {number}: over SRSF", ratio, "<= 1.0", "1", f"muri{number}_jct_x_srsf"))
    unknown = scheduler_muri.replay("trace1", known=False, limit=limit)
    tiresias = scheduler_muri.TIRESIAS["trace1"]
    lines.append(Line("Muri 1: mean JCT, durations not told, s", unknown.mean_jct, "", f"Tiresias {tiresias:,}"))
    lines.append(Line("Muri 1: over Tiresias", unknown.mean_jct / tiresias, "<= 0.8", "1", "jct_unknown_x"))
    return lines


def philly(quick: bool) -> list[Line]:
    """Against the better of the two pools: the reference's and our own."""
    limit = 3000 if quick else None
    pooled, shared = scheduler_philly.pooled(limit=limit), scheduler_philly.shared(limit=limit)
    reference = scheduler_philly.POOLED["fifo"]
    best = pooled.mean if quick else min(pooled.mean, reference)
    partitioned = f"partitions {scheduler_philly.PARTITIONED['fifo']:,}"
    return [
        Line("Philly: mean queueing, one pool, s", pooled.mean, "", f"pool {reference:,}"),
        Line("Philly: mean queueing, queues that lend and reclaim, s", shared.mean, "", partitioned),
        Line("Philly: over the better pool", shared.mean / max(1.0, best), "<= 1.5", "1", "philly_queue_x_pool"),
        Line("Philly: own shares withheld too long, of 68,503 jobs", shared.broken, "0", "", "philly_shares_withheld"),
        Line("Philly: jobs that gave back", shared.stops, "", ""),
    ]


def kueue(quick: bool) -> list[Line]:
    classes = [one._replace(jobs=one.jobs // 50) for one in scheduler_kueue.CLASSES] if quick else scheduler_kueue.CLASSES
    ran = scheduler_kueue.replay(classes)
    published = f"Kueue {scheduler_kueue.PUBLISHED_SECONDS:.0f}; the work alone 66"
    return [
        Line("Kueue's baseline, 15,000 jobs, s", ran.seconds, "<= 90", published, "kueue_baseline_s"),
        Line("Kueue's baseline: jobs a second", ran.jobs / ran.seconds, "", "Kueue 42.7"),
        Line("Kueue's baseline: processor time, s", ran.processor_seconds, "", ""),
        Line("Kueue's baseline: longest turn, s", ran.longest_turn, "", ""),
    ]


def pending(quick: bool) -> list[Line]:
    many, decisions = (1_000, 30) if quick else (scheduler_pending.PENDING, scheduler_pending.DECISIONS)
    decided = scheduler_pending.replay(scheduler_openb.load(require("openb")), many, decisions)
    return [
        Line(f"{many:,} pending: next decision, ms (median)", decided.median_ms, "", "", "pending_100k_ms"),
        Line(f"{many:,} pending: next decision, ms (worst)", decided.worst_ms, "", ""),
    ]


def eta(quick: bool) -> list[Line]:
    samples, limit, effort = (2, 200, QUICK) if quick else (40, None, THOROUGH)
    covered = [scheduler_eta.replay(piece, samples, effort) for piece in scheduler_eta.pieces(limit)]
    lines = [
        Line(f"{one.name}: inside the interval, of {one.samples}", one.inside / max(1, one.samples), "", "") for one in covered
    ]
    lines += [Line(f"{one.name}: seconds a forecast takes", one.mean_seconds, "", "") for one in covered]
    inside, asked = sum(one.inside for one in covered), sum(one.samples for one in covered)
    lines.append(
        Line(f"Started inside their 80 % interval, of {asked}", inside / max(1, asked), "0.75-0.9", "", "eta_coverage")
    )
    return lines


PARTS: Final[dict[str, Part]] = {
    "openb": openb,
    "muri": muri,
    "philly": philly,
    "pending": pending,
    "eta": eta,
    "kueue": kueue,
}


def show(lines: Sequence[Line]) -> None:
    for line in lines:
        print(f"{line.what:<68}{line.ours:>14,.3f}   {line.bar:<14}{line.published}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(PARTS), help="one part")
    parser.add_argument("--quick", action="store_true", help="a small piece of each; the figures mean nothing")
    given = parser.parse_args()
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    print(f"{cores} cores, load {load:.1f}" + (": not a quiet machine, speeds will be low" if load > cores / 2 else ""))
    print(f"{'':<68}{'ours':>14}   {'bar':<14}published")
    figures: dict[str, float] = {}
    for name in [given.only] if given.only else PARTS:
        began = time.perf_counter()
        lines = PARTS[name](given.quick)
        show(lines)
        print(f"  {name} took {time.perf_counter() - began:.0f} s")
        figures |= {line.figure: round(line.ours, 4) for line in lines if line.figure}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
