"""What a version is derived from: versions by their names, with what opens them, where they may be put together, and the digest
by which the same is known again."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.mentions import split
from falaj.datasets.operations.derivations import Derivation, Input, Kind
from falaj.datasets.parts import Openable, Parts
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.tables.schemas import Schema


@value
class Source:
    """A version under the name that the code has for it. `classes` are its columns that are personal or sensitive. Needs no
    transaction any more."""

    name: str
    dataset: Found
    version: Found
    schema: Schema
    parts: Sequence[Openable]
    classes: dict[str, str]

    @property
    def known(self) -> tuple[int, ...]:
        """When each part became known."""
        return tuple(part.row.known for part in self.parts)

    def input(self, relation: str = "derived") -> Input:
        return Input(dataset=self.dataset.name, version=self.version.number, digest=self.version.digest, relation=relation)


def source(context: Context, parts: Parts | None, name: str, reference: str) -> Source:
    """What is in quarantine is nothing that others are made of. Without `parts` it is not opened."""
    word, version = split(reference)
    dataset = required_dataset(context, word)
    found = required_version(context, dataset, version)
    schema = schema_of(found)
    rows = version_store.parts_of(context.work, found) if parts is not None else ()
    return Source(
        name=name,
        dataset=dataset,
        version=found,
        schema=schema,
        parts=parts.openable(context, rows) if parts is not None else (),
        classes=_classes(context, dataset, schema),
    )


def reclassified(context: Context, sources: Sequence[Source]) -> tuple[Source, ...]:
    """With the classes of now: somebody may have given some since they were read."""
    return tuple(dataclasses.replace(one, classes=_classes(context, one.dataset, one.schema)) for one in sources)


def _classes(context: Context, dataset: Found, schema: Schema) -> dict[str, str]:
    kinds = class_store.classes_of(context.work, dataset.id)
    return {column: kinds[column] for column in schema.names if column in kinds}


def one_zone(sources: Sequence[Source], into: str, given: str = "") -> str:
    """The zone of all of them, of which there is one at least; rows of two zones make none that belongs into either. `given` is
    that of the dataset they are put into, where it is there."""
    zones = {one.dataset.zone: one.dataset.name for one in sources}
    if len(zones) > 1:
        said = ", ".join(f"{name!r} in {zone!r}" for zone, name in zones.items())
        raise Conflict(f"Rows of two zones cannot be put together: {said}.")
    zone: str = next(iter(zones))
    if given and given != zone:
        raise Conflict(f"Dataset {into!r} is kept in the zone {given!r}, and what it would be made of in {zone!r}.")
    return zone


def refuse_itself(sources: Sequence[Source], into: str) -> None:
    for one in sources:
        if one.dataset.name == into:
            raise Invalid(f"The result would take the place of {into!r}, which it is made of: name another dataset.")


def derivation(kind: Kind, code: str, inputs: Sequence[Input], *besides: object, shown: str = "") -> Derivation:
    """`besides` is whatever else the result depends on. `shown`: what is kept of the code for people."""
    seen = [kind, code, [[one.dataset, one.digest, one.relation] for one in inputs], *besides]
    digest = hashlib.sha256(f"falaj derivation 1\n{json.dumps(seen, ensure_ascii=False)}".encode()).hexdigest()
    return Derivation(kind=kind, code=shown or code, digest=digest, inputs=tuple(inputs))
