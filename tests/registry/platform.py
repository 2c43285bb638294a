"""A small platform for the tests of the registry: real gate, dispatcher, ledger, blobs and keys, and runs that are made up."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Executable

from falaj.base.clock import Moment
from falaj.base.errors import NotFound
from falaj.base.ids import ProjectId, new_id
from falaj.base.operation import Operation
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
from falaj.governance.ledger.copies import HeadCopies
from falaj.governance.ledger.key_checks import PURPOSE as LEDGER
from falaj.governance.ledger.sequencing import Sequencer
from falaj.governance.operations import OPERATIONS as GOVERNANCE
from falaj.governance.passes import Passes
from falaj.governance.policies import operations as policies
from falaj.governance.policies.service import PolicyService
from falaj.governance.profiles import PROFILES
from falaj.governance.projects import operations as projects
from falaj.governance.projects.service import ProjectService
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as sessions
from falaj.governance.sessions.service import SessionService
from falaj.governance.zones.residency import ProjectZones
from falaj.governance.zones.service import ZoneService
from falaj.keys.file import FileKeyRing
from falaj.keys.ring import project_key
from falaj.keys.signing import SigningKeys
from falaj.operations.dispatcher import Call, Dispatcher
from falaj.registry.operations import OPERATIONS, models, promotions, versions
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.room import Registry
from falaj.registry.sources import RunFacts, SourceFile
from falaj.storage.folder import FolderBlobs
from falaj.storage.operations import OPERATIONS as STORAGE
from falaj.storage.service import BlobService, Owner
from tests.servers.tables import make_sqlite_tables

Req = TypeVar("Req")
Res = TypeVar("Res")
START = Moment.parse("2026-11-15T09:00:00Z")
MODELS = Path(__file__).parent / "models"
PROJECT = "default"


class TickingClock:
    """Every look at it is a microsecond later, so that no two things happen at once."""

    def __init__(self) -> None:
        self.moment = START
        self._ticks = itertools.count()

    def now(self) -> Moment:
        return Moment(self.moment + next(self._ticks))

    def forward(self, by: int) -> None:
        self.moment = Moment(self.moment + by)


class Shelf:
    """Files of made-up runs and logged models, kept as sealed blobs, as tracking would."""

    def __init__(self, blobs: BlobService) -> None:
        self._blobs = blobs
        self.holders: dict[tuple[str, str], dict[str, SourceFile]] = {}
        self.runs: dict[tuple[str, str], RunFacts] = {}
        self.logged_by: dict[str, str] = {}  # the run of a logged model

    def files(self, context: Context, holder: str, folder: str) -> tuple[SourceFile, ...]:
        found = self.holders.get((context.required_project.id, holder))
        if found is None:
            raise NotFound(f"There is no run or logged model {holder} here.")
        start = f"{folder}/" if folder else ""
        return tuple(
            SourceFile(name=name.removeprefix(start), blob=file.blob, size=file.size, digest=file.digest)
            for name, file in sorted(found.items())
            if name.startswith(start)
        )

    def run(self, context: Context, run: str) -> RunFacts | None:
        return self.runs.get((context.required_project.id, run))

    def run_of(self, context: Context, model: str) -> str:
        return self.logged_by.get(model, "")

    def replay_of(self, context: Context) -> str:
        return ""

    def authors(self, context: Context) -> tuple[str, ...]:
        return ()

    def put(self, context: Context, holder: str, received: Mapping[str, Any]) -> None:
        for name, bytes_in in received.items():
            blob = self._blobs.keep(context, bytes_in, Owner(kind="artifact", id=f"{holder}-{name}"[:100]))
            files = self.holders.setdefault((context.required_project.id, holder), {})
            files[name] = SourceFile(name=name, blob=blob.id, size=blob.size, digest=blob.digest)

    def drop(self, context: Context, holder: str) -> None:
        for name in self.holders.pop((context.required_project.id, holder)):
            self._blobs.release(context, Owner(kind="artifact", id=f"{holder}-{name}"[:100]))


class _RingKeys:
    def __init__(self, ring: FileKeyRing) -> None:
        self._ring = ring

    def create(self, project: ProjectId) -> None:
        self._ring.create(project_key(project))


class _Holdings:
    def holds(self, _work: UnitOfWork, _project: ProjectId, _zone: str) -> bool:
        return False


class Platform:
    def __init__(self, folder: Path, postgres_url: str | None, profile: str = "solo") -> None:
        self.folder, self.clock, self.profile = folder, TickingClock(), PROFILES[profile]
        file = folder / "falaj.db"
        if postgres_url is None:
            make_sqlite_tables(file)
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(file)
        ring = FileKeyRing.open_or_create(folder / "keys", escrow=folder / "escrow.json", clock=self.clock, home_exists=False)
        self.ring, signing = ring, SigningKeys(ring)
        self.database.write(lambda work: signing.prepare(work, LEDGER, self.clock.now()))
        passes = Passes(issuer="falaj", keys=signing)
        self.gate = Gatekeeper(operations=(*GOVERNANCE, *STORAGE, *OPERATIONS), profile=self.profile, passes=passes)
        self.stored = FolderBlobs(folder / "blobs")
        self.blobs = BlobService({"local": self.stored}, ring, self.clock, ProjectZones())
        self.shelf = Shelf(self.blobs)
        self.signers = ProjectSigners(ring)
        services = (
            UserService(),
            TokenService(gate=self.gate, profile=self.profile, passes=passes),
            ServiceAccounts(gate=self.gate, profile=self.profile),
            MemberService(),
            SessionService(database=self.database, gate=self.gate, profile=self.profile, clock=self.clock, provider=None),
            ProjectService(keys=_RingKeys(ring), holdings=_Holdings()),
            ZoneService(storages=("local",)),
            PolicyService(gate=self.gate),
            self.blobs,
            self.registry(),
        )
        bound = [bound for service in services for bound in service.bindings()]
        self.dispatcher = Dispatcher(database=self.database, gate=self.gate, clock=self.clock, bindings=bound)
        copies = HeadCopies([folder])
        self.sequencer = Sequencer(self.database, lambda work: signing.current(work, LEDGER), copies, self.clock)
        self.owner = self.database.write(lambda work: self._start(work, passes))

    def _start(self, work: UnitOfWork, passes: Passes) -> str:
        zone = FirstZone(name="home", country="AE", storage="local")
        bootstrap(work, keys=_RingKeys(self.ring), passes=passes, zone=zone, now=self.clock.now())
        return owner_token(work, profile=self.profile, zone=zone.name, now=self.clock.now())

    def registry(self) -> Registry:
        return Registry(database=self.database, blobs=self.blobs, sources=self.shelf, signers=self.signers, gate=self.gate)

    # Calling

    def call(self, operation: Operation[Req, Res], request: Req, token: str | None = "") -> Res:
        credentials = self.owner if token == "" else token
        call = Call(credentials=credentials, request_id=new_id(self.clock.now()))
        return self.dispatcher.call(operation, request, call)

    def change(self, *statements: Executable) -> None:
        """Behind the platform's back."""

        def run(work: UnitOfWork) -> None:
            for statement in statements:
                work.execute(statement)

        self.database.write(run)

    def sequence(self) -> None:
        while self.sequencer.step().more:
            pass

    def person(self, name: str, *roles: Role, project: str = PROJECT) -> str:
        """Somebody with these roles; a token of theirs."""
        zone = "home" if self.profile.zone_required else ""
        invited = self.call(identity.CREATE_USER, identity.CreateUser(name=name, zone=zone))
        for role in roles:
            self.join(name, role, project)
        return self.call(sessions.OPEN_SESSION, sessions.OpenSession(code=invited.code), None).token

    def join(self, name: str, role: Role, project: str) -> None:
        self.call(members.ADD_MEMBER, members.AddMember(project=project, member=name, role=role))

    def project(self, name: str) -> None:
        self.call(projects.CREATE_PROJECT, projects.CreateProject(name=name, zones=("home",)))

    def policy(self, text: str, name: str = "added", project: str = PROJECT) -> None:
        self.call(policies.PUT_POLICY, policies.PutPolicy(project=project, policy=name, text=text))

    # Runs and their files

    def context(self, work: UnitOfWork, project: str = PROJECT) -> Context:
        who = self.gate.authenticate(work, self.owner, self.clock.now())
        grant = self.gate.authorise(work, who, models.SHOW_MODEL, models.OneModel(project=project, model="any"))
        now = self.clock.now()
        return Context(work=work, identity=who, project=grant.project, now=now, request_id="r", facts={})

    def put(self, files: Mapping[str, bytes], holder: str = "", project: str = PROJECT) -> str:
        """Files of a run, of a new one where none is named; a logged model's id makes it that."""
        holder = holder or new_id(self.clock.now())
        facts = self.database.read(lambda work: self.context(work, project)).required_project
        received = {name: self.blobs.receive(facts, "", iter([content])) for name, content in files.items()}
        self.database.write(lambda work: self.shelf.put(self.context(work, project), holder, received))
        if not holder.startswith("m-"):
            self.shelf.runs.setdefault((facts.id, holder), RunFacts(params={}, metrics={}))
        return holder

    def forget_files(self, holder: str) -> None:
        self.database.write(lambda work: self.shelf.drop(self.context(work), holder))

    # What tests do over and over

    def model(self, name: str = "fraud", project: str = PROJECT) -> models.Model:
        return self.call(models.CREATE_MODEL, models.CreateModel(project=project, model=name))

    def register(
        self, content: bytes = b"", name: str = "fraud", *, files: Mapping[str, bytes] | None = None, **fields: Any
    ) -> versions.Version:
        """A version with one file, or with these."""
        content = content or new_id(self.clock.now()).encode()
        holder = self.put(files if files is not None else {"model/weights.bin": content})
        request = versions.CreateVersion(project=PROJECT, model=name, holder=holder, folder="model", **fields)
        return self.call(versions.CREATE_VERSION, request)

    def show(self, number: int, name: str = "fraud", token: str = "") -> versions.Version:
        return self.call(versions.SHOW_VERSION, self.one(number, name), token)

    def one(self, number: int, name: str = "fraud") -> versions.OneVersion:
        return versions.OneVersion(project=PROJECT, model=name, version=number)

    def promote(
        self, number: int, token: str = "", alias: str = "champion", name: str = "fraud", reason: str = ""
    ) -> promotions.Promotion:
        request = promotions.Promote(project=PROJECT, model=name, alias=alias, version=number, reason=reason)
        return self.call(promotions.PROMOTE, request, token)

    def rollback(self, token: str = "", alias: str = "champion", name: str = "fraud") -> promotions.Promotion:
        return self.call(promotions.ROLLBACK, promotions.Rollback(project=PROJECT, model=name, alias=alias), token)

    def remove(self, alias: str = "champion", token: str = "", name: str = "fraud") -> promotions.Promotion:
        return self.call(promotions.REMOVE_ALIAS, promotions.RemoveAlias(project=PROJECT, model=name, alias=alias), token)

    def resolve(self, alias: str = "champion", token: str = "") -> int:
        request = promotions.Resolve(project=PROJECT, model="fraud", alias=alias)
        return self.call(promotions.RESOLVE, request, token).version

    def history(self, alias: str = "", name: str = "fraud") -> list[promotions.Move]:
        """Oldest first."""
        request = promotions.ReadMoves(project=PROJECT, model=name, alias=alias)
        return list(reversed(self.call(promotions.HISTORY, request).items))

    def as_of(self, at: Moment, alias: str = "champion", name: str = "fraud") -> promotions.ModelAsOf:
        request = promotions.ReadModelAsOf(project=PROJECT, model=name, alias=alias, at=at)
        return self.call(promotions.MODEL_AS_OF, request)

    def approve(self, approval: str, token: str, project: str = PROJECT) -> promotions.Approval:
        return self.call(promotions.GIVE_APPROVAL, promotions.GiveApproval(project=project, approval=approval), token)

    def approval(self, approval: str) -> promotions.Approval:
        return self.call(promotions.SHOW_APPROVAL, promotions.OneApproval(project=PROJECT, approval=approval))

    def read_file(self, name: str, number: int = 1, token: str = "", offset: int = 0, length: int = 0) -> bytes:
        request = versions.GetVersionFile(
            project=PROJECT, model="fraud", version=number, name=name, offset=offset, length=length
        )
        return b"".join(self.call(versions.GET_VERSION_FILE, request, token).chunks)
