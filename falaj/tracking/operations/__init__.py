"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.tracking.operations import artifacts, experiments, models, runs

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *experiments.OPERATIONS,
    *runs.OPERATIONS,
    *models.OPERATIONS,
    *artifacts.OPERATIONS,
)
