"""Kill -9 where a step has done what cannot be taken back and nobody knows yet: a function that registered its version, rows
that are derived, and a promotion that others approve."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.datasets.operations.versions import LIST_VERSIONS, ListVersions
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.roles import Role
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from falaj.jobs.operations.jobs import LIST_ATTEMPTS, OneJob
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.registry.operations import models, promotions, versions
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.app.effects import World, come_back, verify_ledger
from tests.app.mortal import MortalPlatform
from tests.lifecycle.mortal import Story, forget_the_dead, lose
from tests.lifecycle.playing import PROJECT
from tests.lifecycle.test_kills import write
from tests.registry.platform import MODELS
from tests.servers.processes import free_ports

TRAINING = """
import falaj


@falaj.step(memory="512MiB", experiment="late")
def train() -> falaj.ModelVersion:
    import os
    import secrets
    import time

    from falaj.client.environments import client_of_environment
    from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact

    asked = PutArtifact(project="default", holder=os.environ["FALAJ_RUN"], name="model/mean.txt")
    with client_of_environment() as client:
        client.call(PUT_ARTIFACT, asked, chunks=[secrets.token_bytes(8)])
    made = falaj.register("late")
    time.sleep(5)
    return made


@falaj.pipeline
def training():
    return train()
"""
PROMOTING = """
import falaj


@falaj.pipeline(name="{tag}")
def promoting():
    return falaj.steps.promote(falaj.ModelVersion(model="{tag}", version=1))
"""
DERIVING = """
import falaj


@falaj.pipeline(name="{tag}")
def deriving():
    return falaj.steps.derive("{tag}-rows", "SELECT delay + 1 AS delay FROM flights", anew=True)
"""
POINTS = ("pipelines.deciding", "pipelines.operation-called")
pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1800)]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else ""


@pytest.fixture(params=["solo"])
def platform(
    request: pytest.FixtureRequest, database: str, tmp_path: Path, no_process_survives: None
) -> Iterator[MortalPlatform]:
    settings = {"FALAJ_PLATFORM_PROFILE": request.param} | ({"FALAJ_DATABASE_URL": database} if database else {})
    (port,) = free_ports(1)  # that it comes back on: jobs that outlive it ask there
    made = MortalPlatform(tmp_path / "home", arguments=["--port", str(port)], **settings)
    try:
        yield made.start()
    finally:
        made.close()


class Sent(Story):
    """A pipeline that the command line sends."""

    def send(self, folder: Path, flow: str) -> None:
        folder.mkdir()
        (folder / "flow.py").write_text(flow)
        sent = self.platform.falaj("pipeline", "run", str(folder / "flow.py"), "--project", PROJECT, "--detach", "--json")
        assert sent.returncode == 0, sent.stderr
        self.run = json.loads(sent.stdout)["id"]

    def act(self) -> PipelineRun:
        shown: PipelineRun = self.platform.call(declared.SHOW_RUN, declared.OneRun(project=PROJECT, run=self.run))
        return shown

    def check_end(self, run: PipelineRun) -> None:
        assert (run.state, run.words) == ("done", ""), run
        assert {one.attempt for one in run.steps} == {1}


class Training(Sent):
    """Its job dies as soon as its version is there, which it has told nobody."""

    is_lost = False

    def act(self) -> PipelineRun:
        shown = super().act()
        found = self.platform.call(versions.SEARCH_VERSIONS, versions.SearchVersions(project=PROJECT)).items
        if found and not self.is_lost:
            self.is_lost = lose(self.platform, PROJECT, shown.steps[0].job)
        return shown


def test_a_function_that_dies_after_it_registered_its_version_registers_no_other(
    platform: MortalPlatform, database: str, tmp_path: Path
) -> None:
    story = Training(platform, "training", database)
    story.send(tmp_path / "flow", TRAINING)
    platform.kill()
    assert story.live()
    assert story.is_lost
    forget_the_dead(database)
    come_back(platform)
    shown = story.act()
    assert shown.result == {"model": "late", "version": 1}
    assert len(platform.call(LIST_ATTEMPTS, OneJob(project=PROJECT, job=shown.steps[0].job)).items) == 2
    found = platform.call(versions.SEARCH_VERSIONS, versions.SearchVersions(project=PROJECT)).items
    assert [(one.model, one.version) for one in found] == [("late", 1)]
    with platform.http() as http:
        assert len(World(http).leaves_of("version.create")) == 1
        verify_ledger(http)


def test_rows_are_derived_once_whoever_dies_on_the_way(platform: MortalPlatform, database: str, tmp_path: Path) -> None:
    write(platform)
    for failpoint in POINTS:
        story = Sent(platform, failpoint.partition(".")[2], database)
        story.send(tmp_path / story.tag, DERIVING.format(tag=story.tag))
        assert die_on_the_way(story, failpoint) >= 1
        forget_the_dead(database)
        come_back(platform)
        assert story.act().result == {"dataset": f"{story.tag}-rows", "version": 1}
        found = platform.call(LIST_VERSIONS, ListVersions(project=PROJECT, dataset=f"{story.tag}-rows")).items
        assert [one.version for one in found] == [1]
    with platform.http() as http:
        assert len(World(http).leaves_of("dataset.derive")) == len(POINTS)
        verify_ledger(http)


def die_on_the_way(story: Sent, failpoint: str) -> int:
    """How often: what it died of comes again first thing in its next life, and then the next one."""
    deaths = 0
    story.platform.kill()
    while not story.live(f"{failpoint}@{min(deaths + 1, 2)}"):
        deaths += 1
    return deaths


class Promotion(Sent):
    """Khalid approves what the run asks for, as often as he gets no answer."""

    khalid = ""

    def begin(self, folder: Path) -> None:
        run = self.platform.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
        for name, file in (("model.onnx", "model.onnx"), ("MLmodel", "onnx.MLmodel")):
            put = PutArtifact(project=PROJECT, holder=run, name=f"model/{name}")
            self.platform.call(PUT_ARTIFACT, put, chunks=iter(((MODELS / file).read_bytes(),)))
        self.call(models.CREATE_MODEL, models.CreateModel(project=PROJECT, model=self.tag))
        self.call(
            versions.CREATE_VERSION,
            versions.CreateVersion(project=PROJECT, model=self.tag, holder=run, folder="model"),
        )
        self.send(folder, PROMOTING.format(tag=self.tag))

    def act(self) -> PipelineRun:
        listed = promotions.ListApprovals(project=PROJECT, model=self.tag, state="open")
        for one in self.platform.call(promotions.LIST_APPROVALS, listed).items:
            if one.state == "waiting":
                given = promotions.GiveApproval(project=PROJECT, approval=one.id)
                with self.platform.client(self.khalid) as client:
                    client.call(promotions.GIVE_APPROVAL, given, retry=False, key=one.id)
        return super().act()


@pytest.mark.parametrize("platform", ["team"], indirect=True)
def test_a_promotion_that_others_approve_is_asked_for_once_and_made_once_whoever_dies_on_the_way(
    platform: MortalPlatform, database: str, tmp_path: Path
) -> None:
    invited = platform.call(identity.CREATE_USER, identity.CreateUser(name="khalid"))
    platform.call(members.ADD_MEMBER, members.AddMember(project=PROJECT, member="khalid", role=Role.VALIDATOR))
    khalid = platform.call(OPEN_SESSION, OpenSession(code=invited.code)).token
    stories = {name: Promotion(platform, name.partition(".")[2], database) for name in POINTS}
    deaths = {}
    for failpoint, story in stories.items():
        story.khalid = khalid
        forget_the_dead(database)
        if platform.process is None or platform.process.poll() is not None:
            come_back(platform)
        story.begin(tmp_path / story.tag)
        deaths[failpoint] = die_on_the_way(story, failpoint)
    assert deaths["pipelines.deciding"] >= 3
    assert deaths["pipelines.operation-called"] >= 2
    forget_the_dead(database)
    come_back(platform)
    for story in stories.values():
        moves = platform.call(promotions.HISTORY, promotions.ReadMoves(project=PROJECT, model=story.tag)).items
        assert [(move.alias, move.before, move.version) for move in moves] == [("champion", 0, 1)]
        listed = promotions.ListApprovals(project=PROJECT, model=story.tag, state="all")
        asked = platform.call(promotions.LIST_APPROVALS, listed).items
        assert [one.state for one in asked] == ["used"]
    with platform.http() as http:
        leaves = Counter(leaf["operation"] for leaf in World(http).leaves)
        wanted = {"model.promote": 2, "approval.give": 1}  # asked for, approved, moved
        assert {name: leaves[name] for name in wanted} == {name: many * len(stories) for name, many in wanted.items()}
        verify_ledger(http)
