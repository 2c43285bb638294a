"""A house with everything in governance but the ledger: real databases, real keys, calls that go through the gate."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from falaj.base.clock import Moment
from falaj.base.ids import ProjectId
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, value
from falaj.database.binding import Bound, bind
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.bootstrap import FirstZone, bootstrap, owner_token
from falaj.governance.gate import Gatekeeper
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.identity.accounts import ServiceAccounts
from falaj.governance.identity.members import MemberService
from falaj.governance.identity.people import UserService
from falaj.governance.identity.tokens import TokenService
from falaj.governance.operations import OPERATIONS
from falaj.governance.passes import Passes
from falaj.governance.policies.service import PolicyService
from falaj.governance.profiles import PROFILES
from falaj.governance.projects import operations as projects
from falaj.governance.projects.service import ProjectService
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as sessions
from falaj.governance.sessions.oidc import OidcProvider
from falaj.governance.sessions.service import SessionService
from falaj.governance.zones import operations as zones
from falaj.governance.zones.service import ZoneService
from falaj.keys.file import FileKeyRing
from falaj.keys.ring import project_key
from falaj.keys.signing import SigningKeys
from tests.servers.tables import make_sqlite_tables

Req = TypeVar("Req")
Res = TypeVar("Res")
START = Moment.parse("2026-11-15T09:00:00Z")


@value
class Touch(Message):
    """Stands for any call on a project's things; `zone` is where it would write."""

    project: Name
    zone: str = ""


@value
class Touched(Message):
    project: str


def _touching(group: Group) -> Operation[Touch, Touched]:
    return Operation(
        name=f"sample.{group}",
        summary="Touch something.",
        method="POST",
        path=f"projects/{{project}}/samples/{group}",
        request=Touch,
        result=Touched,
        permission=Permission(name=f"sample.{group}", group=group),
        scope=Scope.PROJECT,
        record=Record.CHANGE,
    )


ROLE_GROUPS = tuple(group for group in Group if group not in (Group.PUBLIC, Group.SELF))
SAMPLES = {group: _touching(group) for group in ROLE_GROUPS}


class HandClock:
    def __init__(self) -> None:
        self.moment = START

    def now(self) -> Moment:
        return self.moment

    def forward(self, by: int) -> None:
        self.moment = Moment(self.moment + by)


class RingKeys:
    def __init__(self, ring: FileKeyRing) -> None:
        self._ring = ring

    def create(self, project: ProjectId) -> int:
        return self._ring.create(project_key(project))


class House:
    """Calls go the dispatcher's way: admitted on a snapshot, prepared outside, admitted again in the transaction."""

    def __init__(
        self, database: Database, ring: FileKeyRing, clock: HandClock, profile: str, oidc: OidcProvider | None
    ) -> None:
        self.database, self.clock, self.ring = database, clock, ring
        self.profile = PROFILES[profile]
        self.passes = Passes(issuer="https://falaj.test", keys=SigningKeys(ring))
        self.operations = (*OPERATIONS, *SAMPLES.values())
        self.gate = Gatekeeper(operations=self.operations, profile=self.profile, passes=self.passes)
        self.held: set[tuple[str, str]] = set()
        self.sessions = SessionService(database=database, gate=self.gate, profile=self.profile, clock=clock, provider=oidc)
        services = (
            UserService(),
            TokenService(gate=self.gate, profile=self.profile, passes=self.passes),
            ServiceAccounts(gate=self.gate, profile=self.profile),
            MemberService(),
            self.sessions,
            ProjectService(keys=RingKeys(ring), holdings=self),
            ZoneService(storages=("local", "far")),
            PolicyService(gate=self.gate),
        )
        self.bound: dict[str, Bound] = {bound.operation.name: bound for service in services for bound in service.bindings()}
        for sample in SAMPLES.values():
            self.bound[sample.name] = bind(sample, lambda context, request: Touched(project=request.project))
        self.owner = database.write(self._start)

    def _start(self, work: UnitOfWork) -> str:
        """The owner's token on the first start, nothing afterwards."""
        zone, now = FirstZone(name="home", country="AE", storage="local", jurisdictions=("uae",)), self.clock.now()
        if not bootstrap(work, keys=RingKeys(self.ring), passes=self.passes, zone=zone, now=now):
            return ""
        return owner_token(work, profile=self.profile, zone=zone.name, now=now)

    def holds(self, _work: UnitOfWork, project: ProjectId, zone: str) -> bool:
        return (project, zone) in self.held

    def call(self, token: str | None, operation: Operation[Req, Res], request: Req) -> Res:
        bound = self.bound[operation.name]
        facts: dict[str, Any] = {}

        def admitted(work: UnitOfWork) -> Context:
            now = self.clock.now()
            who = self.gate.authenticate(work, token, now)
            grant = self.gate.authorise(work, who, operation, request)
            return Context(work=work, identity=who, project=grant.project, now=now, request_id="r", facts=facts)

        context = self.database.read(admitted)
        prepared = () if bound.prepare is None else (bound.prepare(context, request),)
        if operation.record is Record.PLAIN_READ:
            return self.database.read(lambda work: bound.handle(admitted(work), request, *prepared))  # type: ignore[no-any-return]
        return self.database.write(lambda work: bound.handle(admitted(work), request, *prepared))  # type: ignore[no-any-return]

    def generation(self) -> int:
        return self.database.read(self.gate.generation)

    # What tests do over and over

    def user(self, name: str, *roles: tuple[str, Role], zone: str = "") -> str:
        """A person with these roles (project or "platform"), and a token of theirs."""
        invited = self.call(self.owner, identity.CREATE_USER, identity.CreateUser(name=name, zone=zone))
        for scope, role in roles:
            self.give(name, scope, role)
        session = self.call(None, sessions.OPEN_SESSION, sessions.OpenSession(code=invited.code))
        return session.token

    def give(self, name: str, scope: str, role: Role) -> None:
        if scope == "platform":
            self.call(self.owner, members.ADD_PLATFORM_MEMBER, members.PlatformMember(member=name, role=role))
        else:
            self.call(self.owner, members.ADD_MEMBER, members.AddMember(project=scope, member=name, role=role))

    def project(self, name: str, *in_zones: str) -> str:
        request = projects.CreateProject(name=name, zones=in_zones or ("home",))
        return self.call(self.owner, projects.CREATE_PROJECT, request).id

    def zone(self, name: str, country: str = "DE") -> None:
        self.call(self.owner, zones.CREATE_ZONE, zones.CreateZone(name=name, country=country, jurisdictions=("gdpr",)))

    def token(self, by: str, **wish: Any) -> str:
        return self.call(by, identity.CREATE_TOKEN, identity.CreateToken(**wish)).token

    def touch(self, token: str | None, group: Group, project: str, zone: str = "") -> Touched:
        return self.call(token, SAMPLES[group], Touch(project=project, zone=zone))


class Houses:
    """Opens houses on fresh SQLite files or on one Postgres database."""

    def __init__(self, folder: Path, postgres: str | None) -> None:
        self._folder, self._postgres = folder, postgres
        self._numbers = itertools.count()
        self._open: list[Database] = []

    def open(self, profile: str = "team", *, oidc: OidcProvider | None = None, again: House | None = None) -> House:
        """`again`: another control plane over the same database."""
        if again is not None:
            same = again.database if self._postgres is None else PostgresDatabase(self._postgres)
            self._open.append(same)
            return House(same, again.ring, again.clock, again.profile.name, oidc)
        home = self._folder / str(next(self._numbers))
        home.mkdir()
        clock = HandClock()
        if self._postgres is None:
            make_sqlite_tables(home / "falaj.db")
            database: Database = SqliteDatabase(home / "falaj.db")
        else:
            database = PostgresDatabase(self._postgres)
        ring = FileKeyRing.open_or_create(home / "keys", escrow=home / "escrow.json", clock=clock, home_exists=False)
        self._open.append(database)
        return House(database, ring, clock, profile, oidc)

    def close(self) -> None:
        for database in {id(one): one for one in self._open}.values():
            database.close()


@pytest.fixture(params=["sqlite", "postgres"])
def houses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Houses]:
    postgres = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    opened = Houses(tmp_path, postgres)
    yield opened
    opened.close()


@pytest.fixture
def house(houses: Houses) -> House:
    return houses.open()


@pytest.fixture
def small_house(tmp_path: Path) -> Iterator[House]:
    """On SQLite alone, for what does not depend on the database."""
    opened = Houses(tmp_path, None)
    yield opened.open()
    opened.close()
