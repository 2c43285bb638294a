"""Everything that can be asked of governance, the ledger apart: see each part's own `operations.py`."""

from typing import Any, Final

from falaj.base.operation import Operation
from falaj.governance.identity import member_operations
from falaj.governance.identity import operations as identity_operations
from falaj.governance.policies import operations as policy_operations
from falaj.governance.projects import operations as project_operations
from falaj.governance.sessions import operations as session_operations
from falaj.governance.zones import operations as zone_operations

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *identity_operations.OPERATIONS,
    *member_operations.OPERATIONS,
    *session_operations.OPERATIONS,
    *project_operations.OPERATIONS,
    *zone_operations.OPERATIONS,
    *policy_operations.OPERATIONS,
)
