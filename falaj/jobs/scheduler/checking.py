"""Jobs whose numbers make no sense are refused at the door; what one is expected to cost."""

from typing import Final

from falaj.base.errors import Invalid
from falaj.jobs.scheduler.quotas import ABSURD
from falaj.jobs.scheduler.values import CARD, Job

HOUR: Final = 3_600_000_000


def price(job: Job) -> int:
    """What a job is expected to cost: to its declared end, or for an hour where nobody knows."""
    return price_of(job, max(job.duration - job.served, 0) or HOUR)


def price_of(job: Job, span: int) -> int:
    return job.price_per_hour * max(0, span) // HOUR


def check(job: Job) -> None:
    shape = job.shape
    numbers = {
        "cpu_milli": shape.cpu_milli,
        "memory_mib": shape.memory_mib,
        "gpus": shape.gpus,
        "gpu_milli": shape.gpu_milli,
        "io": shape.io,
    }
    numbers |= {"count": job.count - 1, "least": job.least, "duration": job.duration, "served": job.served, "grace": job.grace}
    numbers |= {"price_per_hour": job.price_per_hour, "timeout": job.timeout}
    for name, amount in numbers.items():
        if not 0 <= amount < ABSURD:
            raise Invalid(
                f"job {job.id!r} asks for {name} {amount}: expected a whole number that is not negative and less than 2^60"
            )
    if job.least > job.count:
        raise Invalid(f"job {job.id!r} makes do with {job.least} tasks but wants {job.count}: `least` is at most `count`")
    if (shape.gpus > 1 and shape.gpu_milli != CARD) or shape.gpu_milli > CARD:
        raise Invalid(
            f"job {job.id!r} asks for {shape.gpus} GPUs of {shape.gpu_milli} thousandths: a part of a card is asked for alone"
        )
    if not job.zones:
        raise Invalid(f"job {job.id!r} names no zone: name at least one in which it may run")
