"""Parts on their way in and out: made by a data worker, stored sealed, entered in a transaction, and opened for reading."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Final, Protocol

from falaj.base.caller import ProjectFacts
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.letting_go import PART
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import schema_text
from falaj.datasets.workers import DataWorkers, MadePart, Source
from falaj.keys.sealing import new_key
from falaj.storage.service import BlobService, Owner, Reader, Received
from falaj.tables.forms import Form
from falaj.tables.orders import PartFacts, PartToRead, TableToRead
from falaj.tables.schemas import Schema

_CHUNK: Final = 1 << 20


@value
class NewPart:
    """A part that is stored and belongs to nothing yet: unless it is entered, it is collected as a leftover."""

    facts: PartFacts
    received: Received
    profile: Received | None
    reader: Reader

    @property
    def renamed(self) -> dict[str, str] | None:
        """Its columns are called as they were stored."""
        return None


@value
class Openable:
    """A part of a version, with what opens it."""

    row: Found
    reader: Reader

    @property
    def renamed(self) -> dict[str, str] | None:
        text = getattr(self.row, "renamed", "")
        return dict(json.loads(text)) if text else None


class Elsewhere(Protocol):
    """Opens parts whose bytes are not kept here."""

    def readers(self, context: Context, rows: Sequence[Found]) -> Sequence[Reader]: ...


class Parts:
    """Thread-safe."""

    def __init__(self, blobs: BlobService, workers: DataWorkers, elsewhere: Elsewhere | None = None) -> None:
        self._blobs = blobs
        self._workers = workers
        self._elsewhere = elsewhere

    def make(self, project: ProjectFacts, zone: str, source: Source, *, form: Form, schema: Schema | None) -> NewPart:
        """Have a worker seal the rows of a source, and store what it made. Opens no transaction."""
        object_id, key = secrets.token_hex(16), new_key()
        made = self._workers.make_part(source, form=form, schema=schema, key=key, object_id=object_id)
        return self.stored(project, zone, made, key=key, object_id=object_id)

    def stored(self, project: ProjectFacts, zone: str, made: MadePart, *, key: bytes, object_id: str) -> NewPart:
        """A part that a worker sealed under this key. Opens no transaction."""
        with made.file as file:
            received = self._blobs.receive_sealed(project, zone, object_id, key, chunks_of(file))
        profile = self.profiled(project, zone, made.facts)
        return NewPart(facts=made.facts, received=received, profile=profile, reader=self._blobs.reader(received, key))

    def profiled(self, project: ProjectFacts, zone: str, facts: PartFacts) -> Received | None:
        """The profile of a part, stored. Opens no transaction."""
        return self._blobs.receive(project, zone, iter([json.dumps(facts.profile).encode()])) if facts.profile else None

    def make_of(
        self, project: ProjectFacts, zone: str, tables: Mapping[str, TableToRead], sql: str, *, schema: Schema | None
    ) -> NewPart:
        """What a query finds, as a part: not a row of it leaves the worker in the clear. Opens no transaction."""
        object_id, key = secrets.token_hex(16), new_key()
        made = self._workers.make_part_of(tables, sql, schema=schema, key=key, object_id=object_id)
        return self.stored(project, zone, made, key=key, object_id=object_id)

    def enter(self, context: Context, dataset: str, new: NewPart, known: int | None = None) -> str:
        """Make it a part of the dataset's, which belongs to no version yet; its id. `known` is when its rows became known,
        where they did before."""
        id = new_id(context.now)
        owner = Owner(kind=PART, id=id)
        profile = self._blobs.keep(context, new.profile, owner).id if new.profile else ""
        blob = self._blobs.keep(context, new.received, owner)
        row = {
            "id": id,
            "project": context.required_project.id,
            "dataset": dataset,
            "blob": blob.id,
            "object": new.received.object,
            "rows": new.facts.rows,
            "size": new.received.size,
            "digest": new.facts.digest,
            "schema": schema_text(new.facts.schema),
            "profile": profile,
            "known": known,
        }
        store.add_part(context.work, row)
        return id

    def openable(self, context: Context, rows: Sequence[Found]) -> tuple[Openable, ...]:
        """Each with its key; the caller's zone is held against that of the part. Needs no transaction afterwards."""
        far = [row for row in rows if row.elsewhere]
        brought = {row.id: reader for row, reader in zip(far, self._readers(context, far), strict=True)}
        return tuple(Openable(row=row, reader=brought.get(row.id) or self._blobs.open(context, row.blob)) for row in rows)

    def _readers(self, context: Context, rows: Sequence[Found]) -> Sequence[Reader]:
        if rows and self._elsewhere is None:
            raise RuntimeError("nobody here reads parts that are elsewhere")
        return self._elsewhere.readers(context, rows) if self._elsewhere is not None else ()


@contextmanager
def opened(
    schema: Schema, parts: Sequence[Openable | NewPart], masked: Sequence[str] = (), known: tuple[int, ...] | None = None
) -> Iterator[TableToRead]:
    """Parts as one table for a worker, with descriptors that are closed at the end; `masked` columns are null there. `known`:
    when each part became known, where that is asked."""
    with ExitStack() as stack:
        hidden = tuple(name for name in schema.names if name in masked)
        yield TableToRead(schema=schema, parts=tuple(_to_read(stack, part) for part in parts), masked=hidden, known=known)


def first_of(parts: Sequence[Openable], rows: int) -> Sequence[Openable]:
    """Those that have more than so many rows together: the others need not be fetched."""
    for number, part in enumerate(parts, 1):
        rows -= part.row.rows
        if rows < 0:
            return parts[:number]
    return parts


def _to_read(stack: ExitStack, part: Openable | NewPart) -> PartToRead:
    file = stack.enter_context(part.reader.file())
    return PartToRead(file=file.fileno(), key=part.reader.key, object_id=part.reader.object, renamed=part.renamed)


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk
