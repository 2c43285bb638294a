"""Training sets: made by a data worker before the transaction, a version of a dataset within it, linked to what they came
from."""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from falaj.base.errors import Conflict, Invalid, Unavailable
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.carrying import remember
from falaj.datasets.datasets import create
from falaj.datasets.deriving.answering import answered, classify, made_before
from falaj.datasets.deriving.inputs import derivation
from falaj.datasets.features.definitions import chosen
from falaj.datasets.features.derived import DerivedViews, rows_now
from falaj.datasets.features.sources import Versioned, ViewSource, opened_view, refuse_hidden, refuse_other_zones, versioned
from falaj.datasets.features.working import FeatureWorkers
from falaj.datasets.mentions import split
from falaj.datasets.operations import features as declared
from falaj.datasets.operations.derivations import Derivation, Input
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import NewPart, Parts, opened
from falaj.datasets.publishing import Draft, Placed, publish
from falaj.datasets.sight import Sight
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version
from falaj.keys.sealing import new_key


@value
class Read:
    """What a training set is made of, and whether it was before."""

    labels: Versioned
    sources: tuple[ViewSource, ...]
    derivation: Derivation
    before: Found | None


@value
class Joined:
    """`part` is None where it was made before."""

    read: Read
    part: NewPart | None


class TrainingSetService:
    def __init__(self, database: Database, parts: Parts, workers: FeatureWorkers, sight: Sight, derived: DerivedViews) -> None:
        self._derived = derived
        self._sight = sight
        self._database = database
        self._parts = parts
        self._workers = workers

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.MAKE_TRAINING_SET, self.join, self.publish)]

    def join(self, context: Context, request: declared.MakeTrainingSet) -> Joined:
        self._database.read(lambda work: _refuse_no_labels(dataclasses.replace(context, work=work), request))
        fresh = self._derived.fresh(context, request.features)
        read = self._database.read(lambda work: self._read(dataclasses.replace(context, work=work), request, fresh))
        if read.before is not None:
            return Joined(read=read, part=None)
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
        kinds = _classes(context, read)
        version = None if request.anew else answered(context, dataset, read.derivation.digest, lambda _: kinds)
        made = self._made(context, dataset, request, joined) if version is None else version
        classify(context, dataset, kinds)
        remember(context, dataset.id, _made_of(read))
        context.facts.update(labels=read.labels.version.id, views=[source.chosen.row.id for source in read.sources])
        return declared.TrainingSet(
            version=made,
            labels=read.labels.reference,
            views=tuple(source.chosen.reference for source in read.sources),
            sources=tuple(dict.fromkeys(source.of.reference for source in read.sources)),
            cached=version is not None,
        )

    def _made(self, context: Context, dataset: Found, request: declared.MakeTrainingSet, joined: Joined) -> Version:
        if joined.part is None:
            raise Unavailable(f"What {request.into!r} had of this was let go meanwhile: try again.", delay=0.1)
        read, views = joined.read, ", ".join(source.chosen.reference for source in joined.read.sources)
        draft = Draft(
            mode="overwrite",
            schema=joined.part.facts.schema,
            removed=None,
            added=[Placed(part=self._parts.enter(context, dataset.id, joined.part))],
            origin=f"{read.labels.reference} at {request.time}, with {views}"[:2000],
            derivation=read.derivation,
        )
        return publish(context, dataset, draft)

    def _read(self, context: Context, request: declared.MakeTrainingSet, fresh: Mapping[str, str]) -> Read:
        if (into := dataset_store.find(context.work, context.required_project.id, request.into)) is not None:
            _refuse_checked(context, into)
        labels = versioned(context, self._parts, request.labels)
        sources = tuple(
            ViewSource(chosen=one, of=versioned(context, self._parts, rows_now(one, fresh)))
            for one in chosen(context, request.features)
        )
        for read in (labels, *(source.of for source in sources)):
            if read.dataset.name == request.into:
                raise Invalid(f"The training set would take the place of {request.into!r}, which it is made of: name another.")
        refuse_hidden(context, self._sight, labels.dataset, labels.schema.names)
        for source in sources:
            refuse_hidden(context, self._sight, source.of.dataset, source.chosen.view.columns())
        refuse_other_zones(labels, sources)
        made_of = _derivation(request, labels, sources)
        before = None if request.anew else made_before(context, into, made_of.digest)
        return Read(labels=labels, sources=sources, derivation=made_of, before=before)


def _refuse_no_labels(context: Context, request: declared.MakeTrainingSet) -> None:
    """Before rows of views are derived for them."""
    name, word = split(request.labels)
    required_version(context, required_dataset(context, name), word)


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


def _made_of(read: Read) -> list[tuple[str, str, str]]:
    """Which columns came from which: those that are classified later take these with them."""
    found = [(name, str(read.labels.dataset.id), name) for name in read.labels.schema.names]
    for source in read.sources:
        found += [(one.name, str(source.of.dataset.id), one.column) for one in source.chosen.view.features if one.column]
    return found


def _derivation(request: declared.MakeTrainingSet, labels: Versioned, sources: Sequence[ViewSource]) -> Derivation:
    """Where no column of a view says when its rows became known, their parts do, whatever they hold."""
    inputs = [_input(labels, "labels"), *(_input(source.of, "features") for source in sources)]
    views = [
        [one.chosen.row.name, one.chosen.row.definition, [feature.name for feature in one.chosen.view.features]]
        for one in sources
    ]
    known = [[] if one.chosen.view.known else [part.row.known for part in one.of.parts] for one in sources]
    shown = f"{request.time}: {', '.join(request.features)}"
    return derivation("training-set", request.time, inputs, views, known, shown=shown)


def _input(one: Versioned, relation: str) -> Input:
    return Input(dataset=one.dataset.name, version=one.version.number, digest=one.version.digest, relation=relation)
