"""The room's control side as a whole: every service of it, built from what it stands on."""

from falaj.base.clock import DAY, Moment
from falaj.database.binding import Bound
from falaj.database.work import Database, UnitOfWork
from falaj.datasets.features.lookups import LookupViews
from falaj.governance.gate import Gatekeeper
from falaj.keys.signing import SigningKeys
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.store import versions
from falaj.registry.verifying import Verifier
from falaj.runtimes.sandbox import Sandbox
from falaj.serving import traffic
from falaj.serving.batch_predictions import BatchService
from falaj.serving.converting import SandboxConverter
from falaj.serving.deployed_files import DeployedFiles
from falaj.serving.deploying import DeploymentService
from falaj.serving.endpoint_keys import EndpointKeyService
from falaj.serving.endpoints import EndpointService
from falaj.serving.exports import ExportService
from falaj.serving.forms import Forms
from falaj.serving.log_keeping import LogKeeping
from falaj.serving.logs import CallLogs
from falaj.serving.looked import LookedLog
from falaj.serving.lookup_drawing import LookupDrawing
from falaj.serving.permitting import Permits
from falaj.serving.planes import PlaneService
from falaj.serving.publishing import Publisher
from falaj.serving.reporting import ReportService
from falaj.serving.rollouts import Rollouts
from falaj.serving.store import states
from falaj.serving.variants import Variants
from falaj.serving.veiling import NoVeil, Veil
from falaj.serving.verdicts import Figures, Herald, Verdict
from falaj.serving.watching import Plans, Watchers
from falaj.storage.service import BlobService


class Serving:
    """`planes` lets the home's own plane in, `forms` are for others that need models as they are
    served, `deployments` for rooms above that deploy. `step` wants to be called about every second, `clean` now and then."""

    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        signers: ProjectSigners,
        signing: SigningKeys,
        gate: Gatekeeper,
        issuer: str,
        sandbox: Sandbox | None = None,
        verdict: Verdict | None = None,
        herald: Herald | None = None,
        variants: Variants | None = None,
        plans: Plans | None = None,
        watchers: Watchers | None = None,
        veil: Veil | None = None,
        logs_kept: int = 30 * DAY,
        logs_most: int = 10 * 2**30,
    ) -> None:
        self._database = database
        views = LookupViews(blobs, gate)
        self._publisher = Publisher(signing, issuer, LookupDrawing(views), plans)
        self._logs = CallLogs(database, blobs, veil or NoVeil())
        self._rollouts = Rollouts(database, verdict or Figures(), herald)
        self._log_keeping = LogKeeping(database, blobs, kept=logs_kept, most=logs_most)
        files = DeployedFiles(blobs, signers)
        self.planes = PlaneService(gate=gate, profile=gate.profile, keys=signing, publisher=self._publisher, files=files)
        converter = None if sandbox is None else SandboxConverter(database, blobs, Permits(gate), sandbox)
        verifier, forms = Verifier(signers, blobs), Forms(database, blobs, converter)
        self.forms = forms
        self._batches = BatchService(database=database, blobs=blobs, verifier=verifier, gate=gate, forms=forms)
        self.deployments = DeploymentService(
            database=database,
            blobs=blobs,
            verifier=verifier,
            signers=signers,
            gate=gate,
            forms=forms,
            views=views,
            variants=variants,
        )
        self._services = (
            self.deployments,
            self._batches,
            EndpointService(blobs),
            EndpointKeyService(gate=gate, profile=gate.profile, keys=signing, issuer=issuer),
            self.planes,
            ExportService(keys=signing, publisher=self._publisher, files=files),
            ReportService(database, self._logs, LookedLog(blobs), watchers),
            traffic.TrafficService(),
            self._logs,
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def prepare(self, work: UnitOfWork, now: Moment) -> None:
        """Make what must be there before anything is served."""
        self._publisher.prepare(work, now)

    def step(self, now: Moment) -> bool:
        """Let canaries grow or go back, put away what breaks workers, and see to it that planes hear of what changed."""
        more = self._rollouts.step(now)
        self._publisher.settle(self._database, now)
        return more

    def serial(self, zone: str) -> int:
        """Of the newest state of a zone; 0 where there is none yet."""
        found = self._database.read(lambda work: states.find_zone(work, zone))
        return 0 if found is None else int(found.serial)

    def wants_plane(self) -> bool:
        """Whether something may soon be asked for predictions: a plane that runs already makes the first one come sooner."""
        return self._database.read(versions.is_any)

    def clean(self, now: Moment) -> bool:
        """Forget what is too old; whether there is more."""
        old = self._database.write(lambda work: traffic.forget(work, now))
        return old | self._log_keeping.step(now) | self._batches.step(now)
