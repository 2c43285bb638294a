"""The room as a whole: every service of it, built from what it stands on.

`Watching` comes first, for serving is given what it says and takes in; `Monitoring` stands on serving.
"""

from falaj.base.clock import Clock, Moment
from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.datasets.reading import ReadService
from falaj.governance.gate import Gatekeeper
from falaj.jobs.submitting import SubmissionService
from falaj.monitoring.abtests.running import Running
from falaj.monitoring.abtests.service import AbtestService
from falaj.monitoring.acting import Acting
from falaj.monitoring.alerts import AlertService
from falaj.monitoring.announcing import Herald
from falaj.monitoring.bounding import Bounding
from falaj.monitoring.canaries import CanaryVerdict
from falaj.monitoring.channels import ChannelService
from falaj.monitoring.checks import CheckService
from falaj.monitoring.choosing import Choosing
from falaj.monitoring.closing import Closing
from falaj.monitoring.estimating import Estimating
from falaj.monitoring.following import Following
from falaj.monitoring.judging import Judging
from falaj.monitoring.labels import LabelService
from falaj.monitoring.merging import Merging
from falaj.monitoring.metrics import MonitorMetrics
from falaj.monitoring.monitors import MonitorService
from falaj.monitoring.parts import Parts
from falaj.monitoring.posting import Posting
from falaj.monitoring.quality import QualityService
from falaj.monitoring.raising import Raising
from falaj.monitoring.retraining import Pipelines
from falaj.monitoring.sealing import Documents, MonitorPlans
from falaj.monitoring.service_levels import ServiceLevels
from falaj.monitoring.spreads import SpreadService
from falaj.monitoring.taking import Taking
from falaj.serving.deploying import DeploymentService
from falaj.storage.service import BlobService


class Watching:
    """What serving asks of this room: `plans` says what planes count, `taking` takes in what they counted, `verdict`
    judges canaries, `herald` tells what became of them."""

    def __init__(self, database: Database, blobs: BlobService) -> None:
        self.documents = Documents(database, blobs)
        self.plans = MonitorPlans(self.documents)
        self.taking = Taking(database, self.documents)
        self.verdict = CanaryVerdict(database, LabelService(database, self.documents))
        self.herald = Herald()


class Monitoring:
    """`step`, `follow` and `tend` want to be called about every second, `clean` now and then."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        gate: Gatekeeper,
        watching: Watching,
        reading: ReadService,
        deployments: DeploymentService,
        submissions: SubmissionService,
        pipelines: Pipelines,
        private_receivers: bool = False,
    ) -> None:
        documents = watching.documents
        self.raising = Raising(database)
        self.estimating, choosing = Estimating(documents), Choosing(database, reading, gate)
        self._following = Following(database, documents, choosing)
        self._closing = Closing(database, documents, self.raising, self.estimating)
        self.labels = LabelService(database, documents)
        self._abtests = Running(database, self.labels, gate)
        self._judging = Judging(database, self.labels, self.raising)
        self._merging = Merging(database, documents, self.labels)
        self._service_levels = ServiceLevels(database, self.raising)
        quality = QualityService(database, self.labels, self.estimating, gate)
        self.bounding = Bounding(database, quality, self.raising)
        self.metrics = MonitorMetrics(gate)
        channels = ChannelService(database, documents, allow_private=private_receivers)
        self.posting = Posting(database, channels, clock, allow_private=private_receivers)
        self.acting = Acting(database, gate, deployments, submissions, pipelines)
        self._stepping = Parts(
            {
                "closing windows": self._closing.step,
                "judging losses": self._judging.step,
                "A/B tests": self._abtests.step,
                "service levels": self._service_levels.step,
                "bounds of quality": self.bounding.step,
            }
        )
        self._tending = Parts(
            {
                "posting": self.posting.step,
                "acting on alerts": self.acting.step,
                "letting time pass for alerts": self.raising.pass_time,
            }
        )
        self._cleaning = Parts(
            {
                "ending monitors": self._following.clean,
                "forgetting alerts": self.raising.clean,
                "forgetting windows": self._closing.clean,
                "forgetting hours": self._service_levels.clean,
                "forgetting labels": self.labels.clean,
                "merging labels": self._merging.step,
                "forgetting A/B tests": self._abtests.clean,
            }
        )
        self._services = (
            MonitorService(database, documents, choosing, gate, pipelines),
            SpreadService(documents, gate),
            AlertService(gate, pipelines),
            channels,
            self._service_levels,
            CheckService(reading),
            self.labels,
            quality,
            AbtestService(database, self.labels, gate),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        return self._stepping.step(now)

    def follow(self, now: Moment) -> bool:
        """Watch what was deployed since: in a loop of its own, for drawing from a large dataset takes long, and windows are to
        be closed meanwhile."""
        return self._following.step(now)

    def clean(self, now: Moment) -> bool:
        """Forget what is too old; whether there is more."""
        return self._cleaning.step(now)

    def tend(self, now: Moment) -> bool:
        """Send what is told of alerts, do what they decided upon, and let time pass for them: in a loop of its own, so that
        trouble with what is watched keeps nobody from being told."""
        return self._tending.step(now)

    def close(self) -> None:
        """After the loops."""
        self.posting.close()
