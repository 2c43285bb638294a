"""Two projects with people in them, who call through a real dispatcher and gate; what they talk about is made up here."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from falaj.base.clock import DAY, Moment
from falaj.base.ids import ProjectId, new_id
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Nothing, value
from falaj.collaboration.operations import OPERATIONS, activity, comments, links, notices, owners, reviews
from falaj.collaboration.service import CollaborationService
from falaj.database.binding import bind
from falaj.database.postgres import PostgresDatabase
from falaj.database.sqlite import SqliteDatabase
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.bootstrap import FirstZone, bootstrap, owner_token
from falaj.governance.gate import Gatekeeper
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.identity.members import MemberService
from falaj.governance.identity.minting import Bounds, mint
from falaj.governance.identity.people import UserService
from falaj.governance.identity.store import add_membership, add_principal, principal_named
from falaj.governance.ledger.leaves import Leaf
from falaj.governance.ledger.store import Wanted, list_leaves
from falaj.governance.operations import OPERATIONS as GOVERNANCE
from falaj.governance.passes import Passes
from falaj.governance.profiles import PROFILES
from falaj.governance.projects.store import add_project
from falaj.governance.roles import Role
from falaj.keys.file import FileKeyRing
from falaj.keys.signing import SigningKeys
from falaj.operations.dispatcher import Call, Dispatcher
from tests.servers.tables import make_sqlite_tables

T = TypeVar("T")
PEOPLE = (
    ("amal", Role.SCIENTIST, "alpha"),
    ("badr", Role.ENGINEER, "alpha"),
    ("dina", Role.ADMIN, "alpha"),
    ("omar", Role.VIEWER, "alpha"),
    ("mallory", Role.ADMIN, "beta"),
)
START = Moment.parse("2026-11-15T09:00:00Z")


@value
class TouchRun(Message):
    """Stands for whatever rooms above do to a run."""

    project: Name
    run: str


def _touching(name: str, summary: str, record: Record, group: Group) -> Operation[TouchRun, Nothing]:
    return Operation(
        name=name,
        summary=summary,
        method="POST",
        path=f"projects/{{project}}/samples/{name}",
        request=TouchRun,
        result=Nothing,
        permission=Permission(name=name, group=group),
        scope=Scope.PROJECT,
        record=record,
    )


TOUCH = _touching("sample.touch", "Touch a run; it does not mind.", Record.CHANGE, Group.WRITE)
PEEK = _touching("sample.peek", "Look into a run.", Record.SENSITIVE_READ, Group.READ)
PING = _touching("sample.ping", "Count a run.", Record.TELEMETRY, Group.WRITE)
SAMPLES = (TOUCH, PEEK, PING)


def run_id(name: str) -> str:
    return hashlib.md5(name.encode()).hexdigest()


class MadeUp:
    """Every project has what a test puts in it, and remembers what it was called."""

    def __init__(self) -> None:
        self.labels: dict[tuple[str, str, str], str] = {}

    def label(self, context: Context, kind: str, id: str) -> str | None:
        return self.labels.get((context.required_project.name, kind, id))


class HandClock:
    """Moves on a microsecond at each look, so that everything has a moment of its own."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> Moment:
        self.moment = Moment(self.moment + 1)
        return self.moment

    def forward(self, by: int) -> None:
        self.moment = Moment(self.moment + by)


class Person:
    """Somebody who calls."""

    def __init__(self, team: "Team", id: str, name: str, token: str) -> None:
        self.team, self.id, self.name, self.token = team, id, name, token

    def call(self, operation: Operation[Any, Any], request: Any) -> Any:
        call = Call(credentials=self.token, request_id=new_id(self.team.clock.now()))
        return self.team.dispatcher.call(operation, request, call)

    def touch(self, run: str, operation: Operation[Any, Any] = TOUCH, project: str = "alpha") -> None:
        self.call(operation, TouchRun(project=project, run=run))

    def comment(self, text: str, run: str, *, kind: str = "run", project: str = "alpha") -> comments.Comment:
        request = comments.AddComment(project=project, kind=kind, thing=run, text=text)  # type: ignore[arg-type]
        return self.call(comments.ADD_COMMENT, request)  # type: ignore[no-any-return]

    def thread(self, run: str, *, project: str = "alpha", **options: Any) -> comments.Comments:
        request = comments.ListComments(project=project, kind="run", thing=run, **options)
        return self.call(comments.LIST_COMMENTS, request)  # type: ignore[no-any-return]

    def edit(self, comment: str, text: str, *, project: str = "alpha") -> comments.Comment:
        request = comments.EditComment(project=project, comment=comment, text=text)
        return self.call(comments.EDIT_COMMENT, request)  # type: ignore[no-any-return]

    def delete(self, comment: str, *, project: str = "alpha") -> None:
        self.call(comments.DELETE_COMMENT, comments.OneComment(project=project, comment=comment))

    def remove(self, comment: str, *, project: str = "alpha") -> None:
        self.call(comments.REMOVE_COMMENT, comments.OneComment(project=project, comment=comment))

    def ask(self, whom: str, run: str, *, kind: str = "run", note: str = "", project: str = "alpha") -> reviews.Review:
        request = reviews.RequestReview(project=project, kind=kind, thing=run, whom=whom, note=note)  # type: ignore[arg-type]
        return self.call(reviews.REQUEST_REVIEW, request)  # type: ignore[no-any-return]

    def answer(self, review: str, verdict: str, note: str = "", *, project: str = "alpha") -> reviews.Review:
        request = reviews.AnswerReview(project=project, review=review, verdict=verdict, note=note)  # type: ignore[arg-type]
        return self.call(reviews.ANSWER_REVIEW, request)  # type: ignore[no-any-return]

    def withdraw(self, review: str, *, project: str = "alpha") -> reviews.Review:
        request = reviews.OneReview(project=project, review=review)
        return self.call(reviews.WITHDRAW_REVIEW, request)  # type: ignore[no-any-return]

    def asked(self, *, project: str = "alpha", **options: Any) -> reviews.Reviews:
        request = reviews.ListReviews(project=project, **options)
        return self.call(reviews.LIST_REVIEWS, request)  # type: ignore[no-any-return]

    def inbox(self, *, project: str = "alpha", **options: Any) -> notices.Notices:
        request = notices.ListNotices(project=project, **options)
        return self.call(notices.LIST_NOTICES, request)  # type: ignore[no-any-return]

    def mark_read(self, *ids: str, project: str = "alpha") -> int:
        return int(self.call(notices.MARK_READ, notices.MarkRead(project=project, notices=ids)).unread)

    def own(self, thing: str, owner: str, *, kind: str = "run", project: str = "alpha") -> owners.Ownership:
        request = owners.SetOwner(project=project, kind=kind, thing=thing, owner=owner)  # type: ignore[arg-type]
        return self.call(owners.SET_OWNER, request)  # type: ignore[no-any-return]

    def owned(self, *, project: str = "alpha", **options: Any) -> owners.Ownerships:
        return self.call(owners.LIST_OWNERS, owners.ListOwners(project=project, **options))  # type: ignore[no-any-return]

    def share(self, path: str, *, title: str = "", days: int = 0, project: str = "alpha") -> links.Link:
        request = links.CreateLink(project=project, path=path, title=title, days=days)
        return self.call(links.CREATE_LINK, request)  # type: ignore[no-any-return]

    def open(self, link: str, *, project: str = "alpha") -> links.Link:
        return self.call(links.OPEN_LINK, links.OneLink(project=project, link=link))  # type: ignore[no-any-return]

    def shared(self, *, project: str = "alpha", **options: Any) -> links.Links:
        return self.call(links.LIST_LINKS, links.ListLinks(project=project, **options))  # type: ignore[no-any-return]

    def revoke(self, link: str, *, project: str = "alpha") -> None:
        self.call(links.REVOKE_LINK, links.OneLink(project=project, link=link))

    def feed(self, *, project: str = "alpha", **options: Any) -> activity.Activity:
        request = activity.ListActivity(project=project, **options)
        return self.call(activity.LIST_ACTIVITY, request)  # type: ignore[no-any-return]


class Team:
    """Amal and badr work in alpha, dina administers it, omar looks on; mallory works in beta, and `owner` owns it all."""

    def __init__(self, folder: Path, postgres_url: str | None = None) -> None:
        file = folder / "falaj.db"
        if postgres_url is None:
            make_sqlite_tables(file)
        self.database: Database = PostgresDatabase(postgres_url) if postgres_url else SqliteDatabase(file)
        self.clock = HandClock()
        self._ring = FileKeyRing.open_or_create(
            folder / "keys", escrow=folder / "escrow.json", clock=self.clock, home_exists=False
        )
        self.things = MadeUp()
        self.dispatcher = self._dispatcher()
        self.owner, self.amal, self.badr, self.dina, self.omar, self.mallory = self.database.write(self._start)
        self.run = self.make("run", run_id("first"), "first")

    def _dispatcher(self) -> Dispatcher:
        profile, signing = PROFILES["team"], SigningKeys(self._ring)
        self._profile, self._passes = profile, Passes(issuer="falaj", keys=signing)
        operations = (*GOVERNANCE, *OPERATIONS, *SAMPLES)
        gate = Gatekeeper(operations=operations, profile=profile, passes=self._passes)
        services = (
            UserService(),
            MemberService(),
            CollaborationService(self.things, operations),
        )
        bound = [bound for service in services for bound in service.bindings()]
        bound += [bind(sample, lambda _context, _request: Nothing()) for sample in SAMPLES]
        return Dispatcher(database=self.database, gate=gate, clock=self.clock, bindings=bound)

    def _start(self, work: UnitOfWork) -> tuple[Person, ...]:
        """Straight into the database, and in one transaction: it happens before every test."""
        zone, now = FirstZone(name="home", country="AE", storage="local"), self.clock.now()
        bootstrap(work, keys=self, passes=self._passes, zone=zone, now=now)
        ids = {name: ProjectId(new_id(now)) for name in ("alpha", "beta")}
        for name, project in ids.items():
            add_project(work, id=project, name=name, description="", zones=(zone.name,), now=now)
        owner = principal_named(work, "owner")
        assert owner is not None
        add_membership(work, owner.id, ids["alpha"], Role.ADMIN, now=now)
        add_membership(work, owner.id, ids["beta"], Role.ADMIN, now=now)
        people = [Person(self, owner.id, "owner", owner_token(work, profile=self._profile, zone="home", now=now))]
        for name, role, where in PEOPLE:
            id = add_principal(work, kind="person", name=name, now=now)
            add_membership(work, id, ids[where], role, now=now)
            bounds = Bounds(scopes=frozenset(), projects=frozenset(), zone="", expires=Moment(now + 30 * DAY), reach=None)
            token = mint(work, principal=id, kind="api", label="", bounds=bounds, parent=None, now=now)
            people.append(Person(self, id, name, token.secret))
        return tuple(people)

    def create(self, project: ProjectId) -> None:
        """The key of the first project, which these tests have no use for."""

    # What tests do

    def leave(self, name: str, role: Role, *, project: str = "alpha") -> None:
        self.owner.call(members.REMOVE_MEMBER, members.RemoveMember(project=project, member=name, role=role))

    def erase(self, name: str) -> None:
        self.owner.call(identity.ERASE_USER, identity.OneUser(user=name))

    def make(self, kind: str, id: str, label: str, project: str = "alpha") -> str:
        self.things.labels[project, kind, id] = label
        return id

    def read(self, function: Callable[[UnitOfWork], T]) -> T:
        return self.database.read(function)

    def leaves(self, operation: str) -> list[Leaf]:
        """Oldest first."""

        def read(work: UnitOfWork) -> list[Leaf]:
            found = list_leaves(work, Wanted(operation=operation), newest_first=False, after=None, limit=1000)
            return [stored.readable() for stored in found]

        return self.read(read)
