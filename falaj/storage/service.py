"""Blobs as the platform knows them: received outside a transaction, kept in one, and read after one."""

import secrets
from collections.abc import Collection, Iterator, Mapping
from tempfile import TemporaryFile
from typing import IO, Literal, Protocol, runtime_checkable

from falaj.base.caller import Place, ProjectFacts
from falaj.base.clock import HOUR, Clock, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.failpoints import failpoint
from falaj.base.ids import BlobId, ProjectId, new_id
from falaj.base.operation import Download
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_upload
from falaj.database.work import Context
from falaj.keys.errors import KeyDestroyed, KeyNotFound
from falaj.keys.ring import KeyRing, Wrapped, project_key
from falaj.keys.sealing import new_key
from falaj.storage import operations as declared
from falaj.storage import store
from falaj.storage.blobs import Blobs
from falaj.storage.chunks import CHUNK, Hashing, cut
from falaj.storage.errors import Altered, ObjectMissing, StorageNotConfigured, UploadExpired, ZoneNotAllowed
from falaj.storage.operations import Blob
from falaj.storage.sealed import Sealed, unsealed

# What was received must be kept within this time; tombstones of collected objects are remembered for much longer.
KEEP_WITHIN = HOUR
USER = "user"
OCTETS = "application/octet-stream"


@value
class Owner:
    """What a blob is kept for: a kind (`user`, `run`, `dataset`) and the id of one."""

    kind: str
    id: str


@value
class Received:
    """Bytes that are stored and sealed, and count for nothing until they are kept."""

    project: ProjectId
    place: Place
    object: str
    size: int
    digest: str
    wrapped: Wrapped
    at: Moment
    sealing: Literal["chunks", "parquet"] = store.CHUNKS


class Residency(Protocol):
    """Decides whether a caller may take bytes out of a zone; `governance` knows. Raises `Forbidden` with the rule's name."""

    def permit_read(self, context: Context, zone: str) -> None: ...


@runtime_checkable
class HoldsFiles(Protocol):
    """A storage that has its objects as files, and hands out a descriptor of one. Raises `ObjectMissing`."""

    def open(self, object_id: str) -> IO[bytes]: ...


class Reader:
    """A blob's content, readable after the transaction that opened it. Thread-safe; each read is a stream of its own.

    What was received sealed is read sealed, just as it is stored: `key` opens it, and finds what was changed.
    """

    def __init__(self, blobs: Blobs, row: store.Found | Received, key: bytes) -> None:
        self.size: int = row.size
        self.object: str = row.object
        self.key = key
        self._blobs = blobs
        self._is_sealed = row.sealing == store.PARQUET

    def read(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        wanted = self.size if length is None else length
        try:
            if self._is_sealed:
                yield from self._stored(offset, min(wanted, self.size - offset))
            else:
                yield from unsealed(self._blobs, self.object, self.key, size=self.size, offset=offset, length=wanted)
        except ObjectMissing:
            raise Altered(f"The stored object {self.object} is gone from its storage.") from None

    def file(self) -> IO[bytes]:
        """What was received sealed, as a file with a descriptor: the stored one, or where storage has no files a copy without a
        name. Whoever asks closes it."""
        if not self._is_sealed:
            raise ValueError("only what was received sealed may lie in a file")
        if isinstance(self._blobs, HoldsFiles):
            try:
                self._check_size()
                return self._blobs.open(self.object)
            except ObjectMissing:
                raise Altered(f"The stored object {self.object} is gone from its storage.") from None
        copy = TemporaryFile()  # noqa: SIM115 - it is handed on
        try:
            for chunk in self.read():
                copy.write(chunk)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        return copy

    def _check_size(self) -> None:
        if self._blobs.size(self.object) != self.size:
            raise Altered(f"The stored object {self.object} is not what was stored: it was cut or extended.")

    def _stored(self, offset: int, missing: int) -> Iterator[bytes]:
        self._check_size()
        for chunk in self._blobs.read(self.object, offset, max(missing, 0)):
            missing -= len(chunk)
            yield chunk
        if missing > 0:
            raise Altered(f"The stored object {self.object} is not what was stored: it was cut.")


class BlobService:
    """Keeps blobs. `places` are the storages by the names that zones know them by."""

    def __init__(self, places: Mapping[str, Blobs], ring: KeyRing, clock: Clock, residency: Residency) -> None:
        self._places = places
        self._ring = ring
        self._clock = clock
        self._residency = residency

    def bindings(self) -> list[Bound]:
        return [
            bind_upload(declared.BLOB_PUT, self._receive_put, self._put),
            bind(declared.BLOB_GET, self._get),
            bind(declared.BLOB_SHOW, self._show),
            bind(declared.BLOB_LIST, self._list),
            bind(declared.BLOB_DELETE, self._delete),
            bind(declared.BLOB_SHRED, self._shred),
        ]

    # For other rooms

    def receive(self, project: ProjectFacts, zone: str, chunks: Iterator[bytes]) -> Received:
        """Seal and store the chunks in one of the project's zones (its first, where none is named). Opens no transaction."""
        place = _place(project, zone)
        blobs = self._storage(place.storage)
        object_id, key = secrets.token_hex(16), new_key()
        wrapped = self._wrap(project.id, object_id, key)
        hashing = Hashing(cut(chunks, CHUNK))
        size = Sealed(blobs, lambda _: key).put(object_id, hashing)
        return self._received(project, place, object_id, size, hashing.digest, wrapped, store.CHUNKS)

    def receive_sealed(self, project: ProjectFacts, zone: str, object_id: str, key: bytes, chunks: Iterator[bytes]) -> Received:
        """Store chunks as they are: a Parquet file that is sealed under `key`, which is new and for this object alone."""
        place = _place(project, zone)
        blobs = self._storage(place.storage)
        wrapped = self._wrap(project.id, object_id, key)
        hashing = Hashing(cut(chunks, CHUNK))
        size = blobs.put(object_id, (bytes(chunk) for chunk in hashing))
        return self._received(project, place, object_id, size, hashing.digest, wrapped, store.PARQUET)

    def keep(self, context: Context, received: Received, owner: Owner, *, name: str = "", media_type: str = OCTETS) -> Blob:
        """Make received bytes count for an owner. Content that the project has in that zone already is not kept
        twice, and keeps the name it came with first."""
        self._refuse_late(context, received)
        if (known := self._known_content(context, received)) is None:
            known = self._enter(context, received, name, media_type)
        if known.object != received.object:
            store.enter_object(context.work, received.object, received.place.storage, store.CONDEMNED, context.now)
        store.refer(context.work, known.id, owner.kind, owner.id, context.now)
        context.facts["blob"] = known.id
        return _shown(known)

    def show(self, context: Context, blob: str) -> Blob:
        return _shown(self._row(context, blob))

    def open(self, context: Context, blob: str) -> Reader:
        """A reader that no longer needs the transaction. The caller's zone is held against the blob's."""
        row = self._row(context, blob)
        self._residency.permit_read(context, row.zone)
        wrapped = Wrapped(version=row.key_version, data=row.wrapped)
        key = self._ring.unwrap(project_key(row.project), wrapped, wrapping_context(row.project, row.object))
        return Reader(self._storage(row.storage), row, key)

    def reader(self, received: Received, key: bytes) -> Reader:
        """What was received sealed under this key, before it is kept."""
        return Reader(self._storage(received.place.storage), received, key)

    def refer(self, context: Context, blob: str, owner: Owner) -> None:
        """One owner more for a blob of the project."""
        row = self._row(context, blob, hold=True)
        store.refer(context.work, row.id, owner.kind, owner.id, context.now)

    def held(self, context: Context, owner: Owner) -> frozenset[BlobId]:
        """The blobs that are kept for an owner. What was shredded is none of them, whoever referred to it."""
        return frozenset(BlobId(id) for id in store.held(context.work, context.required_project.id, owner.kind, owner.id))

    def release(self, context: Context, owner: Owner, *, but: Collection[str] = ()) -> tuple[BlobId, ...]:
        """Drop every reference of an owner within the project, but those to some; the blobs whose last one it was, which are
        shredded."""
        owned = store.referred(context.work, owner.kind, owner.id)
        dropped = (self._drop(context, blob, owner) for blob in owned if blob not in but)
        return tuple(BlobId(row.id) for row in dropped if row is not None)

    # Handlers

    def _receive_put(self, context: Context, request: declared.PutBlob, chunks: Iterator[bytes]) -> Received:
        return self.receive(context.required_project, request.zone, chunks)

    def _put(self, context: Context, request: declared.PutBlob, received: Received) -> Blob:
        return self.keep(context, received, _user(context), name=request.name, media_type=request.media_type)

    def _get(self, context: Context, request: declared.GetBlob) -> Download:
        """What somebody stored. What rooms keep (logged calls, parts of datasets, addresses) is read through them."""
        if not store.is_referred(context.work, self._row(context, request.blob).id, USER):
            raise NotFound(
                f"Nobody stored the blob {request.blob}: a run, dataset, model or endpoint keeps it, and is asked for it."
            )
        reader = self.open(context, request.blob)
        if request.offset > reader.size:
            raise Invalid(f"The offset {request.offset} lies behind the end of the blob, which has {reader.size} bytes.")
        size = min(request.length or reader.size, reader.size - request.offset)
        return Download(chunks=reader.read(request.offset, size), size=size, name=request.blob, media_type=OCTETS)

    def _show(self, context: Context, request: declared.OneBlob) -> Blob:
        return self.show(context, request.blob)

    def _list(self, context: Context, request: declared.ListBlobs) -> declared.Blobs:
        after = read_text_cursor(request.cursor)
        rows = store.list_blobs(context.work, context.required_project.id, after, request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.id,))
        return declared.Blobs(items=tuple(_shown(row) for row in page), next=following)

    def _delete(self, context: Context, request: declared.OneBlob) -> declared.BlobDropped:
        row, owner = self._row(context, request.blob, hold=True), _user(context)
        if not store.drop_reference(context.work, row.id, owner.kind, owner.id):
            raise Conflict("You hold no reference to this blob: somebody else stored it, or a run, dataset or model needs it.")
        shredded = not store.is_referred(context.work, row.id)
        if shredded:
            store.remove_blob(context.work, row, context.now)
        return declared.BlobDropped(blob=row.id, shredded=shredded)

    def _shred(self, context: Context, request: declared.OneBlob) -> declared.BlobDropped:
        row = self._row(context, request.blob, hold=True)
        store.remove_blob(context.work, row, context.now)
        return declared.BlobDropped(blob=row.id, shredded=True)

    # Steps

    def _received(
        self,
        project: ProjectFacts,
        place: Place,
        object_id: str,
        size: int,
        digest: str,
        wrapped: Wrapped,
        sealing: Literal["chunks", "parquet"],
    ) -> Received:
        """It is written, and nobody refers to it yet."""
        failpoint("storage.object-written")
        return Received(
            project=project.id,
            place=place,
            object=object_id,
            size=size,
            digest=digest,
            wrapped=wrapped,
            at=self._clock.now(),
            sealing=sealing,
        )

    def _wrap(self, project: ProjectId, object_id: str, key: bytes) -> Wrapped:
        name, bound = project_key(project), wrapping_context(project, object_id)
        try:
            return self._ring.wrap(name, key, bound)
        except KeyNotFound:  # the project's first blob
            self._ring.create(name)
            return self._ring.wrap(name, key, bound)

    def _refuse_late(self, context: Context, received: Received) -> None:
        if context.required_project.id != received.project:
            raise Forbidden("These bytes were received for another project.")
        if received.place not in context.required_project.places:
            raise ZoneNotAllowed(
                f"The project gave up the zone {received.place.zone!r} while these bytes came in; send them again."
            )
        if context.now - received.at > KEEP_WITHIN:
            raise UploadExpired("The upload was not finished in time; send it again.")
        if store.hold_key(context.work, received.project).shredded is not None:
            raise KeyDestroyed("This project's key was destroyed; it cannot store anything any more.")

    def _known_content(self, context: Context, received: Received) -> store.Found | None:
        if received.sealing == store.PARQUET:  # under a key of its own, so that it is like no other
            return store.find_object(context.work, received.project, received.object)
        return store.find_content(context.work, received.project, received.digest, received.place.zone)

    def _enter(self, context: Context, received: Received, name: str, media_type: str) -> store.Found:
        row = {
            "id": new_id(context.now),
            "project": received.project,
            "zone": received.place.zone,
            "storage": received.place.storage,
            "object": received.object,
            "size": received.size,
            "digest": received.digest,
            "media_type": media_type,
            "name": name,
            "wrapped": received.wrapped.data,
            "key_version": received.wrapped.version,
            "created": context.now,
            "created_by": context.identity.principal,
            "sealing": received.sealing,
        }
        if store.add_blob(context.work, row) and not store.enter_object(
            context.work, received.object, received.place.storage, store.KEPT, context.now
        ):
            raise UploadExpired("The upload took so long that its bytes were taken for leftovers; send it again.")
        # Somebody may have entered the same content since we looked: then theirs is the one.
        if (known := self._known_content(context, received)) is None:
            raise Conflict("Another request removed the same content at the same moment; send it again.")
        return known

    def _drop(self, context: Context, blob: str, owner: Owner) -> store.Found | None:
        row = store.find_blob(context.work, context.required_project.id, blob, hold=True)
        if row is None or not store.drop_reference(context.work, blob, owner.kind, owner.id):
            return None
        if store.is_referred(context.work, blob):
            return None
        store.remove_blob(context.work, row, context.now)
        return row

    def _row(self, context: Context, blob: str, *, hold: bool = False) -> store.Found:
        row = store.find_blob(context.work, context.required_project.id, blob, hold=hold)
        if row is None:
            raise NotFound(f"The project has no blob {blob}.")
        return row

    def _storage(self, name: str) -> Blobs:
        if (blobs := self._places.get(name)) is None:
            raise StorageNotConfigured(f"The settings have no storage {name!r}; add [storage.{name}] to falaj.toml.")
        return blobs


def wrapping_context(project: str, object_id: str) -> bytes:
    """Binds a wrapped data key to its object and its project."""
    return f"storage {project} {object_id}".encode()


def _user(context: Context) -> Owner:
    return Owner(kind=USER, id=context.identity.principal)


def _place(project: ProjectFacts, zone: str) -> Place:
    found = [place for place in project.places if zone in ("", place.zone)]
    if not found:
        reason = f"The project {project.name!r} may not store anything in {zone or 'any zone'}."
        raise ZoneNotAllowed(reason, rule="zones-of-project")
    return found[0]


def _shown(row: store.Found) -> Blob:
    return Blob(
        id=row.id,
        name=row.name,
        size=row.size,
        digest=row.digest,
        media_type=row.media_type,
        zone=row.zone,
        created=Moment(row.created),
        created_by=row.created_by,
    )
