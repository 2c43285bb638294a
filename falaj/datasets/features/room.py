"""The services of feature views, built from what they stand on."""

from collections.abc import Callable

from falaj.base.clock import Moment
from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.datasets.deriving.sql import SqlDeriver
from falaj.datasets.features.auditing import AuditService
from falaj.datasets.features.deleting import DeleteService, Forgetting, ViewUsers
from falaj.datasets.features.derived import DerivedViews
from falaj.datasets.features.getting import GetService
from falaj.datasets.features.materialising import MaterialiseService
from falaj.datasets.features.replaying import Replayer
from falaj.datasets.features.served import ServedLog
from falaj.datasets.features.serving import Online
from falaj.datasets.features.training_sets import TrainingSetService
from falaj.datasets.features.views import ViewService
from falaj.datasets.features.working import FeatureWorkers
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.parts import Parts
from falaj.datasets.sight import Sight
from falaj.datasets.workers import DataWorkers
from falaj.storage.service import BlobService


class Features:
    def __init__(
        self,
        *,
        database: Database,
        blobs: BlobService,
        parts: Parts,
        workers: DataWorkers,
        sight: Sight,
        deriver: SqlDeriver,
        online: Callable[[], OnlineStore],
        users: ViewUsers,
        served_kept: int,
    ) -> None:
        features, derived = FeatureWorkers(workers), DerivedViews(database, deriver, sight)
        self._online = Online(database, blobs, online)
        self._forgetting = Forgetting(database, self._online, served_kept)
        self._services = (
            ViewService(database, features, derived),
            DeleteService(users),
            TrainingSetService(database, parts, features, sight, derived),
            MaterialiseService(database, parts, features, self._online, sight, derived),
            GetService(database, self._online, sight, ServedLog(blobs)),
            AuditService(database, parts, ServedLog(blobs), Replayer(features), sight),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def step(self, now: Moment) -> bool:
        """One round of forgetting what was deleted and what was kept long enough; whether there is more."""
        return self._forgetting.step(now)

    def close(self) -> None:
        self._online.close()
