"""A platform on which versions live: data is written, runs read it, versions are registered from them, stories are told."""

from typing import Any

from falaj.datasets.operations import checks, versions, writing
from falaj.jobs.operations.jobs import CANCEL_JOB, Cancel
from falaj.lifecycle.operations.gates import APPLY_GATES, READ_RESULTS, RUN_GATES, ApplyGates, Gate, ReadResults, RunGates
from falaj.lifecycle.operations.pipelines import APPLY_PIPELINE, START_RUN, Apply, OneRun, StartRun
from falaj.lifecycle.operations.pipelines import SHOW_RUN as SHOW_PIPELINE_RUN
from falaj.lifecycle.operations.stories import READ_STORY, ReadStory, Story
from falaj.lifecycle.operations.words import Definition, Step
from falaj.registry.operations import models
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion, Version
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, CreateExperiment
from falaj.tracking.operations.runs import (
    CREATE_RUN,
    LOG_INPUTS,
    LOG_TO_RUN,
    CreateRun,
    Dataset,
    DatasetInput,
    LogInputs,
    LogToRun,
)
from falaj.tracking.operations.words import Metric, Param
from tests.serving.control.platform import MLMODEL, ONNX, PROJECT, Platform

MOST_TURNS = 100
ROWS = b"id,late\n1,0\n2,1\n3,0\n"


class Told:
    """`platform` and what happens on it, all of it by its owner unless a token says otherwise."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def call(self, operation: Any, request: Any, token: str = "", data: bytes | None = None) -> Any:
        return self.platform.call(operation, request, token, data)

    def write(self, content: bytes = ROWS, dataset: str = "flights", token: str = "") -> versions.Version:
        opened = self.call(writing.OPEN_WRITE, writing.OpenWrite(project=PROJECT, dataset=dataset, mode="append", create=True))
        part = writing.WritePart(project=PROJECT, dataset=dataset, write=opened.id, piece=1)
        self.call(writing.WRITE_PART, part, data=content)
        done = writing.CommitWrite(project=PROJECT, dataset=dataset, write=opened.id, pieces=1)
        made: versions.Version = self.call(writing.COMMIT_WRITE, done, token)
        return made

    def check(self, least: int, severity: Any = "warn", dataset: str = "flights") -> None:
        rule = checks.Check(name="early", kind="range", columns=("late",), least=least, severity=severity)
        self.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset=dataset, checks=(rule,)))

    def run(self, data: versions.Version | None = None, token: str = "") -> str:
        number = self.call(CREATE_EXPERIMENT, CreateExperiment(project=PROJECT, name=f"late-{self.platform.clock.now()}")).id
        made = self.call(CREATE_RUN, CreateRun(project=PROJECT, experiment=number, name="deep"), token).info.id
        metrics, params = (Metric(key="auc", value=0.9, timestamp=1),), (Param(key="depth", value="8"),)
        self.call(LOG_TO_RUN, LogToRun(project=PROJECT, run=made, metrics=metrics, params=params))
        if data is not None:
            used = DatasetInput(dataset=Dataset(name=data.dataset, digest=data.lineage.rpartition("@")[2]))
            self.call(LOG_INPUTS, LogInputs(project=PROJECT, run=made, datasets=(used,)))
        return str(made)

    def register(self, run: str, model: str = "late", token: str = "") -> Version:
        for name, content in (("model.onnx", ONNX), ("MLmodel", MLMODEL)):
            self.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), data=content)
        if model not in {one.name for one in self.call(models.SEARCH_MODELS, models.SearchModels(project=PROJECT)).items}:
            self.call(models.CREATE_MODEL, models.CreateModel(project=PROJECT, model=model))
        made: Version = self.call(
            CREATE_VERSION, CreateVersion(project=PROJECT, model=model, holder=run, folder="model"), token
        )
        return made

    def trained(self, data: versions.Version | None = None, token: str = "") -> Version:
        return self.register(self.run(data, token), token=token)

    def piped(self, name: str, *steps: Step, token: str = "", **fields: Any) -> str:
        """A run of a pipeline of these steps, as far as it goes by itself."""
        self.call(APPLY_PIPELINE, Apply(project=PROJECT, pipeline=name, definition=Definition(steps=steps)))
        run = str(self.call(START_RUN, StartRun(project=PROJECT, pipeline=name, **fields), token).id)
        self.turn(run, "asks")
        return run

    def turn(self, run: str, step: str) -> None:
        """Until the run is over, or asks."""
        for _ in range(MOST_TURNS):
            self.platform.app.lifecycle.step()
            found = self.call(SHOW_PIPELINE_RUN, OneRun(project=PROJECT, run=run))
            if found.state != "running" or any((one.name, one.state) == (step, "asking") for one in found.steps):
                return
        raise AssertionError(f"it did not come to that: {found}")

    def judged(self, *gates: Gate, version: int = 1) -> None:
        """By gates whose jobs are called off before they start, so that they have failed."""
        self.call(APPLY_GATES, ApplyGates(project=PROJECT, gates=gates))
        found = self.call(RUN_GATES, RunGates(project=PROJECT, model="late", version=version))
        for one in found.items:
            self.call(CANCEL_JOB, Cancel(project=PROJECT, job=one.job))
        for _ in range(MOST_TURNS):
            self.platform.app.jobs.step()
            self.platform.app.gates.step(self.platform.clock.now())
            request = ReadResults(project=PROJECT, model="late", version=version, batch=found.batch)
            if self.call(READ_RESULTS, request).over:
                return
        raise AssertionError("the gates were not over")

    def story(self, version: int = 1, model: str = "late", token: str = "", *, sequenced: bool = True) -> Story:
        if sequenced:
            self.platform.app.sequencer.step(close_all_windows=True)
        found: Story = self.call(READ_STORY, ReadStory(project=PROJECT, model=model, version=version), token)
        return found


def events(story: Story) -> list[str]:
    return [one.words for one in story.events]


def states(story: Story) -> set[str]:
    return {one.recorded.state for one in story.events if one.recorded is not None}
