"""A small platform for the tests of datasets: real gate, dispatcher, ledger, blobs, keys and data workers."""

import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from sqlalchemy import select

from falaj.base.clock import Moment
from falaj.base.ids import ProjectId, new_id
from falaj.base.operation import Operation
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Database, UnitOfWork
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.operations import OPERATIONS, datasets, reading, versions, writing
from falaj.datasets.room import Datasets
from falaj.datasets.workers import DataWorkers
from falaj.governance.bootstrap import FirstZone, bootstrap, owner_token
from falaj.governance.gate import Gatekeeper
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.identity.members import MemberService
from falaj.governance.identity.people import UserService
from falaj.governance.identity.tokens import TokenService
from falaj.governance.ledger.key_checks import PURPOSE as LEDGER
from falaj.governance.ledger.store import leaves
from falaj.governance.operations import OPERATIONS as GOVERNANCE
from falaj.governance.passes import Passes
from falaj.governance.profiles import PROFILES
from falaj.governance.projects import operations as projects
from falaj.governance.projects.service import ProjectService
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as sessions
from falaj.governance.sessions.service import SessionService
from falaj.governance.zones.residency import ProjectZones
from falaj.keys.file import FileKeyRing
from falaj.keys.ring import project_key
from falaj.keys.signing import SigningKeys
from falaj.operations.dispatcher import Call, Dispatcher
from falaj.storage.collection import GarbageCollector
from falaj.storage.folder import FolderBlobs
from falaj.storage.service import BlobService
from falaj.tables.parts import PartReader
from tests.servers.tables import make_sqlite_tables

Req = TypeVar("Req")
Res = TypeVar("Res")
START = Moment.parse("2026-11-15T09:00:00Z")
PROJECT = "default"
CSV = b"id,name,score\n1,well,0.5\n2,channel,1.5\n3,field,2.5\n"


class TickingClock:
    """Every look at it is a microsecond later, so that no two things happen at once."""

    def __init__(self) -> None:
        self.moment = START
        self._ticks = itertools.count()

    def now(self) -> Moment:
        return Moment(self.moment + next(self._ticks))

    def forward(self, by: int) -> None:
        self.moment = Moment(self.moment + by)


class _RingKeys:
    def __init__(self, ring: FileKeyRing) -> None:
        self._ring = ring

    def create(self, project: ProjectId) -> None:
        self._ring.create(project_key(project))


class _Holdings:
    def holds(self, _work: UnitOfWork, _project: ProjectId, _zone: str) -> bool:
        return False


class Platform:
    def __init__(self, folder: Path, postgres_url: str | None, workers: DataWorkers, online: OnlineStore | None = None) -> None:
        self.clock, profile = TickingClock(), PROFILES["solo"]
        file = folder / "falaj.db"
        if postgres_url is None:
            make_sqlite_tables(file)
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(file)
        ring = FileKeyRing.open_or_create(folder / "keys", escrow=folder / "escrow.json", clock=self.clock, home_exists=False)
        self.ring, signing = ring, SigningKeys(ring)
        self.database.write(lambda work: signing.prepare(work, LEDGER, self.clock.now()))
        passes = Passes(issuer="falaj", keys=signing)
        gate = Gatekeeper(operations=(*GOVERNANCE, *OPERATIONS), profile=profile, passes=passes)
        self.stored = FolderBlobs(folder / "blobs")
        blobs = BlobService({"local": self.stored}, ring, self.clock, ProjectZones())
        self.room = Datasets(
            database=self.database,
            blobs=blobs,
            workers=workers,
            gate=gate,
            ring=ring,
            folders=[folder / "lake"],
            online=lambda: online or LmdbStore(folder / "online"),
        )
        services = (
            UserService(),
            MemberService(),
            TokenService(gate=gate, profile=profile, passes=passes),
            SessionService(database=self.database, gate=gate, profile=profile, clock=self.clock, provider=None),
            ProjectService(keys=_RingKeys(ring), holdings=_Holdings()),
            self.room,
        )
        bound = [bound for service in services for bound in service.bindings()]
        self.dispatcher = Dispatcher(database=self.database, gate=gate, clock=self.clock, bindings=bound)
        self.collector = GarbageCollector(self.database, {"local": self.stored})
        zone = FirstZone(name="home", country="AE", storage="local")

        def start(work: UnitOfWork) -> str:
            bootstrap(work, keys=_RingKeys(ring), passes=passes, zone=zone, now=self.clock.now())
            return owner_token(work, profile=profile, zone=zone.name, now=self.clock.now())

        self.owner = self.database.write(start)

    # Calling

    def call(
        self, operation: Operation[Req, Res], request: Req, token: str | None = "", chunks: Sequence[bytes] | None = None
    ) -> Res:
        call = Call(
            credentials=self.owner if token == "" else token,
            request_id=new_id(self.clock.now()),
            chunks=None if chunks is None else iter(chunks),
        )
        return self.dispatcher.call(operation, request, call)

    def person(self, name: str, *roles: Role, project: str = PROJECT) -> str:
        """Somebody with these roles; a token of theirs."""
        invited = self.call(identity.CREATE_USER, identity.CreateUser(name=name))
        for role in roles:
            self.call(members.ADD_MEMBER, members.AddMember(project=project, member=name, role=role))
        return self.call(sessions.OPEN_SESSION, sessions.OpenSession(code=invited.code), None).token

    def token(self, scopes: tuple[str, ...]) -> str:
        """One of the owner's that can do no more than this."""
        return self.call(identity.CREATE_TOKEN, identity.CreateToken(label="narrow", scopes=scopes)).token

    def project(self, name: str) -> None:
        self.call(projects.CREATE_PROJECT, projects.CreateProject(name=name, zones=("home",)))

    def leaves(self, operation: str) -> list[dict[str, Any]]:
        """What the ledger has of an operation, oldest first."""
        found = select(leaves.c.record).where(leaves.c.operation == operation).order_by(leaves.c.id)
        return self.database.read(lambda work: [json.loads(row.record) for row in work.execute(found)])

    def objects(self) -> set[str]:
        return {stored.id for stored in self.stored.list("", 1000)}

    # What tests do over and over

    def open(self, mode: str = "append", dataset: str = "flights", **fields: Any) -> writing.Write:
        token, project = fields.pop("token", ""), fields.pop("project", PROJECT)
        request = writing.OpenWrite(project=project, dataset=dataset, mode=mode, create=True, **fields)  # type: ignore[arg-type]
        return self.call(writing.OPEN_WRITE, request, token)

    def send(self, write: writing.Write, content: bytes, piece: int = 1, **fields: Any) -> writing.Piece:
        request = writing.WritePart(project=PROJECT, dataset=write.dataset, write=write.id, piece=piece, **fields)
        return self.call(writing.WRITE_PART, request, chunks=[content[:7], content[7:]])

    def commit(self, write: writing.Write, pieces: int = 1, only: tuple[int, ...] = ()) -> versions.Version:
        request = writing.CommitWrite(project=PROJECT, dataset=write.dataset, write=write.id, pieces=pieces, only=only)
        return self.call(writing.COMMIT_WRITE, request)

    def abandon(self, write: writing.Write) -> None:
        self.call(writing.ABANDON_WRITE, writing.OneWrite(project=PROJECT, dataset=write.dataset, write=write.id))

    def shown(self, write: writing.Write) -> writing.Write:
        return self.call(writing.SHOW_WRITE, writing.OneWrite(project=PROJECT, dataset=write.dataset, write=write.id))

    def write(self, *pieces: bytes, mode: str = "append", dataset: str = "flights", **fields: Any) -> versions.Version:
        """A whole write, of these pieces."""
        write = self.open(mode, dataset, **fields)
        for number, content in enumerate(pieces, 1):
            self.send(write, content, number)
        return self.commit(write, len(pieces))

    def dataset(self, name: str = "flights") -> datasets.Dataset:
        return self.call(datasets.SHOW_DATASET, datasets.OneDataset(project=PROJECT, dataset=name))

    def version(self, word: str = "current", name: str = "flights") -> versions.Version:
        return self.call(versions.SHOW_VERSION, versions.OneVersion(project=PROJECT, dataset=name, version=word))

    def restore(self, word: str, name: str = "flights") -> versions.Version:
        return self.call(versions.RESTORE_VERSION, versions.OneVersion(project=PROJECT, dataset=name, version=word))

    def rename(self, **renames: str) -> versions.Version:
        return self.call(versions.RENAME_COLUMNS, versions.RenameColumns(project=PROJECT, dataset="flights", renames=renames))

    def tag(self, tag: str, word: str = "current") -> datasets.Dataset:
        return self.call(datasets.TAG_VERSION, datasets.TagVersion(project=PROJECT, dataset="flights", tag=tag, version=word))

    def delete(self, name: str = "flights", even_if_needed: bool = True) -> None:
        request = datasets.DeleteDataset(project=PROJECT, dataset=name, even_if_needed=even_if_needed)
        self.call(datasets.DELETE_DATASET, request)

    def grant(self, word: str = "current", name: str = "flights", token: str = "") -> reading.ReadGrant:
        return self.call(reading.GRANT_READ, reading.GrantRead(project=PROJECT, dataset=name, version=word), token)

    def part(self, part: str, offset: int = 0, length: int = 0, name: str = "flights") -> bytes:
        request = reading.ReadPart(project=PROJECT, dataset=name, part=part, offset=offset, length=length)
        return b"".join(self.call(reading.READ_PART, request).chunks)

    def query(self, sql: str, *tables: str, limit: int = 1000, token: str = "") -> reading.FoundRows:
        return self.call(reading.QUERY, reading.Query(project=PROJECT, sql=sql, tables=tables, limit=limit), token)

    def rows(self, word: str = "current", name: str = "flights") -> list[tuple[Any, ...]]:
        """All rows of a version as a program reads them: by a grant, from the sealed bytes, opened here."""
        grant = self.grant(word, name)
        found: list[tuple[Any, ...]] = []
        for part in grant.parts:
            reader = PartReader(self.part(part.id, name=name), key=bytes.fromhex(part.key), object_id=part.object)
            table = reader.read()
            table = table.rename_columns([(part.renamed or {}).get(column, column) for column in table.column_names])
            rows = table.to_pylist()
            found += [tuple(row.get(column.name) for column in grant.columns) for row in rows]
        return found


def arrow(**columns: Any) -> bytes:
    """A table as an Arrow stream."""
    table, file = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    return file.getvalue()
