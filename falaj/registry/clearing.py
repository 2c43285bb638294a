"""Whether a version may answer ahead of the alias that is to point at it: that move was approved, and would be made if it were
asked for now. `serving` asks; the approval is used up by the move alone.
"""

from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.governance.policies.cedar import Promoting
from falaj.registry import approvals, evidence
from falaj.registry.operations.promotions import PROMOTION
from falaj.registry.store import approvals as approval_store
from falaj.registry.store import evidence as evidence_store
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found


def is_cleared(context: Context, gate: Gatekeeper, model: str, number: int) -> bool:
    """For an alias that needs four eyes: others count for nothing."""
    version = version_store.of_model(context.work, model, number)
    if version is None:
        return False
    wanted = approval_store.wanted_of(context.work, model, number, context.now)
    return any(gate.profile.wants_four_eyes(wish.alias) and _would_move(context, gate, version, wish) for wish in wanted)


def _would_move(context: Context, gate: Gatekeeper, version: Found, wish: Found) -> bool:
    """All that the move is held against is asked here too, in the name of whoever would make the version answer: how many
    approved, gates, and policy."""
    given = approvals.given(context.work, wish.id)
    passed = evidence.shown_by(context.work, version).passed
    required = evidence_store.required(context.work, version.project, version.model_name, wish.alias)
    if given < max(1, wish.needed) or not required <= set(passed):
        return False
    promoting = Promoting(
        model=version.model_name, alias=wish.alias, approvals=given, signed=bool(version.digest), gates=passed
    )
    project = context.required_project.name
    return gate.rule_on_promotion(context.work, context.identity, PROMOTION, project, promoting).allowed
