"""Kill -9 of the platform at every visit of the failpoints of pipelines, and of each step's job, while a version goes from rows
to champion: it is brought out as if nothing had happened, once."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from falaj.datasets.operations.versions import LIST_VERSIONS, ListVersions
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.gates import APPLY_GATES, ApplyGates, Gate
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.registry.operations import models, promotions, versions
from falaj.serving.operations import endpoints
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.app.effects import World, come_back, verify_ledger
from tests.app.mortal import MortalPlatform
from tests.lifecycle.mortal import Story, forget_the_dead, lose
from tests.registry.platform import MODELS
from tests.servers.processes import free_ports

FLOW = """
import falaj


@falaj.step(memory="512MiB")
def rows() -> falaj.DatasetVersion:
    import numpy as np
    import pandas as pd

    chance = np.random.default_rng(1)
    frame = pd.DataFrame({"wind": chance.uniform(0, 1, 600), "rain": chance.uniform(0, 1, 600)})
    frame["late"] = np.digitize(frame["wind"] + frame["rain"], [0.7, 1.3])
    return frame


@falaj.step(memory="1GiB", experiment="late")
def train(rows: falaj.DatasetVersion) -> falaj.ModelVersion:
    from sklearn.ensemble import RandomForestClassifier

    from falaj.training import fit
    from falaj.training.classic import export

    table = rows.pandas()
    truth = table.pop("late")
    export(fit(RandomForestClassifier(n_estimators=10, max_depth=5, random_state=1), table, truth, folds=2))
    return falaj.register("late")


@falaj.step(memory="512MiB")
def evaluate(model: falaj.ModelVersion, rows: falaj.DatasetVersion) -> dict:
    table = rows.pandas()
    truth = table.pop("late").to_numpy()

    def measured(one: falaj.ModelVersion) -> dict:
        said, *_ = one.predict(table).values()
        return {"accuracy": said == truth}

    return falaj.against_champion(model, measured)


@falaj.pipeline(name="late")
def late():
    return falaj.continuous("late.toml", rows=rows, train=train, evaluate=evaluate)
"""
SETTINGS = """
model = "late"
endpoint = "late"
label = "late"
gates = ["signed", "small"]
[better]
metric = "accuracy"
[small]
max_drop = 0.05
seconds = 60
[canary]
steps = [50, 100]
every = "1s"
"""
GATES = (Gate(name="signed", kind="signature"), Gate(name="small", kind="certificate", max_drop=0.05))
OPERATIONS = ("check", "derive-late-seen", "derive-late-held-out", "gates", "mark", "clear", "canary", "monitor", "promote")
FUNCTIONS = ("late-rows", "train", "evaluate")
JOBS = (*FUNCTIONS, "optimise")
SKIPPED = {"approved", "approved-2", "promote-approved"}  # of approvals that policy does not want here
SETTLED = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else ""


@pytest.fixture
def platform(database: str, tmp_path: Path, no_process_survives: None) -> Iterator[MortalPlatform]:
    settings = {"FALAJ_DATABASE_URL": database} if database else {}
    (port,) = free_ports(1)  # that it comes back on: jobs and planes that outlive it ask there
    made = MortalPlatform(tmp_path / "home", arguments=["--port", str(port)], FALAJ_SERVING_ENABLED="true", **settings)
    try:
        yield made.start()
    finally:
        made.falaj("down")  # the plane, too
        made.close()


class Garden(Story):
    """A project of its own in which something answers already, and a pipeline that trains continuously."""

    longest = 600.0

    def __init__(self, platform: MortalPlatform, tag: str, database: str, *, loses_jobs: bool = False) -> None:
        super().__init__(platform, tag, database)
        self.loses_jobs, self.lost = loses_jobs, set[str]()

    def begin(self, folder: Path) -> None:
        """Up to a run that is under way, undisturbed."""
        self.call(CREATE_PROJECT, CreateProject(name=self.tag, zones=("home",)))
        self.call(APPLY_GATES, ApplyGates(project=self.tag, gates=GATES))
        run = self.call(CREATE_RUN, CreateRun(project=self.tag)).info.id
        for name, file in (("model.onnx", "model.onnx"), ("MLmodel", "onnx.MLmodel")):
            put = PutArtifact(project=self.tag, holder=run, name=f"model/{name}")
            self.platform.call(PUT_ARTIFACT, put, chunks=iter(((MODELS / file).read_bytes(),)))
        self.call(models.CREATE_MODEL, models.CreateModel(project=self.tag, model="before"))
        registered = versions.CreateVersion(project=self.tag, model="before", holder=run, folder="model")
        self.call(versions.CREATE_VERSION, registered)
        self.call(endpoints.DEPLOY_REVISION, endpoints.Deploy(project=self.tag, endpoint="late", model="before", version=1))
        folder.mkdir()
        (folder / "flow.py").write_text(FLOW)
        (folder / "late.toml").write_text(SETTINGS)
        sent = self.platform.falaj("pipeline", "run", str(folder / "flow.py"), "--project", self.tag, "--detach", "--json")
        assert sent.returncode == 0, sent.stderr
        self.run = json.loads(sent.stdout)["id"]

    def act(self) -> PipelineRun:
        shown: PipelineRun = self.platform.call(declared.SHOW_RUN, declared.OneRun(project=self.tag, run=self.run))
        if any((one.name, one.state) == ("approval", "asking") for one in shown.steps):
            agree = declared.Decide(project=self.tag, run=self.run, step="approval", agree=True)
            self.call(declared.DECIDE_STEP, agree)
        for one in shown.steps if self.loses_jobs else ():
            if one.job and one.job not in self.lost and lose(self.platform, self.tag, one.job):
                self.lost.add(one.job)
        return shown

    def check_end(self, run: PipelineRun) -> None:
        assert (run.state, run.words) == ("done", ""), [(one.name, one.state, one.words) for one in run.steps]
        assert {one.name for one in run.steps if one.state == "skipped"} == SKIPPED
        assert {one.attempt for one in run.steps if one.state == "done"} == {1}

    def brought_about(self, http: httpx.Client) -> dict[str, Any]:
        """All that came of it, as it is the same whoever died on the way."""

        def call(operation: Any, request: Any) -> Any:
            return self.platform.call(operation, request)

        project = self.tag
        rows = call(LIST_VERSIONS, ListVersions(project=project, dataset="late-rows")).items
        made = call(versions.SEARCH_VERSIONS, versions.SearchVersions(project=project, filter="name = 'late'")).items
        files = call(versions.LIST_VERSION_FILES, versions.ListVersionFiles(project=project, model="late", version=1)).items
        moves = call(promotions.HISTORY, promotions.ReadMoves(project=project, model="late")).items
        changes = call(endpoints.READ_CHANGES, endpoints.ReadChanges(project=project, endpoint="late")).items
        shown = call(endpoints.SHOW_ENDPOINT, endpoints.OneEndpoint(project=project, endpoint="late"))
        world = World(http)
        mine = (leaf["operation"] for leaf in world.leaves if leaf["project"] == world.projects[project])
        return {
            "rows": [(one.version, one.digest) for one in rows],
            "versions": [one.version for one in made],
            "model": {file.digest for file in files if file.name == "model.onnx"},
            "moves": [(move.alias, move.before, move.version) for move in moves],
            "changes": [(one.kind, one.arms) for one in changes],
            "answers": [(one.model, one.version, bool(one.certificate)) for one in shown.revisions if one.number == 2],
            "leaves": Counter(mine),
        }


@pytest.mark.heavy
@pytest.mark.timeout(3600)
def test_a_version_comes_to_be_champion_once_whoever_dies_on_the_way(
    platform: MortalPlatform, database: str, tmp_path: Path
) -> None:
    calm = Garden(platform, "calm", database)
    gardens = {
        "pipelines.deciding": Garden(platform, "deciding", database),
        "pipelines.operation-called": Garden(platform, "called", database),
        "pipelines.job-submitted": Garden(platform, "submitted", database, loses_jobs=True),
    }
    deaths = dict.fromkeys(gardens, 0)
    calm.begin(tmp_path / "calm")
    platform.kill()
    assert calm.live()
    for failpoint, garden in gardens.items():
        forget_the_dead(database)
        come_back(platform)
        garden.begin(tmp_path / garden.tag)
        platform.kill()
        # What it died of comes again first thing in its next life, and then the next one.
        while not garden.live(f"{failpoint}@{min(deaths[failpoint] + 1, 2)}"):
            deaths[failpoint] += 1
    assert deaths["pipelines.deciding"] > len(JOBS) + len(OPERATIONS)  # some are over as another one begins
    assert deaths["pipelines.operation-called"] == len(OPERATIONS)
    assert (deaths["pipelines.job-submitted"], len(gardens["pipelines.job-submitted"].lost)) == (len(FUNCTIONS), len(JOBS))
    forget_the_dead(database)
    come_back(platform)
    with platform.http() as http:
        deadline = time.monotonic() + SETTLED
        while (wanted := calm.brought_about(http)) != (found := [one.brought_about(http) for one in gardens.values()])[-1]:
            assert time.monotonic() < deadline, (wanted, found)  # what jobs wrote, and their windows of telemetry, come last
            time.sleep(0.5)
        assert found == [wanted] * len(gardens)
        assert [len(wanted[one]) for one in ("rows", "versions", "model", "moves", "changes", "answers")] == [1, 1, 1, 1, 3, 1]
        verify_ledger(http)
