"""What would help a job that waits: what its owner could ask for instead, tried through the scheduler, and whom to ask."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from falaj.base.clock import MINUTE
from falaj.jobs.scheduler.values import CARD, Job, Wait
from falaj.jobs.scheduler.wording import counted

# Whether a job would begin now if it were like this.
Starts = Callable[[Job], bool]
_BY_KIND: Final = {
    "quota": "An operator can give the queue {queue} more, or let it borrow more, with `falaj queue apply`.",
    "room": "It starts when jobs that run end or give back; `falaj job eta` says when that is likely.",
    "zone": "Name another zone of the project (`--zone`), or ask an operator for hosts in this one.",
    "model": "Name another GPU model (`--gpu-model`), or none, to run on any.",
    "budget": "An operator can raise the monthly budget of the queue {queue}; what was spent counts for 30 days.",
    "queue-closed": "Submit it to another queue (`--queue`); `falaj queue list` shows those there are.",
    "never": "It will not start as it is: cancel it and ask for less.",
}
_OWN_QUOTA: Final = "An operator can give the queue {queue} more with `falaj queue apply`."


def hints_for(job: Job, wait: Wait, starts: Starts, *, as_usual: bool = True) -> Iterable[str]:
    """The surest first; nothing is said to start now that was not tried. `as_usual`: whether what helps others that wait by
    the same rule would help this one."""
    if wait.kind in ("room", "quota", "order", "model"):
        yield from _smaller(job, starts)
        yield from _wider(job, starts)
    if wait.kind == "order" and not job.duration and starts(replace(job, duration=MINUTE)):
        yield "Say how long it takes (`--takes`): a short one may run before a reserved start."
    if wait.kind in _BY_KIND and as_usual:
        cannot_borrow = wait.kind == "quota" and not job.preemptible
        yield (_OWN_QUOTA if cannot_borrow else _BY_KIND[wait.kind]).format(queue=job.queue)


def _smaller(job: Job, starts: Starts) -> Iterable[str]:
    shape = job.shape
    if job.count > 1 and not job.least:
        if starts(replace(job, least=1)):
            yield "It would start now as an elastic job (`--least 1`), with the tasks there is room for, and grow later."
    elif shape.gpus > 1:
        fewer = next((many for many in _halves(shape.gpus) if starts(_with_gpus(job, many, CARD))), 0)
        if fewer:
            yield f"With {counted(fewer, 'GPU')} instead of {shape.gpus} it would start now."
    elif shape.gpus == 1 and shape.gpu_milli == CARD and starts(_with_gpus(job, 1, CARD // 2)):
        yield "With half a GPU (`--gpus 0.5`) it would start now."
    elif not shape.gpus and shape.cpu_milli > 1000:
        half = shape.cpu_milli // 2
        if starts(replace(job, shape=replace(shape, cpu_milli=half))):
            yield f"With {counted(half / 1000, 'CPU')} instead of {shape.cpu_milli / 1000:g} it would start now."


def _halves(many: int) -> Iterable[int]:
    while many := many // 2:
        yield many


def _with_gpus(job: Job, gpus: int, part: int) -> Job:
    sharing = job.shape.sharing if part == CARD else "mps"
    return replace(job, shape=replace(job.shape, gpus=gpus, gpu_milli=part, sharing=sharing))


def _wider(job: Job, starts: Starts) -> Iterable[str]:
    if job.shape.models and starts(replace(job, shape=replace(job.shape, models=()))):
        yield f"On any GPU model, not only {' or '.join(job.shape.models)}, it would start now."
    if job.topology in ("host", "rack") and starts(replace(job, topology="any")):
        yield f"Without asking for one {job.topology} for all its tasks it would start now."
    if job.apart_from and starts(replace(job, apart_from=())):
        yield f"Beside jobs labelled {' or '.join(job.apart_from)} (without `--apart-from`) it would start now."
    if not job.preemptible and starts(replace(job, preemptible=True)):
        yield "If it might be preempted (without `--not-preemptible`) it could borrow, and would start now."
