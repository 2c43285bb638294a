"""The room as a whole: every service of it, built from what it stands on."""

from collections.abc import Callable

from falaj.base.clock import Moment
from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.datasets.checking.quarantine import QuarantineService
from falaj.datasets.checking.running import Checker
from falaj.datasets.checking.service import CheckService
from falaj.datasets.checking.verdicts import Verdicts
from falaj.datasets.classifying import ClassService
from falaj.datasets.committing import CommitService
from falaj.datasets.compacting import CompactService
from falaj.datasets.comparing import CompareService
from falaj.datasets.datasets import DatasetService
from falaj.datasets.features.room import Features
from falaj.datasets.letting_go import LettingGo
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.parts import Parts
from falaj.datasets.preparing import Preparer
from falaj.datasets.profiling import Profiles, ProfileService
from falaj.datasets.pruning import PruneService
from falaj.datasets.reading import ReadService
from falaj.datasets.rewriting import Rewriter
from falaj.datasets.sight import Sight
from falaj.datasets.versions import VersionService
from falaj.datasets.workers import DataWorkers
from falaj.datasets.writing import WriteService
from falaj.governance.gate import Gatekeeper
from falaj.storage.service import BlobService


class Datasets:
    """`online` opens the store that features are served from, when it is first needed."""

    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        workers: DataWorkers,
        gate: Gatekeeper,
        online: Callable[[], OnlineStore],
    ) -> None:
        self._letting_go = LettingGo(database, blobs)
        parts = Parts(blobs, workers)
        rewriter, checker, verdicts = Rewriter(parts, workers), Checker(parts, workers), Verdicts(blobs)
        profiles, sight = Profiles(blobs, workers), Sight(gate)
        self._features = Features(database=database, blobs=blobs, parts=parts, workers=workers, sight=sight, online=online)
        self._services = (
            DatasetService(self._letting_go),
            VersionService(),
            WriteService(database, parts, self._letting_go),
            CommitService(parts, Preparer(database, parts, rewriter, checker, verdicts, sight), verdicts),
            CheckService(database, parts, checker, verdicts, sight),
            QuarantineService(verdicts, self._letting_go),
            CompareService(database, parts, workers, profiles, sight),
            ProfileService(database, profiles, sight),
            ClassService(database, parts, workers),
            CompactService(database, parts, rewriter),
            PruneService(self._letting_go),
            ReadService(database, blobs, parts, workers, sight),
            self._features,
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def step(self, now: Moment) -> bool:
        """One round of forgetting what was deleted and what was given up; whether there is more."""
        return self._letting_go.step(now)

    def close(self) -> None:
        self._features.close()
