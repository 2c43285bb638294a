"""Training sets: made by a data worker before the transaction, a version of a dataset within it, linked to what they came
from."""

import dataclasses
import secrets
from contextlib import ExitStack

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.datasets import create
from falaj.datasets.features.definitions import chosen
from falaj.datasets.features.sources import Versioned, ViewSource, opened_view, refuse_hidden, refuse_other_zones, versioned
from falaj.datasets.features.working import FeatureWorkers
from falaj.datasets.operations import features as declared
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import NewPart, Parts, opened
from falaj.datasets.publishing import Draft, Placed, publish
from falaj.datasets.sight import Sight
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import lineage_id, required_dataset
from falaj.keys.sealing import new_key
from falaj.lineage.graph import Node, link


@value
class Read:
    """What a training set is made of."""

    labels: Versioned
    sources: tuple[ViewSource, ...]


@value
class Joined:
    read: Read
    part: NewPart


class TrainingSetService:
    def __init__(self, database: Database, parts: Parts, workers: FeatureWorkers, sight: Sight) -> None:
        self._sight = sight
        self._database = database
        self._parts = parts
        self._workers = workers

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.MAKE_TRAINING_SET, self.join, self.publish)]

    def join(self, context: Context, request: declared.MakeTrainingSet) -> Joined:
        read = self._database.read(lambda work: self._read(dataclasses.replace(context, work=work), request))
        key, object_id = new_key(), secrets.token_hex(16)
        with ExitStack() as stack:
            labels = stack.enter_context(opened(read.labels.schema, read.labels.parts))
            views = [stack.enter_context(opened_view(source)) for source in read.sources]
            made = self._workers.training_set(labels, request.time, views, key=key, object_id=object_id)
        zone = read.labels.dataset.zone
        part = self._parts.stored(context.required_project, zone, made, key=key, object_id=object_id)
        return Joined(read=read, part=part)

    def publish(self, context: Context, request: declared.MakeTrainingSet, joined: Joined) -> declared.TrainingSet:
        read, zone = joined.read, joined.read.labels.dataset.zone
        if dataset_store.find(context.work, context.required_project.id, request.into) is None:
            create(context, request.into, request.description, zone)
        dataset = required_dataset(context, request.into, hold=True)
        if dataset.zone != zone:
            raise Conflict(f"Dataset {request.into!r} is kept in the zone {dataset.zone!r}, and the labels in {zone!r}.")
        _refuse_checked(context, dataset)
        views = tuple(source.chosen.reference for source in read.sources)
        draft = Draft(
            mode="overwrite",
            schema=joined.part.facts.schema,
            removed=None,
            added=[Placed(part=self._parts.enter(context, dataset.id, joined.part))],
            origin=f"{read.labels.reference} at {request.time}, with {', '.join(views)}"[:2000],
        )
        version = publish(context, dataset, draft)
        class_store.change(context.work, dataset.id, _classes(context, read))
        _link(context, read, version)
        context.facts.update(labels=read.labels.version.id, views=[source.chosen.row.id for source in read.sources])
        return declared.TrainingSet(
            version=version,
            labels=read.labels.reference,
            views=views,
            sources=tuple(dict.fromkeys(source.of.reference for source in read.sources)),
        )

    def _read(self, context: Context, request: declared.MakeTrainingSet) -> Read:
        if (into := dataset_store.find(context.work, context.required_project.id, request.into)) is not None:
            _refuse_checked(context, into)
        labels = versioned(context, self._parts, request.labels)
        sources = tuple(
            ViewSource(chosen=one, of=versioned(context, self._parts, one.dataset)) for one in chosen(context, request.features)
        )
        for read in (labels, *(source.of for source in sources)):
            if read.dataset.name == request.into:
                raise Invalid(f"The training set would take the place of {request.into!r}, which it is made of: name another.")
        refuse_hidden(context, self._sight, labels.dataset, labels.schema.names)
        for source in sources:
            refuse_hidden(context, self._sight, source.of.dataset, source.chosen.view.columns())
        refuse_other_zones(labels, sources)
        return Read(labels=labels, sources=sources)


def _refuse_checked(context: Context, into: Found) -> None:
    """A training set is not held against checks, so it goes nowhere where such are promised."""
    if check_store.declared(context.work, into.id):
        raise Conflict(
            f"Dataset {into.name!r} has checks, which training sets are not held against: name another dataset, or take its "
            "checks back (dataset.set-checks)."
        )


def _classes(context: Context, read: Read) -> dict[str, str]:
    """What is personal or sensitive stays so: the labels' columns, and features that are made of such."""
    kinds = class_store.classes_of(context.work, read.labels.dataset.id)
    found = {name: kinds[name] for name in read.labels.schema.names if name in kinds}
    for source in read.sources:
        kinds = class_store.classes_of(context.work, source.of.dataset.id)
        found |= {one.name: kinds[one.column] for one in source.chosen.view.features if one.column in kinds}
    return found


def _link(context: Context, read: Read, made: Version) -> None:
    target = Node(kind="dataset", id=made.lineage, label=f"{made.dataset} v{made.version}")
    of = [(read.labels, "labels"), *((source.of, "features") for source in read.sources)]
    for one, relation in of:
        name, digest = one.dataset.name, one.version.digest
        source = Node(kind="dataset", id=lineage_id(name, digest), label=f"{name} v{one.version.number}")
        link(
            context.work, project=context.required_project.id, source=source, target=target, relation=relation, now=context.now
        )
