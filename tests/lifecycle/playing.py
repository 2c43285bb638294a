"""A whole platform in this process whose loops are turned by hand, and pipelines on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from falaj.app.home import Home
from falaj.app.platform import Platform
from falaj.base.ids import new_id
from falaj.base.operation import Operation
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.ledger import store as ledger
from falaj.governance.ledger.leaves import Leaf, decode
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as sessions
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.lifecycle.operations.words import Definition, Parameter, Step
from falaj.operations.dispatcher import Call
from tests.operations.conftest import MovableClock

Req = TypeVar("Req")
Res = TypeVar("Res")
PROJECT = "default"
MOST_TURNS = 400


def ref(way: str) -> dict[str, str]:
    return {"$": way}


def op(mark: str, *of: Any) -> dict[str, Any]:
    return {"$": mark, "of": list(of)}


def keep(name: str, given: Any, **fields: Any) -> Step:
    """A step that hands on what it is given."""
    return Step(name=name, kind="value", arguments={"value": given}, **fields)


def call(name: str, operation: str, **fields: Any) -> Step:
    return Step(name=name, kind="operation", operation=operation, **fields)


class Stage:
    def __init__(self, platform: Platform, clock: MovableClock) -> None:
        self.platform, self.clock = platform, clock
        self.owner = platform.owner_token()

    def call(self, operation: Operation[Req, Res], request: Req, token: str = "", key: str = "") -> Res:
        asked = Call(credentials=token or self.owner, request_id=new_id(self.clock.now()), idempotency_key=key)
        return self.platform.dispatcher.call(operation, request, asked)

    def apply(
        self,
        *steps: Step,
        name: str = "nightly",
        project: str = PROJECT,
        parameters: tuple[Parameter, ...] = (),
        **fields: Any,
    ) -> None:
        definition = Definition(steps=steps, parameters=parameters, **fields)
        self.call(declared.APPLY_PIPELINE, declared.Apply(project=project, pipeline=name, definition=definition))

    def start(self, name: str = "nightly", token: str = "", project: str = PROJECT, **fields: Any) -> str:
        request = declared.StartRun(project=project, pipeline=name, **fields)
        return self.call(declared.START_RUN, request, token).id

    def show(self, run: str) -> PipelineRun:
        return self.call(declared.SHOW_RUN, declared.OneRun(project=PROJECT, run=run))

    def turn(self) -> None:
        self.platform.lifecycle.step()

    def until(self, run: str, true: Callable[[PipelineRun], object] = lambda run: run.state != "running") -> PipelineRun:
        for _ in range(MOST_TURNS):
            self.turn()
            if true(shown := self.show(run)):
                return shown
        raise AssertionError(f"it did not come to that: {self.show(run)}")

    def play(self, *steps: Step, token: str = "", **fields: Any) -> PipelineRun:
        parameters = fields.pop("parameters", ())
        self.apply(*steps, parameters=parameters, result=fields.pop("result", None))
        return self.until(self.start(token=token, **fields))

    def leaves(self, operation: str) -> list[Leaf]:
        def read(work: Any) -> list[Leaf]:
            rows = work.execute(ledger.leaves.select().order_by(ledger.leaves.c.id)).all()
            return [leaf for leaf in (decode(row.record) for row in rows) if leaf.operation == operation]

        return self.platform.database.read(read)

    def person(self, name: str, *roles: Role) -> str:
        invited = self.call(identity.CREATE_USER, identity.CreateUser(name=name))
        for role in roles:
            self.call(members.ADD_MEMBER, members.AddMember(project=PROJECT, member=name, role=role))
        return self.call(sessions.OPEN_SESSION, sessions.OpenSession(code=invited.code)).token


def state_of(run: PipelineRun, step: str, item: int = -1) -> str:
    return next(one.state for one in run.steps if (one.name, one.item) == (step, item))


def result_of(run: PipelineRun, step: str, item: int = -1) -> Any:
    return next(one.result for one in run.steps if (one.name, one.item) == (step, item))


def home_in(folder: Path) -> Home:
    return Home(path=folder / "home")
