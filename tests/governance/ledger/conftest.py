"""A ledger to play with, over both engines, with a clock and a key of its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import text

from falaj.base.caller import Identity
from falaj.base.clock import Moment
from falaj.base.ids import LeafId, PrincipalId, TokenId
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Note, Personal, Secret, value
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database
from falaj.governance.ledger import store
from falaj.governance.ledger.copies import HeadCopies
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.key_checks import PURPOSE
from falaj.governance.ledger.queries import StoredLedger
from falaj.governance.ledger.recording import append
from falaj.governance.ledger.reports import Report
from falaj.governance.ledger.sequencing import Sequencer
from falaj.governance.ledger.service import LedgerService
from falaj.governance.ledger.verification import verify
from falaj.keys.signatures import PublicKey
from tests.servers.tables import make_sqlite_tables

TABLES = [store.leaves, store.salts, store.windows, store.nodes, store.heads]
PRINCIPAL = PrincipalId("a" * 32)
PROJECT = "b" * 32


@value
class Member(Message):
    email: Annotated[str, Personal()]
    role: str


@value
class Invite(Message):
    name: str = "x"
    note: Note = ""
    password: Annotated[str, Secret()] = ""
    members: tuple[Member, ...] = ()


def operation(record: Record = Record.CHANGE, name: str = "people.invite") -> Operation[Invite, Invite]:
    return Operation(
        name=name,
        summary="Invite people",
        method="POST",
        path="people",
        request=Invite,
        result=Invite,
        permission=Permission(name="people.invite", group=Group.ADMINISTER),
        scope=Scope.PLATFORM,
        record=record,
    )


def identity(principal: str = PRINCIPAL) -> Identity:
    return Identity(principal=PrincipalId(principal), kind="person", name="Aisha", token=TokenId("c" * 32), zone="ae")


class ManualClock:
    def __init__(self) -> None:
        self.time = Moment.parse("2026-11-15T09:00:00Z")

    def now(self) -> Moment:
        self.time = Moment(self.time + 1)
        return self.time

    def pass_seconds(self, seconds: float) -> None:
        self.time = Moment(self.time + int(seconds * 1_000_000))


class KeySigner:
    def __init__(self, key_id: str = "key-1", private: bytes | None = None) -> None:
        self.key_id = key_id
        self._private = Ed25519PrivateKey.from_private_bytes(private) if private else Ed25519PrivateKey.generate()
        self.private = self._private.private_bytes_raw()
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


class Ledger:
    """Everything a test of the ledger needs, wired."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.clock = ManualClock()
        self.signer = KeySigner()
        self.keys = {self.signer.key_id: self.signer.public}
        self.copies = HeadCopies([directory / "heads"])
        self.copy_file = directory / "heads" / "heads.jsonl"
        self.sequencer = self.make_sequencer()
        self.service = LedgerService(database, lambda work: self.public_keys(), self.copies)

    def public_keys(self) -> list[PublicKey]:
        now = self.clock.time
        return [PublicKey(id=id, purpose=PURPOSE, public=public, created=now) for id, public in self.keys.items()]

    def make_sequencer(self, batch: int = 1000) -> Sequencer:
        return Sequencer(self.database, lambda work: self.signer, self.copies, self.clock, batch=batch)

    def use(self, signer: KeySigner) -> None:
        self.signer = signer
        self.keys = {signer.key_id: signer.public}

    def record(self, count: int = 1, **changes: Any) -> list[LeafId]:
        arguments = {
            "operation": operation(),
            "request": Invite(name="x"),
            "identity": identity(),
            "project": "",
            "request_id": "r",
            "facts": {},
        } | changes
        return [self.database.write(lambda work: append(work, now=self.clock.now(), **arguments)) for _ in range(count)]

    def grow(self, *batches: int) -> list[Head]:
        """Record and sequence: one head per batch."""
        heads = []
        for count in batches:
            self.record(count)
            heads.append(self.sequencer.step().head)
        return [head for head in heads if head is not None]

    def sql(self, statement: str, **parameters: Any) -> Sequence[Any]:
        """What an attacker with the database's password does."""

        def run(work):
            result = work.execute(text(statement), parameters)
            return result.all() if result.returns_rows else []

        return self.database.write(run)

    def verify(self, **options: Any) -> Report:
        return self.database.read(lambda work: verify(StoredLedger(work), keys=self.keys, copies=self.copies.files, **options))

    def names(self, **options: Any) -> set[str]:
        return {str(finding.name) for finding in self.verify(**options).findings}

    def ask(self, handler: Any, request: Any, project: Any = None) -> Any:
        return self.database.write(self._handled(handler, request, project))

    def look(self, handler: Any, request: Any, project: Any = None) -> Any:
        """As `ask`, in a transaction that only reads."""
        return self.database.read(self._handled(handler, request, project))

    def _handled(self, handler: Any, request: Any, project: Any) -> Any:
        now = self.clock.now()

        def run(work):
            context = Context(work=work, identity=identity(), project=project, now=now, request_id="r", facts={})
            return handler(context, request)

        return run


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        make_sqlite_tables(tmp_path / "falaj.db")
        opened: Database = SqliteDatabase(tmp_path / "falaj.db")
    else:
        opened = PostgresDatabase(request.getfixturevalue("postgres_tables_url"))
    yield opened
    opened.close()


@pytest.fixture
def ledger(database: Database, tmp_path: Path) -> Ledger:
    return Ledger(database, tmp_path)
