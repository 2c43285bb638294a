"""The services of feature views, built from what they stand on."""

from falaj.database.binding import Bound
from falaj.database.work import Database
from falaj.datasets.features.training_sets import TrainingSetService
from falaj.datasets.features.views import ViewService
from falaj.datasets.features.working import FeatureWorkers
from falaj.datasets.parts import Parts
from falaj.datasets.workers import DataWorkers


class Features:
    def __init__(self, *, database: Database, parts: Parts, workers: DataWorkers) -> None:
        features = FeatureWorkers(workers)
        self._services = (ViewService(database, features), TrainingSetService(database, parts, features))

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]
