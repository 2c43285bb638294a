"""The job of an optimisation: the platform's own program, with what was asked for besides, and nothing brought along."""

import re
from dataclasses import replace
from typing import Final

from falaj.jobs.operations.jobs import Input, Spec
from falaj.optimisation.operations.optimisations import Optimisation

PROGRAM: Final = ("python", "-m", "falaj.client.optimising.job")


def command_of(optimisation: str) -> tuple[str, ...]:
    return (*PROGRAM, optimisation)


def spec_of(planned: Optimisation, wished: Spec) -> Spec:
    """`wished` says how it is to run: resources, queue, deadline."""
    return replace(
        wished,
        name=wished.name or _name(planned),
        command=command_of(planned.id),
        permissions=tuple(dict.fromkeys((*planned.permissions, *wished.permissions))),
        inputs=(Input(kind="version", id=planned.version_id), *wished.inputs),
        checkpoints=True,
    )


def _name(planned: Optimisation) -> str:
    """As much of it as a job may be called."""
    return re.sub(r"[^A-Za-z0-9 ._-]", "-", f"optimise {planned.model[:60]} v{planned.version}")[:100]
