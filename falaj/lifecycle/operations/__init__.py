"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.lifecycle.operations import gates, pipelines, stories, triggers

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *pipelines.OPERATIONS,
    *triggers.OPERATIONS,
    *stories.OPERATIONS,
    *gates.OPERATIONS,
)
