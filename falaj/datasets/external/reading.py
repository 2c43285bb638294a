"""Reading a table that stays where it is, as far as it was not read before: outside of transactions, some of it with each call.
`registering` makes a version of it."""

import dataclasses
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Final

from falaj.base.errors import Conflict, TooLarge
from falaj.base.values import value
from falaj.database.work import Context, Database
from falaj.datasets.checking.running import Checker, Rules, Subject
from falaj.datasets.checking.verdicts import Verdict, Verdicts
from falaj.datasets.external.alike import refuse_hidden_table
from falaj.datasets.external.fetching import Fetcher
from falaj.datasets.external.listing import refuse_mismatch
from falaj.datasets.external.pins import Pin, Registered, Snapshot, pin_text, registered_of
from falaj.datasets.external.places import OpenPlace, PlaceService
from falaj.datasets.external.tables import Tables
from falaj.datasets.parts import NewPart, Openable, Parts
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, schema_of
from falaj.datasets.workers import MadePart
from falaj.storage.service import BlobService, Reader
from falaj.tables.schemas import Schema, evolved

_PATIENCE: Final = 20.0  # seconds after which a call answers how far it is
_MOST_SAID: Final = 256 << 20  # characters that are kept about the files of a table


@value
class _Planned:
    """What is known before anything is asked elsewhere. `known` are parts of the dataset by what they pin."""

    dataset: Found | None
    registered: Registered
    place: OpenPlace
    known: dict[str, Openable]
    rules: Rules | None


@value
class Read:
    """What was read with this call. `parts` are, for each pin, a part that there is or one that is new; None: not read yet."""

    registered: Registered
    of: int
    snapshot: Snapshot
    parts: tuple[Openable | NewPart | None, ...]
    schema: Schema | None
    verdict: Verdict | None

    @property
    def done(self) -> int:
        return sum(part is not None for part in self.parts)


class TableReader:
    """Thread-safe."""

    def __init__(
        self,
        database: Database,
        blobs: BlobService,
        places: PlaceService,
        fetcher: Fetcher,
        tables: Tables,
        parts: Parts,
        checker: Checker,
        verdicts: Verdicts,
        sight: Sight,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._places = places
        self._fetcher = fetcher
        self._tables = tables
        self._parts = parts
        self._checker = checker
        self._verdicts = verdicts
        self._sight = sight

    def _planned(self, context: Context, name: str, registered: Registered | None) -> _Planned:
        dataset = dataset_store.find(context.work, context.required_project.id, name)
        if dataset is None and registered is None:
            dataset = required_dataset(context, name)
        there = registered_of(dataset) if dataset is not None else None
        if registered is None:
            if there is None:
                raise Conflict(f"Dataset {name!r} keeps its rows here: it has nothing to be refreshed from.")
            registered = there
        place = self._places.opened(context, registered.place)
        if there is None:
            refuse_hidden_table(context, self._sight, name, registered)
        refuse_mismatch(place, registered)
        if dataset is None:
            return _Planned(dataset=None, registered=registered, place=place, known={}, rules=None)
        refuse_another(dataset, registered, place.zone)
        rows = store.parts_elsewhere(context.work, dataset.id)
        known = {part.row.elsewhere: part for part in self._parts.openable(context, rows)}
        rules = self._checker.rules(context, dataset)
        return _Planned(dataset=dataset, registered=registered, place=place, known=known, rules=rules)

    def read(self, context: Context, dataset: str, registered: Registered | None, at: str = "") -> Read:
        """`registered` is None where it is what the dataset is already."""
        planned = self._database.read(lambda work: self._planned(dataclasses.replace(context, work=work), dataset, registered))
        snapshot = self._tables.snapshot(planned.place, planned.registered, at)
        _refuse_wordy(snapshot)
        until = time.monotonic() + _PATIENCE
        with ExitStack() as stack:
            parts: list[Openable | NewPart | None] = []
            new = 0
            for pin in snapshot.pins:
                known = planned.known.get(pin_text(pin))
                if known is not None and pin.mark:
                    parts.append(known)
                elif new and time.monotonic() > until:
                    parts.append(None)
                else:
                    parts.append(self._new(context, planned, pin, known, stack))
                    new += 1
            whole = [part for part in parts if part is not None]
            schema = _joined(whole) if len(whole) == len(parts) else None
            verdict = self._verdict(context, planned, schema, whole) if schema is not None else None
        of = planned.dataset.current if planned.dataset is not None else 0
        return Read(registered=planned.registered, of=of, snapshot=snapshot, parts=tuple(parts), schema=schema, verdict=verdict)

    def _new(
        self, context: Context, planned: _Planned, pin: Pin, known: Openable | None, stack: ExitStack
    ) -> Openable | NewPart:
        """Read once. Where it is what is known already, that is it."""
        project, zone, object_id = context.required_project, planned.place.zone, secrets.token_hex(16)
        key = secrets.token_bytes(32)  # of what is read now, and not kept
        made = self._fetcher.first(planned.place, pin, key=key, object_id=object_id)
        stack.enter_context(made.file)
        if known is not None and known.row.digest == made.facts.digest:
            return known
        if planned.rules is None or not planned.rules.checks:
            made.file.close()
        return NewPart(
            facts=made.facts,
            received=self._blobs.receive(project, zone, iter([f"external part {object_id}\n{pin_text(pin)}".encode()])),
            profile=self._parts.profiled(project, zone, made.facts),
            reader=_Held(made, key, object_id),
        )

    def _verdict(
        self, context: Context, planned: _Planned, schema: Schema, parts: Sequence[Openable | NewPart]
    ) -> Verdict | None:
        if planned.dataset is None or planned.rules is None or not planned.rules.checks:
            return None
        subject = Subject(name=planned.dataset.name, schema=schema, parts=parts)
        outcomes = self._checker.run(subject, planned.rules, context.now)
        project, current = context.required_project, planned.dataset.current
        return self._verdicts.made(project, planned.place.zone, current, planned.rules.text, outcomes)


def refuse_another(dataset: Found, registered: Registered, zone: str) -> None:
    """Raises `Conflict` unless the dataset is this table, or nothing yet."""
    there = registered_of(dataset)
    if there is None and dataset.last_version:
        raise Conflict(f"Dataset {dataset.name!r} keeps its rows here: register the table under another name.")
    if there is not None and (there.place, there.kind, there.table) != (registered.place, registered.kind, registered.table):
        raise Conflict(
            f"Dataset {dataset.name!r} is the table {there.table!r} of the place {there.place!r}: register this one under "
            "another name."
        )
    if dataset.zone != zone:
        raise Conflict(f"Dataset {dataset.name!r} is of the zone {dataset.zone!r}, and the place is in {zone!r}.")


def _refuse_wordy(snapshot: Snapshot) -> None:
    """What a table says of its columns is kept with each of its files: few bytes upstream could be very many here."""
    said = 0
    for pin in snapshot.pins:
        said += len(pin_text(pin))
        if said > _MOST_SAID:
            raise TooLarge(
                f"What the table says of its files takes more than {_MOST_SAID >> 20} MiB: compact it there, or import it."
            )


def _joined(parts: Sequence[Openable | NewPart]) -> Schema:
    """Columns of all files: what some have not is null there."""
    schemas = [part.facts.schema if isinstance(part, NewPart) else schema_of(part.row) for part in parts]
    whole = schemas[0]
    for schema in schemas[1:]:
        whole = evolved(whole, schema)
    return whole


class _Held(Reader):
    """What was just read, as long as it is held for the checks."""

    def __init__(self, made: MadePart, key: bytes, object_id: str) -> None:
        self.size, self.object, self.key = made.facts.size, object_id, key
        self._made = made

    def file(self) -> IO[bytes]:
        return os.fdopen(os.dup(self._made.file.fileno()), "rb")
