"""Whether a winner may still be promoted: policy is asked when it wins, in the name of who began the test."""

from falaj.base.clock import Moment
from falaj.base.errors import PermanentError
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import project_by_id
from falaj.monitoring import wishers
from falaj.monitoring.store.tables import Found
from falaj.monitoring.wishers import Wisher
from falaj.serving.operations.endpoints import DEPLOY
from falaj.serving.permitting import Permits
from falaj.serving.splits import Arms, read_arms
from falaj.serving.store import endpoints as endpoint_store


def refusal(work: UnitOfWork, permits: Permits, held: Found, endpoint: Found, arms: Arms, now: Moment) -> str:
    """Why the split stays, in a sentence; empty where it may become this one. What their token could do was asked when the test
    began."""
    project = project_by_id(work, held.project)
    if project is None:
        return "The split stays as it is: the project is gone."
    identity = wishers.identity_of(work, Wisher(principal=held.started_by), endpoint.zone)
    context = Context(work=work, identity=identity, project=project_facts(project), now=now, request_id="", facts={})
    revisions = endpoint_store.revisions_of(work, endpoint.id, [arm.revision for arm in arms])
    try:
        permits.check(context, DEPLOY, endpoint.name, before=read_arms(endpoint.arms), after=arms, revisions=revisions)
    except PermanentError as error:
        return f"The split stays as it is: {identity.name}, who began the test, may not promote it any more. {error}"
    return ""
