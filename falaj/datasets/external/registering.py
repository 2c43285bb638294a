"""Registering a table that stays where it is, and pinning its newest state: `reading` reads it, this makes the version."""

import dataclasses

from falaj.base.errors import Conflict
from falaj.base.ids import new_id
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context
from falaj.datasets.checking.verdicts import Verdicts
from falaj.datasets.datasets import create
from falaj.datasets.external.alike import keep_classes
from falaj.datasets.external.pins import Pin, Registered, pin_text, registered_text
from falaj.datasets.external.places import PlaceService
from falaj.datasets.external.reading import Read, TableReader, refuse_another
from falaj.datasets.judging import holding, publish_judged
from falaj.datasets.letting_go import PART
from falaj.datasets.operations import external as declared
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import NewPart, Openable
from falaj.datasets.publishing import Draft, Placed
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import pushes as push_store
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_text, versions_shown
from falaj.lineage.graph import LONGEST_LABEL, Node, link
from falaj.storage.service import BlobService, Owner


class RegisterService:
    def __init__(self, blobs: BlobService, places: PlaceService, reader: TableReader, verdicts: Verdicts) -> None:
        self._blobs = blobs
        self._places = places
        self._reader = reader
        self._verdicts = verdicts

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.REGISTER_TABLE, self.read_first, self.register),
            bind_prepared(declared.REFRESH_TABLE, self.read_newest, self.refresh),
        ]

    # Before the transaction

    def read_first(self, context: Context, request: declared.RegisterTable) -> Read:
        types = {one.column: one.type for one in request.types}
        registered = Registered(
            place=request.place, kind=request.kind, table=request.table, time_zone=request.time_zone, types=types or None
        )
        return self._reader.read(context, request.dataset, registered, request.at)

    def read_newest(self, context: Context, request: OneDataset) -> Read:
        return self._reader.read(context, request.dataset, None)

    # In the transaction

    def register(self, context: Context, request: declared.RegisterTable, read: Read) -> declared.Registration:
        dataset = dataset_store.find(context.work, context.required_project.id, request.dataset, hold=True)
        place = self._places.opened(context, request.place)
        if dataset is None:
            create(context, request.dataset, request.description, place.zone)
            dataset = required_dataset(context, request.dataset, hold=True)
        refuse_another(dataset, read.registered, place.zone)
        if dataset.external is None and push_store.standing(context.work, dataset.id):
            raise Conflict(
                f"Rows were pushed to {dataset.name!r} that are in no version yet, and would never be in one: give them up "
                "(dataset.drop-pushes), or register the table under another name."
            )
        dataset_store.change(context.work, dataset.id, external=registered_text(read.registered))
        return self._pinned(context, required_dataset(context, request.dataset, hold=True), read)

    def refresh(self, context: Context, request: OneDataset, read: Read) -> declared.Registration:
        self._places.opened(context, read.registered.place)
        return self._pinned(context, required_dataset(context, request.dataset, hold=True), read)

    def _pinned(self, context: Context, dataset: Found, read: Read) -> declared.Registration:
        if dataset.current != read.of:
            raise Conflict(f"Another version of {dataset.name!r} came while its table was read: do it again.")
        pins = zip(read.snapshot.pins, read.parts, strict=True)
        ids = [self._entered(context, dataset, pin, part) for pin, part in pins if part is not None]
        context.facts.update(dataset=dataset.id, place=read.registered.place, files=len(read.parts), read=read.done)
        told = declared.Registration(dataset=dataset.name, done=read.done, of=len(read.parts))
        if read.schema is None:
            return told
        current = required_version(context, dataset, "current") if dataset.current else None
        if current is not None and [part.id for part in store.parts_of(context.work, current)] == ids:
            return dataclasses.replace(told, version=versions_shown(context.work, dataset, [current])[0])
        registered = read.registered
        draft = Draft(
            mode="pin",
            schema=read.schema,
            removed=None,
            added=[Placed(part=id) for id in ids],
            origin=f"{registered.place}: {registered.table} ({registered.kind}), {read.snapshot.shown}",
        )
        verdict = holding(context, dataset, read.verdict)
        version = publish_judged(context, self._verdicts, dataset, draft, verdict)
        keep_classes(context, dataset, registered, read.schema.names)
        _link(context, read, version)
        return dataclasses.replace(told, version=version)

    def _entered(self, context: Context, dataset: Found, pin: Pin, part: Openable | NewPart) -> str:
        if isinstance(part, Openable):
            return str(part.row.id)
        id = new_id(context.now)
        owner = Owner(kind=PART, id=id)
        row = {
            "id": id,
            "project": context.required_project.id,
            "dataset": dataset.id,
            "blob": self._blobs.keep(context, part.received, owner).id,
            "object": part.reader.object,
            "rows": part.facts.rows,
            "size": part.facts.size,
            "digest": part.facts.digest,
            "schema": schema_text(part.facts.schema),
            "profile": self._blobs.keep(context, part.profile, owner).id if part.profile else "",
            "known": None,
            "elsewhere": pin_text(pin),
        }
        store.add_part(context.work, row)
        return id


def _link(context: Context, read: Read, version: Version) -> None:
    """A version came from a state of its table."""
    table = f"{read.registered.place}:{read.registered.table}"
    link(
        context.work,
        project=context.required_project.id,
        source=Node(
            kind="dataset", id=f"{table}@{read.snapshot.shown}", label=f"{table}, {read.snapshot.shown}"[:LONGEST_LABEL]
        ),
        target=Node(kind="dataset", id=version.lineage, label=f"{version.dataset} v{version.version}"),
        relation="pin",
        now=context.now,
    )
