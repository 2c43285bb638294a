"""Views as endpoints look them up: chosen by whoever deploys, as far as he may see them, and told with what opens the rows of
just these views to the planes that serve."""

import dataclasses
from collections.abc import Sequence

from falaj.base.errors import Conflict
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.features.definitions import Chosen, chosen, columns_of, required_served
from falaj.datasets.features.serving import secrets_of, shape_of
from falaj.datasets.features.sources import refuse_hidden
from falaj.datasets.mentions import split
from falaj.datasets.online.sealing import ViewSecrets
from falaj.datasets.operations.features import GET_FEATURES, GetFeatures
from falaj.datasets.sight import Sight
from falaj.datasets.store import kept_features as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.views import lineage_id, required_dataset
from falaj.governance.gate import Gatekeeper
from falaj.storage.service import BlobService
from falaj.tables.joining.views import View
from falaj.tables.schemas import Column

COUNTS = ("count", "distinct")  # which are 0 and not null where nothing is known


@value
class Choice:
    """A version of a view with those of its features that are asked for. `keys` and `features` have the types that are kept;
    `source` is what lineage calls the dataset's version that they were made of, where that is still there."""

    id: str
    reference: str
    zone: str
    keys: tuple[Column, ...]
    features: tuple[Column, ...]
    source: str
    source_label: str


class LookupViews:
    """Thread-safe."""

    def __init__(self, blobs: BlobService, gate: Gatekeeper) -> None:
        self._blobs, self._gate, self._sight = blobs, gate, Sight(gate)

    def chosen(self, context: Context, references: Sequence[str]) -> list[Choice]:
        """In a transaction. Raises where one is not there, not kept for serving, or not for the caller to see."""
        asked = GetFeatures(project=context.required_project.name, features=tuple(references), entities=())
        self._gate.authorise(context.work, context.identity, GET_FEATURES, asked)
        return [self._choice(context, one) for one in chosen(context, references, required_served)]

    def _choice(self, context: Context, one: Chosen) -> Choice:
        dataset = required_dataset(context, split(one.dataset)[0])
        refuse_hidden(context, self._sight, dataset, one.view.columns())
        if dataset.id != one.row.dataset:
            raise Conflict(f"The dataset of view {one.reference!r} is another one now: materialise it again.")
        kept, keys = columns_of(one.row.kept), len(one.view.keys)
        types = {column.name: column for column in kept[keys:]}
        name, _, number = one.row.source.partition("@")
        version = version_store.find(context.work, dataset.id, int(number)) if number.isdecimal() else None
        return Choice(
            id=one.row.id,
            reference=one.reference,
            zone=one.row.zone,
            keys=tuple(
                dataclasses.replace(column, name=key.in_labels) for key, column in zip(one.view.keys, kept[:keys], strict=True)
            ),
            features=tuple(types[feature.name] for feature in one.view.features),
            source="" if version is None else lineage_id(name, version.digest),
            source_label=f"{name} v{number}",
        )

    def secrets(self, context: Context, id: str, zone: str, columns: Sequence[Column]) -> tuple[str, ViewSecrets]:
        """What the online store calls the rows of a version of a view with these columns, and what opens them; `context` is
        that of their project."""
        blob = store.find_key(context.work, context.required_project.id, zone)
        if blob is None:
            raise Conflict("Nothing was ever kept for serving here: materialise the view.")
        name = f"{id}:{shape_of(columns)}"
        secrets = secrets_of(self._blobs.open(context, blob).key)
        return name, ViewSecrets.of(secrets, project=context.required_project.id, view=name)


def counted(view: View) -> tuple[str, ...]:
    """The features that are 0 where nothing is known."""
    return tuple(feature.name for feature in view.features if feature.function in COUNTS)
