"""Gates as a whole: every service of them, built from what they stand on."""

from falaj.base.clock import Moment
from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.governance.gate import Gatekeeper
from falaj.jobs.submitting import SubmissionService
from falaj.lifecycle.gates.knowing import KnowledgeService
from falaj.lifecycle.gates.looking import Checks, Looking
from falaj.lifecycle.gates.planning import Planner
from falaj.lifecycle.gates.running import RunningService
from falaj.lifecycle.gates.service import GateService
from falaj.lifecycle.gates.settling import Settler
from falaj.lifecycle.gates.telling import TellingService
from falaj.optimisation.deployable import Deployable
from falaj.optimisation.planning import Forms
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.verifying import VerificationService, Verifier
from falaj.storage.service import BlobService


class Gates:
    """`step` wants to be called about every second by one process. `checks` holds a version of a dataset against its checks;
    `price` is of an hour of a core, in millionths of the platform's currency."""

    def __init__(
        self,
        *,
        database: Database,
        gate: Gatekeeper,
        blobs: BlobService,
        signers: ProjectSigners,
        forms: Forms,
        checks: Checks,
        submissions: SubmissionService,
        price: int,
    ) -> None:
        verifier = Verifier(signers, blobs)
        verification = VerificationService(database, blobs, verifier)
        self._settler = Settler(database, blobs)
        looking = Looking(database, gate, verification, Deployable(signers), checks)
        planner = Planner(database=database, gate=gate, blobs=blobs, verifier=verifier, forms=forms, price=price)
        self._services = (
            GateService(),
            RunningService(
                database=database,
                gate=gate,
                looking=looking,
                planner=planner,
                submissions=submissions,
                settler=self._settler,
            ),
            TellingService(gate, blobs, self._settler),
            KnowledgeService(),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def step(self, now: Moment) -> bool:
        """Settle what is over; whether there may be more to do at once."""
        return self._settler.step(now)
