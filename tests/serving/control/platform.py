"""The whole platform without its server, under a clock that tests turn: what is deployed, reported and decided is real."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from falaj.app.home import Home
from falaj.app.platform import open_platform
from falaj.app.settings import DatabaseSettings, PlatformSettings, Settings
from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.base.operation import Operation
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.ledger.operations import LOG, Entry, ReadLog
from falaj.governance.policies import operations as policies
from falaj.governance.projects import operations as projects
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as sessions
from falaj.governance.zones.operations import CREATE_ZONE, CreateZone
from falaj.operations.dispatcher import Call
from falaj.registry.operations import models, promotions, versions
from falaj.serving.operations import endpoints, keys, planes
from falaj.serving.operations.words import Arm
from falaj.serving.states import State, decode
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, CreateExperiment
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.registry.platform import MODELS, TickingClock

Req = TypeVar("Req")
Res = TypeVar("Res")
PROJECT = "default"
ZONE = "home"
ONNX = (MODELS / "model.onnx").read_bytes()
MLMODEL = (MODELS / "onnx.MLmodel").read_bytes()


class Platform:
    """`owner` may do everything in the project `default`, which stands in the zone `home`. `sections` are further settings."""

    def __init__(self, folder: Path, postgres_url: str = "", profile: Any = "solo", **sections: Any) -> None:
        self.clock = TickingClock()
        self._stack = ExitStack()
        place, database = PlatformSettings(profile=profile, zone=ZONE), DatabaseSettings(url=postgres_url)
        settings = Settings(platform=place, database=database, **sections)
        opened = open_platform(Home(path=folder / "home"), settings, clock=self.clock, url="http://127.0.0.1:8400")
        self.app = self._stack.enter_context(opened)
        self.owner = self.app.owner_token()
        self._experiments: dict[str, int] = {}

    def close(self) -> None:
        self._stack.close()

    # Calling

    def call(self, operation: Operation[Req, Res], request: Req, token: str | None = "", data: bytes | None = None) -> Res:
        credentials = self.owner if token == "" else token
        chunks = None if data is None else iter((data,))
        call = Call(credentials=credentials, request_id=new_id(self.clock.now()), chunks=chunks)
        return self.app.dispatcher.call(operation, request, call)

    def person(self, name: str, *roles: Role, project: str = PROJECT) -> str:
        """Somebody with these roles; a token of theirs."""
        zone = ZONE if self.app.profile.zone_required else ""
        invited = self.call(identity.CREATE_USER, identity.CreateUser(name=name, zone=zone))
        for role in roles:
            self.call(members.ADD_MEMBER, members.AddMember(project=project, member=name, role=role))
        return self.call(sessions.OPEN_SESSION, sessions.OpenSession(code=invited.code), None).token

    def project(self, name: str, *zones: str) -> None:
        for zone in zones:
            if zone != ZONE:
                self.call(CREATE_ZONE, CreateZone(name=zone, country="DE", storage="local"))
        self.call(projects.CREATE_PROJECT, projects.CreateProject(name=name, zones=zones or (ZONE,)))

    def policy(self, text: str, name: str = "added") -> None:
        self.call(policies.PUT_POLICY, policies.PutPolicy(project=PROJECT, policy=name, text=text))

    def leaves(self, operation: str) -> list[Entry]:
        """Newest first."""
        self.app.sequencer.step(close_all_windows=True)
        return list(self.call(LOG, ReadLog(operation=operation)).items)

    def step(self) -> None:
        """One round of what the platform does by itself."""
        self.app.serving.step(self.clock.now())

    # Models

    def register(
        self, model: str = "fraud", *, files: Mapping[str, bytes] | None = None, project: str = PROJECT
    ) -> versions.Version:
        """A version that can be served, or one of these files."""
        if project not in self._experiments:
            made = self.call(CREATE_EXPERIMENT, CreateExperiment(project=project, name="training"))
            self._experiments[project] = made.id
        run = self.call(CREATE_RUN, CreateRun(project=project, experiment=self._experiments[project])).info.id
        for name, content in (files or {"model.onnx": ONNX, "MLmodel": MLMODEL}).items():
            self.call(PUT_ARTIFACT, PutArtifact(project=project, holder=run, name=f"model/{name}"), data=content)
        known = self.call(models.SEARCH_MODELS, models.SearchModels(project=project)).items
        if model not in {one.name for one in known}:
            self.call(models.CREATE_MODEL, models.CreateModel(project=project, model=model))
        request = versions.CreateVersion(project=project, model=model, holder=run, folder="model")
        return self.call(versions.CREATE_VERSION, request)

    def promote_model(self, number: int, token: str = "", alias: str = "champion") -> promotions.Promotion:
        request = promotions.Promote(project=PROJECT, model="fraud", alias=alias, version=number)
        return self.call(promotions.PROMOTE, request, token)

    # Endpoints

    def deploy(self, version: int = 0, name: str = "scores", token: str = "", **fields: Any) -> endpoints.Deployment:
        fields = {"project": PROJECT, "model": "fraud"} | fields
        return self.call(endpoints.DEPLOY_REVISION, endpoints.Deploy(endpoint=name, version=version, **fields), token)

    def deployed(self, count: int = 1, name: str = "scores") -> endpoints.Endpoint:
        """An endpoint that had so many revisions, one after the other."""
        for _ in range(count):
            self.deploy(self.register().version, name)
        return self.show(name)

    def show(self, name: str = "scores", token: str = "", project: str = PROJECT) -> endpoints.Endpoint:
        return self.call(endpoints.SHOW_ENDPOINT, endpoints.OneEndpoint(project=project, endpoint=name), token)

    def split(self, *arms: Arm, name: str = "scores", token: str = "") -> endpoints.Endpoint:
        return self.call(endpoints.SPLIT_TRAFFIC, endpoints.Split(project=PROJECT, endpoint=name, arms=arms), token)

    def promote(self, revision: int = 0, name: str = "scores", token: str = "") -> endpoints.Endpoint:
        request = endpoints.PromoteRevision(project=PROJECT, endpoint=name, revision=revision)
        return self.call(endpoints.PROMOTE_REVISION, request, token)

    def roll_back(self, name: str = "scores", token: str = "", reason: str = "") -> endpoints.Endpoint:
        request = endpoints.RollBack(project=PROJECT, endpoint=name, reason=reason)
        return self.call(endpoints.ROLL_BACK, request, token)

    def history(self, name: str = "scores") -> list[endpoints.Change]:
        """Oldest first."""
        found = self.call(endpoints.READ_CHANGES, endpoints.ReadChanges(project=PROJECT, endpoint=name))
        return list(reversed(found.items))

    # Planes

    def plane(self, name: str = "first", zone: str = ZONE) -> "Plane":
        return Plane(self, self.call(planes.CREATE_PLANE, planes.CreatePlane(plane=name, zone=zone)))

    def key(self, token: str = "", **fields: Any) -> keys.NewEndpointKey:
        given: dict[str, Any] = {"project": PROJECT, "label": "a program", "days": 7} | fields
        request = keys.CreateKey(**given)
        return self.call(keys.CREATE_KEY, request, token)


class Plane:
    """A plane as the platform sees it: it asks, and it reports what tests say."""

    def __init__(self, platform: Platform, made: planes.NewPlane) -> None:
        self.platform, self.made, self.token = platform, made, made.token
        self.run, self.number = new_id(platform.clock.now()), 0

    def signed(self, after: int = 0) -> planes.SignedState:
        return self.platform.call(planes.READ_STATE, planes.ReadState(after=after), self.token)

    def state(self) -> State:
        return decode(self.signed().body.encode())

    def fetch(self, revision: str, file: str) -> bytes:
        request = planes.FetchFile(revision=revision, file=file)
        return b"".join(self.platform.call(planes.FETCH_FILE, request, self.token).chunks)

    def report(
        self,
        *revisions: planes.RevisionReport,
        calls: Sequence[planes.CallReport] = (),
        serial: int | None = None,
        **fields: Any,
    ) -> planes.Report:
        """A report as sent, so that it can be sent again."""
        self.number += 1
        report = planes.Report(
            run=self.run,
            number=self.number,
            url="http://127.0.0.1:8500",
            version="1",
            workers=2,
            serial=self.signed().serial if serial is None else serial,
            seconds=5.0,
            revisions=revisions,
            calls=tuple(calls),
        )
        report = replace(report, **fields)
        self.platform.call(planes.SEND_REPORT, report, self.token)
        return report

    def did(self, endpoint: endpoints.Endpoint, revision: int, requests: int = 0, errors: int = 0, **fields: Any) -> None:
        self.report(said(endpoint, revision, requests=requests, errors=errors, **fields))


def said(endpoint: endpoints.Endpoint, revision: int, **fields: Any) -> planes.RevisionReport:
    given: dict[str, Any] = {"ready": True} | fields
    return planes.RevisionReport(endpoint=endpoint.id, revision=revision, **given)


def called(endpoint: endpoints.Endpoint, id: str, at: Moment, **fields: Any) -> planes.CallReport:
    given: dict[str, Any] = {
        "revision": 1,
        "caller": "somebody",
        "status": "ok",
        "ms": 1.5,
        "inputs": '{"a": 1}',
        "outputs": "[0.5]",
    }
    return planes.CallReport(endpoint=endpoint.id, id=id, at=at, **(given | fields))


def live(revision: int, share: int = 10_000) -> Arm:
    return Arm(revision=revision, share=share)
