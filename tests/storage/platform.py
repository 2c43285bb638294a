"""A small platform for the tests of storage: a database, a ring, a folder, and callers in two projects."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from falaj.base.caller import Identity, Place, ProjectFacts
from falaj.base.clock import Clock, Moment
from falaj.base.errors import Forbidden
from falaj.base.ids import PrincipalId, ProjectId
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database, UnitOfWork
from falaj.keys.file import FileKeyRing
from falaj.storage import operations as declared
from falaj.storage import store
from falaj.storage.blobs import Blobs
from falaj.storage.collection import GarbageCollector
from falaj.storage.folder import FolderBlobs
from falaj.storage.rotation import KeyRotation, ProjectKeys
from falaj.storage.service import BlobService, Owner, Received
from tests.servers.tables import make_sqlite_tables

T = TypeVar("T")


class SetClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = Moment(1_800_000_000_000_000)

    def now(self) -> Moment:
        return self.time

    def move(self, by: int) -> Moment:
        self.time = Moment(self.time + by)
        return self.time


class Borders:
    """Nothing leaves the zone `closed`."""

    def permit_read(self, context: Context, zone: str) -> None:
        if zone == "closed" != context.identity.zone:
            raise Forbidden("Nothing leaves the zone closed.", rule="closed-zone")


class Caller:
    """Somebody in a project, who calls as the dispatcher would."""

    def __init__(self, platform: "Platform", project: str, person: str) -> None:
        self.platform = platform
        places = (
            Place(zone="home", storage="local"),
            Place(zone="closed", storage="local"),
            Place(zone="far", storage="nowhere"),
        )
        self.facts = ProjectFacts(id=ProjectId(hashlib.md5(project.encode()).hexdigest()), name=project, places=places)
        principal = PrincipalId(hashlib.md5(person.encode()).hexdigest())
        self.identity = Identity(principal=principal, kind="person", name=person, token=None, zone="home")

    def context(self, work: UnitOfWork) -> Context:
        now = self.platform.clock.now()
        return Context(work=work, identity=self.identity, project=self.facts, now=now, request_id="r", facts={})

    def write(self, function: Callable[[Context], T]) -> T:
        return self.platform.database.write(lambda work: function(self.context(work)))

    def read(self, function: Callable[[Context], T]) -> T:
        return self.platform.database.read(lambda work: function(self.context(work)))

    def receive(self, content: bytes | Iterator[bytes], zone: str = "") -> Received:
        chunks = iter([content]) if isinstance(content, bytes) else content
        return self.platform.service.receive(self.facts, zone, chunks)

    def finish(self, received: Received, name: str = "") -> declared.Blob:
        request = declared.PutBlob(project=self.facts.name, name=name)
        return self.write(lambda context: self.platform.service._put(context, request, received))

    def put(self, content: bytes | Iterator[bytes], *, name: str = "", zone: str = "") -> declared.Blob:
        return self.finish(self.receive(content, zone), name)

    def get(self, blob: str, offset: int = 0, length: int = 0) -> bytes:
        request = declared.GetBlob(project=self.facts.name, blob=blob, offset=offset, length=length)
        download = self.write(lambda context: self.platform.service._get(context, request))
        content = b"".join(download.chunks)
        assert len(content) == download.size
        return content

    def keep(self, content: bytes, owner: Owner) -> declared.Blob:
        received = self.receive(content)
        return self.write(lambda context: self.platform.service.keep(context, received, owner))

    def one(self, blob: str) -> declared.OneBlob:
        return declared.OneBlob(project=self.facts.name, blob=blob)

    def show(self, blob: str) -> declared.Blob:
        return self.read(lambda context: self.platform.service._show(context, self.one(blob)))

    def delete(self, blob: str) -> bool:
        return self.write(lambda context: self.platform.service._delete(context, self.one(blob))).shredded

    def shred(self, blob: str) -> bool:
        return self.write(lambda context: self.platform.service._shred(context, self.one(blob))).shredded

    def rotate_key(self) -> declared.ProjectKey:
        return self.write(lambda context: self.platform.keys.rotate(context, declared.OneProject(project=self.facts.name)))

    def key(self) -> declared.ProjectKey:
        return self.read(lambda context: self.platform.keys.show(context, declared.OneProject(project=self.facts.name)))

    def shred_project(self, confirm: str = "") -> int:
        request = declared.ShredProject(project=self.facts.name, confirm=confirm or self.facts.name)
        return self.write(lambda context: self.platform.keys.shred(context, request)).blobs


class Platform:
    def __init__(self, folder: Path, postgres_url: str | None = None, clock: Clock | None = None) -> None:
        self.folder = folder
        self.set_clock = SetClock()
        self.clock: Clock = clock or self.set_clock
        file = folder / "falaj.db"
        if postgres_url is None:
            make_sqlite_tables(file)
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(file)
        escrow = folder / "key-escrow.json"
        self.ring = FileKeyRing.open_or_create(folder / "keys", escrow=escrow, clock=self.clock, home_exists=False)
        self.blobs = FolderBlobs(folder / "blobs")
        self.places: dict[str, Blobs] = {"local": self.blobs}
        self.service = BlobService(self.places, self.ring, self.clock, Borders())
        self.keys = ProjectKeys()
        self.collector = GarbageCollector(self.database, self.places)
        self.rotation = KeyRotation(self.database, self.ring, batch=7)

    def caller(self, project: str = "alpha", person: str = "amal") -> Caller:
        return Caller(self, project, person)

    def objects(self) -> set[str]:
        return {stored.id for stored in self.blobs.list("", 10_000)}

    def object_file(self, blob: str) -> Path:
        row = self.database.read(lambda work: work.execute(store.blobs.select().where(store.blobs.c.id == blob)).one())
        return self.folder / "blobs" / str(row.object)[:2] / str(row.object)

    def collect(self) -> None:
        while self.collector.step(self.clock.now()).more:
            pass

    def rotate(self) -> None:
        while self.rotation.step(self.clock.now()).more:
            pass
