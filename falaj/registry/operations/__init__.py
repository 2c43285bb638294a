"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.registry.operations import evidence, keys, models, promotions, versions

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *models.OPERATIONS,
    *versions.OPERATIONS,
    *promotions.OPERATIONS,
    *evidence.OPERATIONS,
    *keys.OPERATIONS,
)
