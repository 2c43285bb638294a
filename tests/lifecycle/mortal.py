"""Runs of pipelines on a platform that dies: each is asked for, agreed to and told of its event again and again, as by a client
that gets no answer, and is compared in the end with what it was to bring about."""

import json
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import httpx
from sqlalchemy import update

from falaj.base.errors import Conflict, TemporaryError
from falaj.base.operation import Operation
from falaj.client.packing import packed_alone
from falaj.database.leases import leases
from falaj.database.postgres import PostgresDatabase
from falaj.jobs.operations.jobs import LIST_ATTEMPTS, LIST_JOBS, UPLOAD_SOURCE, ListJobs, OneJob, UploadSource
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.pipelines import PipelineRun
from falaj.lifecycle.operations.words import Definition, Function, Parameter, Step, Until
from falaj.tracking.operations.experiments import SEARCH_EXPERIMENTS, SearchExperiments
from falaj.tracking.operations.runs import SEARCH_RUNS, SearchRuns
from tests.app.effects import World, come_back, verify_ledger
from tests.app.mortal import KILLED, DidNotStart, MortalPlatform
from tests.lifecycle.playing import PROJECT, call, keep, op, ref

LONGEST = 90.0
FILES = {"steps.py": b"def twice(number):\n    return 2 * number\n"}
RUNS = 3
LEAVES = {
    "pipeline.apply": 1,
    "pipeline.run": 1,
    "experiment.create": 1,
    "run.create": RUNS,
    "pipeline.decide": 1,
    "pipeline.send": 1,
    "job.submit": 2,
    "pipeline.tell": 1,
    "pipeline.end": 1,
}


def steps() -> tuple[Step, ...]:
    """Of every kind that has an effect, or waits."""
    tag = ref("parameters.tag")
    function = Function(file="steps.py", name="twice", code="")
    told = Until(
        operation="job.show",
        arguments={"job": ref("called.job.id")},
        done=op("==", ref("answer.state"), "done"),
        failed=op("in", ref("answer.state"), ["failed", "cancelled"]),
        result={"job": ref("called.job.id")},
        every=0.1,
    )
    spec = {"name": tag, "command": ["true"], "resources": {"cpus": 0.1, "memory_mib": 64}}
    return (
        keep("named", op("text", "of ", tag)),
        call("made", "experiment.create", arguments={"name": ref("steps.named")}),
        call(
            "runs",
            "run.create",
            arguments={"experiment": ref("steps.made.id"), "name": op("text", tag, " ", ref("item"))},
            each=list(range(RUNS)),
            at_once=2,
        ),
        Step(name="pause", kind="wait", arguments={"seconds": 0.2}, after=("made",)),
        Step(name="told", kind="wait", event="go"),
        Step(name="asked", kind="approval", question="Shall it go on?", after=("runs", "pause")),
        call("worked", "job.submit", arguments={"spec": spec}, until=told, after=("asked",)),
        Step(
            name="doubled",
            kind="function",
            function=function,
            arguments={"number": op("count", ref("steps.runs"))},
            result="whole",
            after=("asked", "told"),
        ),
    )


class Story:
    """One run of a pipeline of its own, told apart from others of the same platform by `tag`. A life of the platform may take
    so many seconds at the `longest`."""

    longest = LONGEST

    def __init__(self, platform: MortalPlatform, tag: str, database: str = "") -> None:
        """`database` is the URL of the platform's, where it is Postgres."""
        self.platform, self.tag, self.database, self.run = platform, tag, database, ""

    def call(self, operation: Operation[Any, Any], request: Any) -> Any:
        """By the same key however often it is asked."""
        with self.platform.client() as client:
            return client.call(operation, request, retry=False, key=f"{self.tag} {operation.name}")

    def apply(self) -> None:
        source = self.platform.call(UPLOAD_SOURCE, UploadSource(project=PROJECT), chunks=[packed_alone(FILES)]).digest
        result = {"doubled": ref("steps.doubled"), "told": ref("steps.told.said"), "by": ref("steps.asked.agreed")}
        parameters = (Parameter(name="tag", kind="text", required=True),)
        definition = Definition(parameters=parameters, steps=steps(), source=source, result=result)
        self.call(declared.APPLY_PIPELINE, declared.Apply(project=PROJECT, pipeline=self.tag, definition=definition))

    def act(self) -> PipelineRun:
        """Whatever somebody is waited for to do."""
        start = declared.StartRun(project=PROJECT, pipeline=self.tag, parameters={"tag": self.tag})
        self.run = self.call(declared.START_RUN, start).id
        shown: PipelineRun = self.call(declared.SHOW_RUN, declared.OneRun(project=PROJECT, run=self.run))
        states = {one.name: one.state for one in shown.steps}
        if states["asked"] == "asking":
            agree = declared.Decide(project=PROJECT, run=self.run, step="asked", agree=True)
            self.call(declared.DECIDE_STEP, agree)
        if states["told"] == "running":
            self.call(
                declared.SEND_EVENT, declared.SendEvent(project=PROJECT, run=self.run, event="go", content={"said": "went"})
            )
        return shown

    def live(self, failpoint: str = "") -> bool:
        """On a platform that is started for it, until the run is over or the platform is dead: whether it is over."""
        platform = self.platform
        forget_the_dead(self.database)
        platform.launch(FALAJ_FAILPOINT=failpoint)
        began = time.monotonic()
        try:
            platform.wait_until_it_answers()
        except DidNotStart as death:
            if death.status != KILLED:
                raise
            return False
        assert platform.process is not None
        while platform.process.poll() is None:
            if self.is_over():
                platform.kill()
                return True
            assert time.monotonic() < began + self.longest, (
                f"it neither ended nor died of {failpoint!r}:\n{platform.log[-3000:]}"
            )
            time.sleep(0.02)
        assert platform.wait_until_dead() == KILLED, platform.output
        return False

    def is_over(self) -> bool:
        """One look, and whatever is to be done about it."""
        with suppress(TemporaryError, Conflict):  # no answer; or it went on since it was looked at
            if (shown := self.act()).state != "running":
                self.check_end(shown)
                return True
        return False

    def check_end(self, run: PipelineRun) -> None:
        """It ended as if nothing had happened, and nothing was tried twice."""
        assert (run.state, run.words) == ("done", ""), run
        assert run.result == {"doubled": 2 * RUNS, "told": "went", "by": True}
        assert {(one.state, one.attempt) for one in run.steps} == {("done", 1)}

    def check(self, http: httpx.Client) -> None:
        """Everything once: what it made, what it submitted, and what is on record."""
        found = self.platform.call(SEARCH_EXPERIMENTS, SearchExperiments(project=PROJECT, limit=1000)).items
        made = [one.id for one in found if one.name == f"of {self.tag}"]
        assert len(made) == 1
        runs = self.platform.call(SEARCH_RUNS, SearchRuns(project=PROJECT, experiments=tuple(made))).items
        assert sorted(one.info.name for one in runs) == [f"{self.tag} {number}" for number in range(RUNS)]
        jobs = self.platform.call(LIST_JOBS, ListJobs(project=PROJECT, limit=1000)).items
        own = sorted((one.name, one.state) for one in jobs if self.tag in one.name.split())
        assert own == [(self.tag, "done"), (f"{self.tag} doubled", "done")]
        leaves = Counter(leaf["operation"] for leaf in World(http).leaves if self._is_own(leaf, made[0]))
        assert leaves == LEAVES

    def _is_own(self, leaf: dict[str, Any], experiment: int) -> bool:
        asked, facts = leaf["request"], leaf["facts"]
        is_job = self.tag in asked.get("spec", {}).get("name", "").split()
        is_made = experiment in (facts.get("experiment"), asked.get("experiment"))
        return self.run in (facts.get("run"), asked.get("run")) or asked.get("pipeline") == self.tag or is_job or is_made


def check_all(platform: MortalPlatform, *stories: Story) -> None:
    """On a platform that was killed."""
    forget_the_dead(stories[0].database)
    come_back(platform)
    with platform.http() as http:
        for story in stories:
            story.check(http)
        verify_ledger(http)


def lose(platform: MortalPlatform, project: str, job: str) -> bool:
    """The job's first try, by what looks after it, as where a host goes away: whether it was under way."""
    for attempt in platform.call(LIST_ATTEMPTS, OneJob(project=project, job=job)).items:
        with suppress(OSError, ValueError, KeyError):  # it has not begun, or is over
            told = json.loads((platform.home.jobs / "attempts" / attempt.id / "status.json").read_text())
            os.kill(int(told["keeper"][0]), signal.SIGKILL)
            return True
    return False


def forget_the_dead(url: str) -> None:
    """On Postgres a dead process's leases hold for half a minute more: as if that had passed."""
    if url:
        database = PostgresDatabase(url)
        database.write(lambda work: work.execute(update(leases).values(expires=0)))
        database.close()
