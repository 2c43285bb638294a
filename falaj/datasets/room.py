"""The room as a whole: every service of it, built from what it stands on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

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
from falaj.datasets.deriving.service import DeriveService
from falaj.datasets.deriving.sql import SqlDeriver
from falaj.datasets.external.copies import MOST_BYTES, Copies
from falaj.datasets.external.fetching import Fetcher
from falaj.datasets.external.places import PlaceService
from falaj.datasets.external.reading import TableReader
from falaj.datasets.external.registering import RegisterService
from falaj.datasets.external.tables import Tables
from falaj.datasets.features.deleting import SERVED_KEPT, ViewUsers, nobody
from falaj.datasets.features.room import Features
from falaj.datasets.letting_go import LettingGo
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.parts import Parts
from falaj.datasets.preparing import Preparer
from falaj.datasets.profiling import Profiles, ProfileService
from falaj.datasets.pruning import PruneService
from falaj.datasets.pushing.accepting import AcceptService
from falaj.datasets.pushing.batching import BatchService
from falaj.datasets.pushing.bounds import PushBounds
from falaj.datasets.pushing.looking import PushService
from falaj.datasets.reading import ReadService
from falaj.datasets.restoring import RestoreService
from falaj.datasets.rewriting import Rewriter
from falaj.datasets.sight import Sight
from falaj.datasets.versions import VersionService
from falaj.datasets.workers import DataWorkers
from falaj.datasets.writing import WriteService
from falaj.governance.gate import Gatekeeper
from falaj.keys.ring import KeyRing
from falaj.storage.service import BlobService

_PUSHES: Final = PushBounds()


class Datasets:
    """`online` opens the store that features are served from, when it is first needed. `door` are the data workers that take in
    what is pushed. Places that data stays in may be in these `folders` of this server; of what is read
    there so many bytes are held here at a time. `view_users` says who needs a feature view; what was served of one is kept for
    so many microseconds (`served_kept`). `reading` is for other rooms that need rows."""

    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        workers: DataWorkers,
        gate: Gatekeeper,
        ring: KeyRing,
        online: Callable[[], OnlineStore],
        folders: Sequence[Path] = (),
        external_bytes: int = MOST_BYTES,
        door: DataWorkers | None = None,
        pushes: PushBounds = _PUSHES,
        view_users: ViewUsers = nobody,
        served_kept: int = SERVED_KEPT,
    ) -> None:
        self._letting_go = LettingGo(database, blobs)
        places, fetcher = PlaceService(ring, folders), Fetcher(workers)
        self._copies = Copies(database, blobs, places, fetcher, external_bytes)
        parts = Parts(blobs, workers, self._copies)
        rewriter, checker, verdicts = Rewriter(parts, workers), Checker(parts, workers), Verdicts(blobs)
        profiles, sight = Profiles(database, blobs, workers), Sight(gate)
        deriver = SqlDeriver(database, parts, workers, sight, checker, verdicts)
        self._features = Features(
            database=database,
            blobs=blobs,
            parts=parts,
            workers=workers,
            sight=sight,
            deriver=deriver,
            online=online,
            users=view_users,
            served_kept=served_kept,
        )
        self._batches = BatchService(database, parts, rewriter, checker, verdicts, pushes)
        reader = TableReader(database, blobs, places, fetcher, Tables(workers), parts, checker, verdicts, sight)
        self.reading = ReadService(database, blobs, parts, workers, sight)
        self.checking = CheckService(database, parts, checker, verdicts, sight)
        self._services = (
            DatasetService(self._letting_go),
            VersionService(),
            RestoreService(database, parts, checker, verdicts),
            WriteService(database, parts, self._letting_go, sight),
            CommitService(parts, Preparer(database, parts, rewriter, checker, verdicts, sight), verdicts),
            AcceptService(database, Parts(blobs, door or workers), pushes),
            self._batches,
            PushService(self._letting_go),
            self.checking,
            QuarantineService(verdicts, self._letting_go),
            CompareService(database, parts, workers, profiles, sight),
            ProfileService(database, profiles, sight),
            ClassService(database, parts, workers),
            CompactService(database, parts, rewriter),
            PruneService(self._letting_go),
            self.reading,
            DeriveService(deriver, sight),
            places,
            RegisterService(blobs, places, reader, verdicts),
            self._features,
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def step(self, now: Moment) -> bool:
        """One round of forgetting what was deleted and what was given up; whether there is more."""
        more = self._letting_go.step(now)
        more = self._features.step(now) or more
        return self._copies.step(now) or more

    def batch(self, now: Moment) -> bool:
        """One round of making versions of what was pushed; whether there is more."""
        return self._batches.step(now)

    def close(self) -> None:
        self._features.close()
