"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.optimisation.operations import optimisations, variants

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (*optimisations.OPERATIONS, *variants.OPERATIONS)
