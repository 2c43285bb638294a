"""Everything that can be done with jobs, queues, hosts and secrets."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.jobs.operations import jobs, nodes, queues, secrets

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *jobs.OPERATIONS,
    *queues.OPERATIONS,
    *nodes.OPERATIONS,
    *secrets.OPERATIONS,
)
