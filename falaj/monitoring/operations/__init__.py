"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.monitoring.operations import abtests, alerts, checks, labels, monitors, objectives

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *monitors.OPERATIONS,
    *checks.OPERATIONS,
    *alerts.OPERATIONS,
    *labels.OPERATIONS,
    *abtests.OPERATIONS,
    *objectives.OPERATIONS,
)
