"""What datasets keep from people, logs of the models that were made from them keep too: implements `serving.veiling.Veil`."""

from collections.abc import Collection, Mapping

from falaj.database.work import Context
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.governance.gate import Gatekeeper
from falaj.monitoring.choosing import read_by


class DatasetVeil:
    """Thread-safe."""

    def __init__(self, gate: Gatekeeper) -> None:
        self._sight = Sight(gate)

    def hidden(self, context: Context, versions: Collection[str]) -> Mapping[str, Collection[str]]:
        return {version: self._of(context, version) for version in versions}

    def _of(self, context: Context, version: str) -> frozenset[str]:
        work, project = context.work, context.required_project.id
        names = {name for name, _ in read_by(work, project, version)}
        found = (dataset_store.find(work, project, name) for name in sorted(names))
        masked = (self._sight.masked(context, one) for one in found if one is not None)
        return frozenset(column.casefold() for columns in masked for column in columns)
