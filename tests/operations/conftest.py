"""A whole platform in this process, on SQLite and on Postgres, with a few small operations of the tests' own beside its own."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from sqlalchemy import Column, MetaData, String, Table, insert, select, text

from falaj.app.home import Home
from falaj.app.platform import Platform, open_platform
from falaj.app.settings import DatabaseSettings, Settings
from falaj.base.clock import SECOND, Moment, SystemClock
from falaj.base.errors import Conflict
from falaj.base.ids import new_id
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Nothing, Personal, Secret, Text, value
from falaj.database.binding import Bound, bind, bind_prepared, bind_upload
from falaj.database.work import Context, UnitOfWork
from falaj.governance.identity.member_operations import ADD_MEMBER, AddMember
from falaj.governance.identity.operations import CREATE_USER, CreateUser
from falaj.governance.ledger.leaves import Leaf, decode
from falaj.governance.ledger.store import leaves
from falaj.governance.roles import Role
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from falaj.operations.dispatcher import Call
from tests.servers.postgres import PostgresServer

schema = MetaData()
notes = Table("notes", schema, Column("id", String(32), primary_key=True), Column("text", String(1000)))


class MovableClock:
    """The machine's clock, plus what a test moves it on by."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._moved = 0

    def now(self) -> Moment:
        return Moment(self._clock.now() + self._moved)

    def move(self, seconds: float) -> None:
        self._moved += round(seconds * SECOND)


@value
class PutNote(Message):
    project: Name
    text: Annotated[str, Text(longest=1000), Personal()]


@value
class Note(Message):
    id: str
    text: str


@value
class OfProject(Message):
    project: Name


@value
class Notes(Message):
    items: tuple[str, ...]


@value
class Shown(Message):
    id: str
    password: Annotated[str, Text(longest=100), Secret()]


def declared(
    name: str, request: type, result: type, record: Record, group: Group, *, takes_bytes: bool = False
) -> Operation[Any, Any]:
    return Operation(
        name=name,
        summary=name,
        method="GET" if record in (Record.PLAIN_READ, Record.SENSITIVE_READ) else "POST",
        path=f"projects/{{project}}/{name}",
        request=request,
        result=result,
        permission=Permission(name=name, group=group),
        scope=Scope.PROJECT,
        record=record,
        takes_bytes=takes_bytes,
    )


PUT = declared("note.put", PutNote, Note, Record.CHANGE, Group.WRITE)
BREAK = declared("note.break", PutNote, Note, Record.CHANGE, Group.WRITE)
PREPARED = declared("note.prepared", PutNote, Note, Record.CHANGE, Group.WRITE)
SECRET = declared("note.secret", PutNote, Shown, Record.CHANGE, Group.WRITE)
UPLOAD = declared("note.upload", PutNote, Note, Record.CHANGE, Group.WRITE, takes_bytes=True)
PING = declared("note.ping", PutNote, Nothing, Record.TELEMETRY, Group.WRITE)
READ = declared("note.read", OfProject, Notes, Record.PLAIN_READ, Group.READ)
PEEK = declared("note.peek", OfProject, Notes, Record.SENSITIVE_READ, Group.READ)


class NoteService:
    """`between` is run between admission and transaction of a prepared note; `failure` is what a breaking one raises."""

    def __init__(self) -> None:
        self.between: Callable[[Context], object] = lambda _context: None
        self.failure: Exception = Conflict("broken")
        self.put_calls = 0
        self.lock = threading.Lock()

    def bindings(self) -> list[Bound]:
        return [
            bind(PUT, self.put),
            bind(BREAK, self.break_),
            bind_prepared(
                PREPARED,
                lambda context, _request: self.between(context),
                lambda context, request, _: self.put(context, request),
            ),
            bind(SECRET, lambda context, request: Shown(id=self.put(context, request).id, password="once")),
            bind_upload(UPLOAD, self.receive, lambda context, request, content: self.put(context, request, content)),
            bind(PING, lambda _context, _request: Nothing()),
            bind(READ, self.read),
            bind(PEEK, self.read),
        ]

    def put(self, context: Context, request: PutNote, content: str = "") -> Note:
        with self.lock:
            self.put_calls += 1
        note = Note(id=new_id(context.now), text=content or request.text)
        context.work.execute(insert(notes).values(id=note.id, text=note.text))
        context.facts["note"] = note.id
        return note

    def break_(self, context: Context, request: PutNote) -> Note:
        self.put(context, request)
        raise self.failure

    def receive(self, _context: Context, _request: PutNote, chunks: Iterator[bytes]) -> str:
        return b"".join(chunks).decode()

    def read(self, context: Context, _request: OfProject) -> Notes:
        return Notes(items=tuple(row.text for row in context.work.execute(select(notes).order_by(notes.c.id))))


class Bench:
    """The platform and its notes; `call` goes in by the dispatcher, the rest looks from behind."""

    def __init__(self, platform: Platform, service: NoteService, clock: MovableClock) -> None:
        self.platform, self.service, self.clock = platform, service, clock
        self.owner = platform.owner_token()
        platform.database.write(lambda work: schema.create_all(work.connection))

    def call(
        self, operation: Operation[Any, Any], request: Any, *, token: str | None = "", key: str = "", chunks: Any = None
    ) -> Any:
        credentials = self.owner if token == "" else token
        call = Call(credentials=credentials, request_id=new_id(self.clock.now()), idempotency_key=key, chunks=chunks)
        return self.platform.dispatcher.call(operation, request, call)

    def put(self, words: str = "hello", **options: Any) -> Any:
        return self.call(PUT, PutNote(project="default", text=words), **options)

    def person(self, name: str, role: Role | None = None) -> str:
        invited = self.call(CREATE_USER, CreateUser(name=name))
        if role is not None:
            self.call(ADD_MEMBER, AddMember(project="default", member=name, role=role))
        return str(self.call(OPEN_SESSION, OpenSession(code=invited.code), token=None).token)

    def notes(self) -> list[str]:
        return self.platform.database.read(lambda work: [row.text for row in work.execute(select(notes).order_by(notes.c.id))])

    def leaves(self, operation: str = "") -> list[Leaf]:
        def read(work: UnitOfWork) -> list[Leaf]:
            found = work.execute(select(leaves.c.record).order_by(leaves.c.inserted, leaves.c.id))
            return [decode(bytes(row.record)) for row in found]

        return [leaf for leaf in self.platform.database.read(read) if leaf.operation == operation or not operation]

    def refuse_leaves(self) -> None:
        """From now on the ledger's table takes nothing more."""
        sqlite = "CREATE TRIGGER no_more BEFORE INSERT ON ledger_leaves BEGIN SELECT RAISE(ABORT, 'no more leaves'); END"
        postgres = "ALTER TABLE ledger_leaves ADD CONSTRAINT no_more CHECK (false) NOT VALID"
        self.platform.database.write(lambda work: work.execute(text(sqlite if self.is_sqlite(work) else postgres)) and None)

    def take_leaves(self) -> None:
        sqlite, postgres = "DROP TRIGGER no_more", "ALTER TABLE ledger_leaves DROP CONSTRAINT no_more"
        self.platform.database.write(lambda work: work.execute(text(sqlite if self.is_sqlite(work) else postgres)) and None)

    def is_sqlite(self, work: UnitOfWork) -> bool:
        return work.connection.dialect.name == "sqlite"


def settings_of(url: str) -> Settings:
    return Settings(database=DatabaseSettings(url=url))


@pytest.fixture(scope="session")
def sqlite_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a platform that was started once, to be copied: its first start takes longer than most tests."""
    home = Home(path=tmp_path_factory.mktemp("started") / "home")
    with open_platform(home, settings_of(""), clock=MovableClock()):
        return home.path


@pytest.fixture(scope="session")
def postgres_home(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> tuple[Path, str]:
    """The same on Postgres, with the name of its database."""
    home, url = Home(path=tmp_path_factory.mktemp("started") / "home"), postgres_server.create_database()
    with open_platform(home, settings_of(url), clock=MovableClock()):
        return home.path, postgres_server.name_of(url)


@pytest.fixture(params=["sqlite", "postgres"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    url = ""
    if request.param == "sqlite":
        model = request.getfixturevalue("sqlite_home")
    else:
        model, database = request.getfixturevalue("postgres_home")
        server = request.getfixturevalue("postgres_server")
        url = server.create_database(template=database)
    home = Home(path=tmp_path / "home")
    shutil.copytree(model, home.path)
    shutil.copytree(Home(path=model).keys, home.keys)
    service, clock = NoteService(), MovableClock()
    with open_platform(home, settings_of(url), clock=clock, bindings=service.bindings()) as platform:
        yield Bench(platform, service, clock)
    if url:
        server.drop_database(url)
