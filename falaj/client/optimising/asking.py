"""`falaj.optimise(...)`: the smallest and fastest form of a model version that is provably as good, searched for by a job."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client.batches.asking import parted
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.jobs.operations.jobs import Spec, Submitted
from falaj.jobs.operations.words import Resources
from falaj.optimisation.jobs import MEMORY_MIB, gpus_for, submitted
from falaj.optimisation.operations.optimisations import PLAN_OPTIMISATION, Limits, Optimisation, PlanOptimisation
from falaj.optimisation.operations.words import Target


@value
class Asked:
    """The optimisation as it was decided, and the job that does it."""

    optimisation: Optimisation
    submitted: Submitted


def optimise(
    model: str,
    *,
    on: str,
    held_out: str = "",
    label: str = "",
    slices: Sequence[str] = (),
    target: Target = "cpu",
    max_drop: float = 0.005,
    max_slice_drop: float = 0.02,
    latency_ms: float = 0.0,
    only: Sequence[str] = (),
    student: str = "",
    certify: int = 3,
    seconds: int = 900,
    cpus: float = 1.0,
    memory_mib: int = MEMORY_MIB,
    gpus: float | None = None,
    project: str = "",
    client: Client | None = None,
    **job: Any,
) -> Asked:
    """Submits a job that makes variants of `model` (`churn:3`, `churn@champion`) from the rows of `on`, and has the best of
    them certified on `held_out`, or on rows of `on` that are set apart.

    `student` is a registered version (`small:2`) that is to be taught what this one knows. For the target `gpu` the job asks
    for one GPU, unless `gpus` says otherwise. `job` has further fields of a job, such as `queue` or `priority`. The platform is
    the client's, or that of FALAJ_URL and FALAJ_TOKEN; the project FALAJ_PROJECT's.
    """
    name, version, alias = parted(model)
    taught, taught_version, unfit = parted(student) if student else ("", 0, "")
    if unfit:
        raise Invalid(f"A student is named by its number, such as {taught}:3, not as {student!r}.")
    request = PlanOptimisation(
        project=project_of_environment(project),
        model=name,
        version=version,
        alias=alias,
        on=on,
        held_out=held_out,
        label=label,
        slices=tuple(slices),
        target=target,
        limits=Limits(max_drop=max_drop, max_slice_drop=max_slice_drop, latency_ms=latency_ms),
        only=tuple(only),
        student=taught,
        student_version=taught_version,
        certify=certify,
        seconds=seconds,
    )
    with nullcontext(client) if client else client_of_environment() as caller:
        planned = caller.call(PLAN_OPTIMISATION, request)
        resources = Resources(cpus=cpus, memory_mib=memory_mib, gpus=gpus_for(target, gpus))
        spec = Spec(command=("python",), resources=resources, **job)
        return Asked(optimisation=planned, submitted=submitted(caller.call, request.project, planned, spec))
