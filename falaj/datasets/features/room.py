"""The services of feature views, built from what they stand on."""

from collections.abc import Callable

from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.datasets.features.getting import GetService
from falaj.datasets.features.materialising import MaterialiseService
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
        online: Callable[[], OnlineStore],
    ) -> None:
        features = FeatureWorkers(workers)
        self._online = Online(database, blobs, online)
        self._services = (
            ViewService(database, features),
            TrainingSetService(database, parts, features, sight),
            MaterialiseService(database, parts, features, self._online, sight),
            GetService(database, self._online, sight),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]

    def close(self) -> None:
        self._online.close()
