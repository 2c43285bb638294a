"""What a play came to, queue by queue, and how spans are told."""

from collections.abc import Iterable, Mapping, Sequence

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND
from falaj.jobs.operations.queues import Outcome
from falaj.jobs.scheduler.playing import Arrival, Happening
from falaj.jobs.scheduler.values import CARD, Node


def outcomes(happened: Iterable[Happening], played: Mapping[str, Arrival], nodes: Sequence[Node]) -> Iterable[Outcome]:
    """Use is of the time from the first submission to the last end."""
    by_queue: dict[str, list[Happening]] = {}
    for one in happened:
        by_queue.setdefault(one.queue, []).append(one)
    every = [one for several in by_queue.values() for one in several]
    ends = [one.ended for one in every if one.ended is not None]
    span = max(1, max(ends) - min(one.submitted for one in every)) if ends else 1
    cpus = sum(node.cpu_milli for node in nodes) * span
    gpus = sum(len(node.cards) for node in nodes) * CARD * span
    for queue, several in sorted(by_queue.items()):
        waits = sorted(one.waited / SECOND for one in several)
        turns = [(one.ended - one.submitted) / SECOND for one in several if one.ended is not None]
        work = [played[one.job] for one in several if one.ended is not None]
        yield Outcome(
            queue=queue,
            jobs=len(several),
            mean_wait=sum(waits) / len(waits),
            p90_wait=waits[min(len(waits) - 1, int(len(waits) * 0.9))],
            mean_turnaround=sum(turns) / len(turns) if turns else 0.0,
            preemptions=sum(one.stopped for one in several),
            gpu_use=sum(one.takes * one.job.count * one.job.shape.gpus * one.job.shape.gpu_milli for one in work) / gpus
            if gpus
            else 0.0,
            cpu_use=sum(one.takes * one.job.count * one.job.shape.cpu_milli for one in work) / cpus if cpus else 0.0,
        )


def span_text(seconds: float) -> str:
    """As people say it, with two digits or so: `40 s`, `3.5 min`, `2 h`, `12 d`."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        many = seconds * SECOND / unit
        if many >= 1:
            return f"{many:.0f} {name}" if many >= 10 else f"{many:.1f}".removesuffix(".0") + f" {name}"
    return f"{seconds:.0f} s"
