"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.collaboration.operations import activity, comments, links, notices, owners, reviews

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *owners.OPERATIONS,
    *comments.OPERATIONS,
    *reviews.OPERATIONS,
    *notices.OPERATIONS,
    *links.OPERATIONS,
    *activity.OPERATIONS,
)
