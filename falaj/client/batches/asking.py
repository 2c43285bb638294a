"""`falaj.batch(...)`: what a model version says about every row of a dataset's version, as a job that writes a new version."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

from falaj.base.values import value
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.jobs.operations.jobs import SUBMIT_JOB, Input, Spec, Submit, Submitted
from falaj.jobs.operations.words import Resources
from falaj.serving.operations.batches import PLAN_BATCH, Batch, PlanBatch

PATIENCE: Final = 600.0  # seconds: a model may have to be converted first
MEMORY_MIB: Final = 2048


@value
class Asked:
    """The batch as it was decided, and the job that does it."""

    batch: Batch
    submitted: Submitted


def batch(
    model: str,
    *,
    on: str,
    into: str,
    keep: Sequence[str] = (),
    append: bool = False,
    rows: int = 0,
    cpus: float = 1.0,
    memory_mib: int = MEMORY_MIB,
    project: str = "",
    client: Client | None = None,
    **job: Any,
) -> Asked:
    """Submits a job that predicts for `on` (`sales`, `sales@7`) with `model` (`churn:3`, `churn@champion`) and writes a version
    of `into`: the columns of `keep`, and the predictions behind them.

    Which versions those are is decided now. The job goes on from the last piece it wrote when it is tried again. `job` has
    further fields of a job, such as `queue` or `priority`. The platform is the client's, or that of FALAJ_URL and FALAJ_TOKEN;
    the project FALAJ_PROJECT's.
    """
    name, version, alias = parted(model)
    request = PlanBatch(
        project=project_of_environment(project),
        model=name,
        version=version,
        alias=alias,
        on=on,
        into=into,
        keep=tuple(keep),
        append=append,
        rows=rows,
    )
    with nullcontext(client) if client else client_of_environment() as caller:
        planned = caller.call(PLAN_BATCH, request)
        spec = Spec(command=("python",), resources=Resources(cpus=cpus, memory_mib=memory_mib), **job)
        submitted = caller.call(SUBMIT_JOB, Submit(project=request.project, spec=spec_of(planned, spec)))
    return Asked(batch=planned, submitted=submitted)


def spec_of(planned: Batch, wished: Spec) -> Spec:
    """The job of a batch, with what was asked for besides: resources, queue, deadline."""
    return replace(
        wished,
        name=wished.name or _name(planned),
        command=("python", "-m", "falaj.client.batches.job", planned.id),
        permissions=tuple(dict.fromkeys((*planned.permissions, *wished.permissions))),
        inputs=(Input(kind="version", id=planned.version_id), *wished.inputs),
        checkpoints=True,
    )


def _name(planned: Batch) -> str:
    """As much of it as a job may be called."""
    told = f"{planned.model[:60]} v{planned.version} on {planned.dataset} v{planned.number}"
    return re.sub(r"[^A-Za-z0-9 ._-]", "-", told).lstrip(" ._-")[:100]


def parted(model: str) -> tuple[str, int, str]:
    """`churn:3`, `churn@champion` or `churn`, as name, number and alias."""
    name, mark, number = model.rpartition(":")
    if mark and number.isascii() and number.isdigit():
        return name, int(number), ""
    name, _, alias = model.partition("@")
    return name, 0, alias
