"""The room as a whole: every service of it, built from what it stands on."""

from falaj.base.clock import Moment
from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.datasets.committing import CommitService
from falaj.datasets.compacting import CompactService
from falaj.datasets.comparing import CompareService
from falaj.datasets.datasets import DatasetService
from falaj.datasets.features.room import Features
from falaj.datasets.letting_go import LettingGo
from falaj.datasets.parts import Parts
from falaj.datasets.pruning import PruneService
from falaj.datasets.reading import ReadService
from falaj.datasets.rewriting import Rewriter
from falaj.datasets.versions import VersionService
from falaj.datasets.workers import DataWorkers
from falaj.datasets.writing import WriteService
from falaj.storage.service import BlobService


class Datasets:
    def __init__(self, *, database: Database, blobs: BlobService, workers: DataWorkers) -> None:
        self._letting_go = LettingGo(database, blobs)
        parts = Parts(blobs, workers)
        rewriter = Rewriter(parts, workers)
        self._services = (
            DatasetService(self._letting_go),
            VersionService(),
            WriteService(database, parts, self._letting_go),
            CommitService(database, parts, rewriter),
            CompareService(database, parts, workers),
            CompactService(database, parts, rewriter),
            PruneService(self._letting_go),
            ReadService(database, blobs, parts, workers),
            Features(database=database, parts=parts, workers=workers),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def step(self, now: Moment) -> bool:
        """One round of forgetting what was deleted and what was given up; whether there is more."""
        return self._letting_go.step(now)
