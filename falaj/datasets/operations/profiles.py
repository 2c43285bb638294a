"""What the columns of a version look like."""

from typing import Any, Final

from falaj.base.operation import Operation, Record, Scope
from falaj.base.values import Message, Name, value
from falaj.datasets.operations.versions import OneVersion
from falaj.datasets.operations.words import READ


@value
class Profile(Message):
    """`columns` in their order, each with its `name`, `type` and `nulls`, and where it has them `distinct` (an estimate unless
    `distinct_is_exact`), `nans`, `min`, `max`, `mean`, `deviation`, `quantiles`, `histogram`, `shortest`, `longest` and `top`,
    the most frequent values with how often they come."""

    dataset: Name
    version: int
    rows: int
    columns: tuple[dict[str, Any], ...]


PROFILE_VERSION: Final = Operation(
    name="dataset.profile",
    summary="Show what the columns of a version look like: nulls, different values, ranges, quantiles, frequent values.",
    method="GET",
    path="projects/{project}/datasets/{dataset}/versions/{version}/profile",
    request=OneVersion,
    result=Profile,
    permission=READ,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (PROFILE_VERSION,)
