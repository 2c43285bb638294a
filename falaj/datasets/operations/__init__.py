"""Declarations of this room, by noun."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.datasets.operations import (
    checks,
    classes,
    comparing,
    datasets,
    deriving,
    external,
    features,
    places,
    profiles,
    pushing,
    reading,
    tidying,
    versions,
    writing,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *datasets.OPERATIONS,
    *versions.OPERATIONS,
    *writing.OPERATIONS,
    *pushing.OPERATIONS,
    *reading.OPERATIONS,
    *deriving.OPERATIONS,
    *comparing.OPERATIONS,
    *profiles.OPERATIONS,
    *tidying.OPERATIONS,
    *checks.OPERATIONS,
    *classes.OPERATIONS,
    *features.OPERATIONS,
    *places.OPERATIONS,
    *external.OPERATIONS,
)
