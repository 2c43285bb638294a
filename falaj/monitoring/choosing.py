"""What a revision is held against: the dataset that was named, the one that its model was made from, or its own traffic.

The reference travels with the model version: where lineage knows one dataset that the version's run read, that is what the
model knows of the world. What the model answers is always learnt from traffic.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from falaj.base.errors import Conflict, FalajError, Invalid, PermanentError
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.mentions import split
from falaj.datasets.operations.reading import GRANT_READ, GrantRead
from falaj.datasets.reading import ReadService
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.governance.gate import Gatekeeper
from falaj.lineage.graph import Node, ancestors
from falaj.monitoring.drawing import Drawn, drawn
from falaj.monitoring.learning import TRAFFIC, fresh
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.references import Column, Reference
from falaj.serving.forms import read_columns
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store.tables import Found
from falaj.tables.schemas import listed

T = TypeVar("T")
log = logging.getLogger(__name__)
_DEPTH: Final = 3  # from a version by a logged model and its run to what that read


@value
class Wanted:
    """A revision in use that is to be held against something; `masked` are columns that its endpoint keeps to itself."""

    revision: Found
    endpoint: str
    zone: str
    masked: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in read_columns(self.revision.columns))


class Choosing:
    """Outside any transaction, because data workers may take long. Thread-safe."""

    def __init__(self, database: Database, reading: ReadService, gate: Gatekeeper) -> None:
        self._database, self._reading, self._gate = database, reading, gate

    def asked(self, context: Context, wishes: Wishes, wanted: Wanted) -> Reference:
        """As somebody asks for it; raises where the dataset that he names cannot be read, or not by him."""
        if not wishes.reference:
            return self._of_itself(context, wishes, wanted)
        self._inside(context, lambda inside: self._permit(inside, wishes.reference, wanted))
        return self._referring(context, wishes, wanted, wishes.reference)

    def pinned(self, context: Context, reference: str) -> str:
        """With the number of the version that is meant now: what comes later under the same name does not move a reference."""
        name, word = split(reference)
        if not reference or word.isdigit():
            return reference
        return f"{name}@{self._inside(context, lambda inside: self._readable(inside, reference)).number}"

    def check(self, context: Context, wishes: Wishes, revisions: Sequence[Found]) -> None:
        """A dataset that was named for this knows a column of one of them at least; where no model says its columns, none is
        missed."""
        wanted = {column.name for row in revisions for column in read_columns(row.columns)} - set(wishes.ignore)
        if not wishes.reference or not wanted:
            return
        names = self._inside(context, lambda inside: schema_of(self._readable(inside, wishes.reference)).names)
        if not wanted & set(names):
            raise Invalid(
                f"{wishes.reference!r} has none of the columns that the model takes ({listed(tuple(sorted(wanted)))}); it has "
                f"{listed(tuple(names))}. Name a dataset that has them, or none, to learn from traffic."
            )

    def later(self, context: Context, wishes: Wishes, wanted: Wanted) -> Reference:
        """For a revision that was deployed later: `context` is of whoever asked to watch the endpoint. What cannot be read any
        more is learnt from traffic instead."""
        try:
            return self.asked(context, wishes, wanted)
        except PermanentError as error:
            log.warning("revision %d of %s learns from traffic: %s", wanted.revision.number, wanted.endpoint, error)
            return fresh((), f"{TRAFFIC}, for {wishes.reference} could not be read")

    def _of_itself(self, context: Context, wishes: Wishes, wanted: Wanted) -> Reference:
        made_of = self._inside(context, lambda inside: self._made_of(inside, wanted))
        if len(made_of) != 1 or (wishes.season != "none" and not wishes.time):
            return fresh((), TRAFFIC)
        try:
            found = self._referring(context, wishes, wanted, made_of[0])
        except PermanentError as error:
            log.info("%s is not what revision %d is held against: %s", made_of[0], wanted.revision.number, error)
            return fresh((), TRAFFIC)
        return found

    def _referring(self, context: Context, wishes: Wishes, wanted: Wanted, reference: str) -> Reference:
        names = [name for name in wanted.names if name not in wishes.ignore]
        found = drawn(self._reading, context, reference, names, wishes)
        if not found.columns:
            return fresh((), TRAFFIC)
        return _reference(found, names, wanted.masked, context.identity.principal)

    def _made_of(self, context: Context, wanted: Wanted) -> list[str]:
        """Versions of datasets that the model was made from, that have columns which it takes, and that the caller may read."""
        work, project = context.work, context.required_project.id
        names, found = set(wanted.names), []
        for dataset, version in made_of(work, project, wanted.revision.version_id):
            if not names & set(schema_of(version).names):
                continue
            reference = f"{dataset.name}@{version.number}"
            try:
                self._permit(context, reference, wanted)
            except FalajError:
                continue
            found.append(reference)
        return found

    def _permit(self, context: Context, reference: str, wanted: Wanted) -> None:
        """The caller's own right to read it, and that none of it leaves its zone."""
        version = self._readable(context, reference)
        if version.zone != wanted.zone:
            raise Conflict(
                f"{reference!r} lies in the zone {version.zone!r}, and {wanted.endpoint!r} answers in {wanted.zone!r}: rows of "
                "it do not leave their zone. Name a dataset that lies there, or none, to learn from traffic."
            )

    def _readable(self, context: Context, reference: str) -> Found:
        name, word = split(reference)
        grant = GrantRead(project=context.required_project.name, dataset=name, version=word)
        self._gate.authorise(context.work, context.identity, GRANT_READ, grant)
        return required_version(context, required_dataset(context, name), word, quarantined_too=True)

    def _inside(self, context: Context, function: Callable[[Context], T]) -> T:
        return self._database.read(lambda work: function(replace(context, work=work)))


def read_by(work: UnitOfWork, project: str, version: str) -> list[tuple[str, str]]:
    """Name and digest of each dataset that the run of a model version read, as lineage knows it."""
    walk = ancestors(work, project, Node(kind="version", id=version), _DEPTH)
    read = {edge.source.id for edge in walk.edges if (edge.source.kind, edge.target.kind) == ("dataset", "run")}
    return [(name, digest) for name, _, digest in (id.rpartition("@") for id in sorted(read))]


def made_of(work: UnitOfWork, project: str, version: str) -> list[tuple[Found, Found]]:
    """Those of these datasets that are there still, each with the version that was read."""
    found = []
    for name, digest in read_by(work, project, version):
        dataset = dataset_store.find(work, project, name)
        living = () if dataset is None else version_store.living(work, dataset.id)
        same = next((one for one in living if digest and one.digest.startswith(digest)), None)
        if dataset is not None and same is not None:
            found.append((dataset, same))
    return found


def known_to(
    work: UnitOfWork, project: str, endpoint: Found, revision: int, reference: Reference, wishes: Wishes
) -> list[Found]:
    """Datasets that say what the columns of a revision hold: the one that it is held against, the one that it was to be held
    against, and those that its model was made from. What they keep from people, its traffic keeps from them too, whoever it was
    that a reference was learnt from."""
    row = endpoint_store.revisions_of(work, endpoint.id, {revision}).get(revision)
    names = {name for name, _ in read_by(work, project, row.version_id)} if row is not None else set()
    names |= {split(wishes.reference)[0], split(reference.source)[0] if reference.drawn_by else ""}
    found = (dataset_store.find(work, project, name) for name in sorted(names - {""}))
    return [one for one in found if one is not None]


def _reference(found: Drawn, names: Sequence[str], masked: Collection[str], by: str) -> Reference:
    """Columns that the dataset has not are learnt from traffic."""
    known = {one.name for one in found.columns}
    others = [Column(name=name) for name in names if name not in known and name not in masked]
    return replace(fresh((*found.columns, *others), found.version), drawn_by=by, sample=found.sample)
