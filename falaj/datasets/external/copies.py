"""Parts that are elsewhere, brought here sealed because somebody reads them, and kept while he does: many ranges of a part are
fetched once, and every control plane serves the same bytes of it."""

import dataclasses
import secrets
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Final

from falaj.base.clock import HOUR, MINUTE, Moment
from falaj.base.encoding import canonical
from falaj.base.errors import Conflict, NotFound, TooLarge, Unavailable
from falaj.database.work import Context, Database, UnitOfWork
from falaj.datasets.external.fetching import Fetcher
from falaj.datasets.external.pins import pin_of
from falaj.datasets.external.places import OpenPlace, PlaceService
from falaj.datasets.letting_go import COPY, of_itself
from falaj.datasets.store import places as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import schema_of
from falaj.keys.sealing import derive
from falaj.storage.service import BlobService, Owner, Reader

MOST_BYTES: Final = 20 << 30
IDLE: Final = HOUR
IN_USE: Final = 10 * MINUTE
_AT_ONCE: Final = 200
_PIECE: Final = 1 << 20


def part_key(secret: bytes, object_id: str) -> bytes:
    """What a part that is elsewhere is sealed with whenever it is brought here: gone with the blob that it is made from."""
    return derive(secret, canonical({"kind": "external-part", "object": object_id}))


class ExternalReader(Reader):
    """A part whose bytes are not ours, read as any other: outside of transactions, for the first read may take long."""

    def __init__(self, copies: "Copies", context: Context, row: Found, place: OpenPlace, key: bytes) -> None:
        self.size, self.object, self.key = row.size, row.object, key
        self._copies, self._context, self._row, self._place = copies, context, row, place

    def read(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        copy = self._copies.of(self._context, self._row, self._place, self.key)
        if copy.size != self.size:
            raise Conflict("This part was sealed anew and has another size now: ask for a new grant.")
        yield from copy.read(offset, length)

    def file(self) -> IO[bytes]:
        return self._copies.of(self._context, self._row, self._place, self.key).file()


class Copies:
    """Thread-safe."""

    def __init__(
        self, database: Database, blobs: BlobService, places: PlaceService, fetcher: Fetcher, most_bytes: int = MOST_BYTES
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._places = places
        self._fetcher = fetcher
        self._most = most_bytes
        self._locks = tuple(threading.Lock() for _ in range(64))

    def readers(self, context: Context, rows: Sequence[Found]) -> list[ExternalReader]:
        """Of parts that are elsewhere. The caller's zone, and his project's right to the place, are held against each."""
        detached, places = dataclasses.replace(context, facts={}), dict[str, OpenPlace]()
        found = []
        for row in rows:
            secret, name = self._blobs.open(context, row.blob).key, pin_of(row).place
            place = places.setdefault(name, places.get(name) or self._places.opened(context, name))
            found.append(ExternalReader(self, detached, row, place, part_key(secret, row.object)))
        return found

    def of(self, context: Context, row: Found, place: OpenPlace, key: bytes) -> Reader:
        """What was brought before, or is now. Raises `ChangedUpstream`."""
        with self._locks[hash(row.id) % len(self._locks)]:
            return self._known(context, row) or self._brought(context, row, place, key)

    def step(self, now: Moment) -> bool:
        """Let go of what nobody read for a while; whether there is more."""
        return self._database.write(lambda work: self._let_go(work, now, Moment(now - IDLE))) == _AT_ONCE

    def _known(self, context: Context, row: Found) -> Reader | None:
        found = self._database.read(lambda work: self._opened(dataclasses.replace(context, work=work), row))
        if found is None:
            return None
        reader, used = found
        if used < context.now - MINUTE // 2:
            self._database.write(lambda work: store.use_copy(work, row.id, context.now))
        return reader

    def _opened(self, context: Context, row: Found) -> tuple[Reader, int] | None:
        if (copy := store.copy_of(context.work, row.id)) is None:
            return None
        try:
            return self._blobs.open(context, copy.blob), copy.used
        except NotFound:  # somebody shredded it
            return None

    def _brought(self, context: Context, row: Found, place: OpenPlace, key: bytes) -> Reader:
        self._make_room(context, row.size)
        made = self._fetcher.again(place, pin_of(row), schema_of(row), row.digest, key=key, object_id=row.object)
        with made.file as file:
            chunks = iter(lambda: file.read(_PIECE), b"")
            received = self._blobs.receive_sealed(context.required_project, place.zone, secrets.token_hex(16), key, chunks)

        def keep(work: UnitOfWork) -> Reader:
            inside = dataclasses.replace(context, work=work)
            if (found := self._opened(inside, row)) is not None:  # another control plane was faster
                return found[0]
            store.drop_copy(work, row.id)
            blob = self._blobs.keep(inside, received, Owner(kind=COPY, id=row.id))
            project = context.required_project.id
            store.add_copy(
                work, {"part": row.id, "project": project, "blob": blob.id, "size": received.size, "used": context.now}
            )
            if received.size != row.size:  # another release of the libraries seals otherwise
                store.resize(work, row.id, received.size)
            return self._blobs.open(inside, blob.id)

        return self._database.write(keep)

    def _make_room(self, context: Context, size: int) -> None:
        if size > self._most:
            raise TooLarge(
                f"A part of {size >> 20} MiB is more than may be held here of external datasets (data.external_mib)."
            )
        missing = self._database.read(lambda work: store.copied_bytes(work)) + size - self._most
        if missing <= 0:
            return
        project = context.required_project.id
        freed = self._database.write(lambda work: self._free(work, project, size, missing, context.now))
        if freed < missing:
            raise Unavailable(
                "More of external datasets is being read at a time than may be held here (data.external_mib): read fewer of "
                "them at once, or try again shortly.",
                delay=30,
            )

    def _free(self, work: UnitOfWork, project: str, size: int, missing: int, now: Moment) -> int:
        """What nobody reads at the moment; and then of a project that has more than this one would have, so that none keeps
        the others from reading. What is read goes on being read, or is fetched again."""
        freed, mine = 0, store.copied_bytes(work, project) + size
        while freed < missing and (rows := store.copies_before(work, Moment(now - IN_USE), 1)):
            freed += sum(row.size for row in rows)
            self._drop(work, rows[0], now)
        while freed < missing and (row := store.copy_of_largest(work, project, mine)) is not None:
            freed += row.size
            self._drop(work, row, now)
        return freed

    def _let_go(self, work: UnitOfWork, now: Moment, before: Moment) -> int:
        rows = store.copies_before(work, before, _AT_ONCE)
        for row in rows:
            self._drop(work, row, now)
        return len(rows)

    def _drop(self, work: UnitOfWork, row: Found, now: Moment) -> None:
        self._blobs.release(of_itself(work, row.project, now), Owner(kind=COPY, id=row.part))
        store.drop_copy(work, row.part)
