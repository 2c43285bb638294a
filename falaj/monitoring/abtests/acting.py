"""What a test does to the split: in the transaction of what was concluded, with a leaf of its own."""

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid
from falaj.base.ids import ProjectId
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.ledger import recording
from falaj.monitoring.abtests.designing import back_of
from falaj.monitoring.operations.abtests import Design
from falaj.monitoring.store.tables import Found
from falaj.serving import splits
from falaj.serving.changing import change_split
from falaj.serving.operations.endpoints import SPLIT_TRAFFIC, Split
from falaj.serving.operations.words import ChangeKind
from falaj.serving.splits import Arms, read_arms
from falaj.serving.store import endpoints as endpoint_store


@value
class Act:
    """A new split, and how that is told."""

    kind: ChangeKind
    arms: Arms
    words: str


def promotion(arms: Arms, winner: int) -> Act:
    label = next((arm.label for arm in arms if arm.revision == winner), "")
    shadows = [arm for arm in arms if arm.role == "shadow"]
    everything = (*splits.everything_to(winner, label), *shadows)
    return Act(kind="promote", arms=everything, words=f"Revision {winner} was promoted: it answers everything.")


def way_back(design: Design, incumbent: int, before: Arms) -> Act:
    """As a rollback where that is what was before; so the next rollback goes further back, and not into the test."""
    arms = back_of(design, incumbent, before)
    kind: ChangeKind = "rollback" if arms == before else "split"
    return Act(kind=kind, arms=arms, words="The split is back to what it was before the test.")


def withdrawal(arms: Arms, revision: int) -> Act:
    return Act(kind="split", arms=splits.without(arms, revision), words=f"Revision {revision} was taken out of the test.")


def act(work: UnitOfWork, endpoint: Found, project: str, act: Act, *, by: str, reason: str, now: Moment) -> str:
    """The endpoint's row is held. What was done, or why it was not. Where nobody did it (`by` is empty), it leaves a leaf by
    itself."""
    try:
        arms = splits.check(act.arms, endpoint_store.quarantine_reasons(work, endpoint.id), endpoint.name)
    except (Conflict, Invalid) as error:
        return f"The split stays as it is. {error}"
    if arms == read_arms(endpoint.arms):
        return "The split stays as it is: it is what it should be."
    facts = change_split(work, endpoint, kind=act.kind, arms=arms, by=by, reason=reason, now=now)
    if not by:
        recording.append(
            work,
            operation=SPLIT_TRAFFIC,
            request=Split(project=project, endpoint=endpoint.name, arms=arms, reason=reason),
            identity=None,
            project=ProjectId(endpoint.project),
            now=now,
            request_id="",
            facts=facts,
        )
    return act.words
