"""The job of an optimisation: the platform's own program, with what was asked for besides, and nothing brought along."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from falaj.base.errors import FalajError
from falaj.base.operation import Operation
from falaj.jobs.operations.jobs import SUBMIT_JOB, Input, Spec, Submit, Submitted
from falaj.optimisation.operations.optimisations import ABANDON_OPTIMISATION, OneOptimisation, Optimisation
from falaj.optimisation.operations.words import Target

MEMORY_MIB: Final = 4096
_BESIDES: Final = 3600  # seconds that a try may take beside its search's own: ended before it judges, it would be for nothing
PROGRAM: Final = ("python", "-m", "falaj.client.optimising.job")


def command_of(optimisation: str) -> tuple[str, ...]:
    return (*PROGRAM, optimisation)


def gpus_for(target: Target, wished: float | None = None) -> float:
    """What is made for GPUs is measured on one, unless somebody said how many the job takes."""
    return wished if wished is not None else 1.0 if target == "gpu" else 0.0


def spec_of(planned: Optimisation, wished: Spec) -> Spec:
    """`wished` says how it is to run: resources, queue, deadline."""
    return replace(
        wished,
        name=wished.name or _name(planned),
        command=command_of(planned.id),
        permissions=tuple(dict.fromkeys((*planned.permissions, *wished.permissions))),
        timeout=max(wished.timeout, planned.seconds + _BESIDES),
        inputs=(Input(kind="version", id=planned.version_id), *wished.inputs),
        checkpoints=True,
    )


def submitted(call: Callable[[Operation[Any, Any], Any], Any], project: str, planned: Optimisation, wished: Spec) -> Submitted:
    """The job of what was just planned, by whatever calls operations. Where it is refused nobody would ever do the search, and
    that is given up."""
    try:
        found: Submitted = call(SUBMIT_JOB, Submit(project=project, spec=spec_of(planned, wished)))
    except FalajError:
        call(ABANDON_OPTIMISATION, OneOptimisation(project=project, optimisation=planned.id))
        raise
    return found


def _name(planned: Optimisation) -> str:
    """As much of it as a job may be called."""
    return re.sub(r"[^A-Za-z0-9 ._-]", "-", f"optimise {planned.model[:60]} v{planned.version}")[:100]
