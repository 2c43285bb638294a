"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.serving.operations import batches, endpoints, exports, keys, planes

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *endpoints.OPERATIONS,
    *batches.OPERATIONS,
    *exports.OPERATIONS,
    *keys.OPERATIONS,
    *planes.OPERATIONS,
)
