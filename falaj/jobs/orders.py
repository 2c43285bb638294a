"""From what people ask for to what the scheduler needs, and back to a text that fits in a row."""

import json
from typing import Any, Final

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.operations.words import Resources
from falaj.jobs.scheduler.values import CARD, Job, Shape

_ROUNDING: Final = 1e-6  # of numbers with a decimal point
_LEAST_PART: Final = 10  # thousandths of a card; less than a hundredth of one is of no use to anybody


def shape_of(resources: Resources) -> Shape:
    """Raises `Invalid` where the parts of a GPU cannot be had."""
    whole, part = divmod(round(resources.gpus * CARD), CARD)
    if whole and abs(resources.gpus - whole) * CARD > _ROUNDING:
        raise Invalid(f"{resources.gpus} GPUs cannot be given: ask for whole ones, or for a part of one such as 0.5.")
    if 0 < resources.gpus * CARD < _LEAST_PART:
        raise Invalid(f"{resources.gpus} of a GPU is less than can be given: ask for 0.01 or more.")
    if resources.cpus <= 0:
        raise Invalid(f"{resources.cpus} CPUs cannot be given: a task needs some, such as 0.1.")
    return Shape(
        cpu_milli=max(1, round(resources.cpus * 1000)),
        memory_mib=resources.memory_mib,
        gpus=whole or (1 if part else 0),
        gpu_milli=part or CARD,
        models=tuple(sorted(set(resources.gpu_models))),
        io=resources.io,
        sharing=resources.sharing if part else "whole",
    )


def order_of(
    spec: Spec,
    *,
    id: str,
    project: str,
    user: str,
    queue: str,
    priority: int,
    zone: str,
    now: Moment,
    price: int = 0,
    start_within: int = 0,
) -> Job:
    """The job as it stands in line; `start_within` is what its class promises, in seconds. Raises `Invalid` for what
    contradicts itself."""
    if spec.least > spec.tasks:
        raise Invalid(f"A job of {spec.tasks} tasks cannot make do with at least {spec.least}.")
    if spec.deadline is not None and spec.deadline <= now:
        raise Invalid(f"The deadline {spec.deadline} has passed already.")
    # To start in time is to be done as long after that as it takes.
    promised = Moment(now + (start_within + spec.seconds) * SECOND) if start_within else None
    deadlines = [moment for moment in (spec.deadline, promised) if moment is not None]
    return Job(
        id=id,
        project=project,
        user=user,
        queue=queue,
        submitted=now,
        shape=shape_of(spec.resources),
        zones=(zone,),
        priority=priority,
        count=spec.tasks,
        least=spec.least,
        duration=spec.seconds * SECOND,
        timeout=spec.timeout * SECOND,
        deadline=min(deadlines, default=None),
        topology=spec.topology,
        apart_from=spec.apart_from,
        label=spec.label,
        preemptible=spec.preemptible,
        saves=spec.checkpoints,
        grace=spec.grace * SECOND,
        price_per_hour=price,
    )


def write_order(job: Job) -> str:
    """Everything of it but what stands in the row's own columns."""
    told = {name: getattr(job, name) for name in _KEPT}
    told["shape"] = {name: getattr(job.shape, name) for name in Shape.__dataclass_fields__}
    return json.dumps(told, separators=(",", ":"))


def read_order(
    text: str, *, id: str, project: str, user: str, queue: str, submitted: Moment, served: int, not_before: Moment
) -> Job:
    told: dict[str, Any] = json.loads(text)
    shape = told.pop("shape")
    shape["models"] = tuple(shape["models"])
    for name in ("zones", "apart_from"):
        told[name] = tuple(told[name])
    told["deadline"] = None if told["deadline"] is None else Moment(told["deadline"])
    return Job(
        id=id,
        project=project,
        user=user,
        queue=queue,
        submitted=submitted,
        served=served,
        not_before=not_before,
        shape=Shape(**shape),
        **told,
    )


_KEPT: Final = (
    *("zones", "priority", "count", "least", "duration", "timeout", "deadline", "topology", "apart_from", "label"),
    *("preemptible", "saves", "grace", "price_per_hour"),
)
