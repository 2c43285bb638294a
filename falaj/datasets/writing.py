"""Writes: opened, filled piece by piece, committed or given up. Pieces are made outside of transactions, by `parts`."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.values import Nothing, value
from falaj.database.binding import Bound, bind, bind_upload
from falaj.database.work import Context, Database
from falaj.datasets.datasets import create
from falaj.datasets.deriving.functions import written_by
from falaj.datasets.external.pins import refuse_external
from falaj.datasets.intents import Intent, intended, intent_of, intent_text
from falaj.datasets.letting_go import WRITES_LIVE, LettingGo
from falaj.datasets.operations import writing as declared
from falaj.datasets.parts import NewPart, Parts
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store import writes as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_write, schema_of


@value
class Arrived:
    """A piece that came in; `new` is None where it is there already. `decides`: no columns were known when it came."""

    source: str
    new: NewPart | None
    decides: bool = False


class WriteService:
    """`database` is read before bytes come in, so that they are not taken for a write that does not exist."""

    def __init__(self, database: Database, parts: Parts, letting_go: LettingGo, sight: Sight) -> None:
        self._database = database
        self._sight = sight
        self._parts = parts
        self._letting_go = letting_go

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.OPEN_WRITE, self.open),
            bind(declared.SHOW_WRITE, self.show),
            bind_upload(declared.WRITE_PART, self.receive, self.put),
            bind(declared.ABANDON_WRITE, self.abandon),
        ]

    def open(self, context: Context, request: declared.OpenWrite) -> declared.Write:
        dataset = _found_or_made(context, request)
        current = version_store.find(context.work, dataset.id, dataset.current) if dataset.current else None
        intent = intended(request, schema_of(current) if current else None)
        self._sight.refuse_keys(context, dataset, request.keys, "merging")
        if request.derivation is not None:
            made_of = written_by(context, self._sight, request.derivation, dataset.name, dataset.zone)
            intent = dataclasses.replace(intent, derivation=made_of)
        by, since = context.identity.principal, Moment(context.now - WRITES_LIVE)
        if request.key and (known := store.find_by_key(context.work, dataset.id, request.key, by, since)) is not None:
            _refuse_another(known, request, intent)
            return _shown(context, dataset, known)
        if request.parent not in (declared.NEWEST, dataset.current):
            raise Conflict(came_between(dataset, request.parent))
        row = {
            "id": new_id(context.now),
            "project": context.required_project.id,
            "dataset": dataset.id,
            "mode": request.mode,
            "parent": dataset.current,
            "settings": intent_text(intent),
            "key": request.key,
            "state": store.OPEN,
            "version": 0,
            "created": context.now,
            "created_by": by,
            "changed": context.now,
        }
        store.add(context.work, row)
        context.facts.update(dataset=dataset.id, write=row["id"])
        return _shown(context, dataset, required_write(context, dataset, str(row["id"])))

    def show(self, context: Context, request: declared.OneWrite) -> declared.Write:
        dataset = required_dataset(context, request.dataset)
        return _shown(context, dataset, required_write(context, dataset, request.write))

    def receive(self, context: Context, request: declared.WritePart, chunks: Iterator[bytes]) -> Arrived:
        dataset, intent, known = self._database.read(
            lambda work: self._expected(dataclasses.replace(context, work=work), request)
        )
        bytes_in = _Hashed(chunks)
        if known is not None:
            return Arrived(source=bytes_in.rest(), new=None)
        if intent.columns is None and request.piece != 1:
            raise Conflict("Send piece 1 first: it decides the columns of all the others.")
        form = dataclasses.replace(intent.form, first_line=request.first_line)
        new = self._parts.make(context.required_project, dataset.zone, bytes_in, form=form, schema=intent.columns)
        return Arrived(source=bytes_in.rest(), new=new, decides=intent.columns is None)

    def put(self, context: Context, request: declared.WritePart, arrived: Arrived) -> declared.Piece:
        dataset = required_dataset(context, request.dataset)
        write = _open(required_write(context, dataset, request.write, hold=True))
        if (known := store.find_piece(context.work, write.id, request.piece)) is not None:
            if known.source != arrived.source:
                raise Conflict(
                    f"Piece {request.piece} came before, with other bytes. Give this write up (dataset.abandon) and begin anew."
                )
            return _piece(known)
        if arrived.new is None:
            raise Conflict(f"Piece {request.piece} is not there any more; send it again.")
        if request.piece > declared.MOST_PIECES <= store.count_pieces(context.work, write.id):
            raise Invalid(f"A write has at most {declared.MOST_PIECES:,} pieces: send larger ones.")
        intent = intent_of(write)
        if intent.columns is None:
            intent = dataclasses.replace(intent, columns=arrived.new.facts.schema)
        elif arrived.decides and arrived.new.facts.schema != intent.columns:
            raise Conflict("Another piece 1 came at the same moment and decided the columns; send this one again.")
        part = self._parts.enter(context, dataset.id, arrived.new)
        store.add_piece(context.work, write.id, request.piece, part, arrived.source)
        store.change(context.work, write.id, changed=context.now, settings=intent_text(intent))
        context.facts.update(dataset=dataset.id, part=part, digest=arrived.new.facts.digest)
        found = store.find_piece(context.work, write.id, request.piece)
        if found is None:
            raise RuntimeError("a piece that was just entered is not there")
        return _piece(found)

    def abandon(self, context: Context, request: declared.OneWrite) -> Nothing:
        dataset = required_dataset(context, request.dataset)
        write = required_write(context, dataset, request.write, hold=True)
        if write.state == store.COMMITTED:
            raise Conflict(f"This write became version {write.version} and cannot be given up; restore an earlier version.")
        store.change(context.work, write.id, state=store.ABANDONED, changed=context.now)
        self._letting_go.of_write(context, write.id)
        context.facts.update(dataset=dataset.id, write=write.id)
        return Nothing()

    def _expected(self, context: Context, request: declared.WritePart) -> tuple[Found, Intent, Found | None]:
        dataset = required_dataset(context, request.dataset)
        write = _open(required_write(context, dataset, request.write))
        if write.mode == "delete":
            raise Invalid("A deletion takes no pieces: commit it.")
        return dataset, intent_of(write), store.find_piece(context.work, write.id, request.piece)


def came_between(dataset: Found, parent: int) -> str:
    return (
        f"Version {dataset.current} of {dataset.name!r} is current, and this write knows {parent or 'none'}: "
        "look at what came between, and write again."
    )


def _open(write: Found) -> Found:
    if write.state == store.COMMITTED:
        raise Conflict(f"This write became version {write.version}; open another.")
    if write.state != store.OPEN:
        raise Conflict("This write was given up; open another.")
    return write


def _found_or_made(context: Context, request: declared.OpenWrite) -> Found:
    """The dataset, held: the same key twice at once opens one write."""
    project = context.required_project.id
    found = dataset_store.find(context.work, project, request.dataset, hold=True)
    if found is None and not request.create:
        raise NotFound(f"There is no dataset {request.dataset!r} here. Create it first, or say that it may be made (create).")
    if found is None:
        create(context, request.dataset, request.description, request.zone)
        return required_dataset(context, request.dataset, hold=True)
    refuse_external(found, "change its rows")
    if request.zone and request.zone != found.zone:
        raise Conflict(f"Dataset {request.dataset!r} is kept in the zone {found.zone!r}, not in {request.zone!r}.")
    return found


def _refuse_another(known: Found, request: declared.OpenWrite, intent: Intent) -> None:
    """What goes on under a key is the same write: pieces that were made by other rules cannot be joined."""
    before = intent_of(known)
    same = dataclasses.replace(before, columns=None) == dataclasses.replace(intent, columns=None)
    if known.mode != request.mode or not same:
        raise Conflict(f"There is a write {known.id} with the key {request.key!r} that was meant otherwise; take another key.")


def _shown(context: Context, dataset: Found, write: Found) -> declared.Write:
    return declared.Write(
        id=write.id,
        dataset=dataset.name,
        mode=write.mode,
        state=write.state,
        parent=write.parent,
        version=write.version,
        pieces=tuple(_piece(row) for row in store.pieces_of(context.work, write.id)),
        expires=Moment(write.changed + WRITES_LIVE),
    )


def _piece(row: Found) -> declared.Piece:
    return declared.Piece(piece=row.number, rows=row.rows, size=row.size, digest=row.digest, source=row.source)


class _Hashed(Iterable[bytes]):
    """Chunks on their way to the worker, and the digest of all of them, whether or not the worker wanted them all."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._seen = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._seen.update(chunk)
            yield chunk

    def rest(self) -> str:
        for _ in self:
            pass
        return self._seen.hexdigest()
