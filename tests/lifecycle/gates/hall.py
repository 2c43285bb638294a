"""A platform in this process with a model of a few versions, and gates of it; its loops are turned by hand."""

import time
from typing import Any

from sqlalchemy import select

from falaj.base.errors import NotFound
from falaj.base.ids import new_id
from falaj.base.operation import Operation
from falaj.client.packing import packed_alone
from falaj.database.work import UnitOfWork
from falaj.datasets.operations import writing
from falaj.datasets.operations.versions import SHOW_VERSION, OneVersion
from falaj.jobs.operations.jobs import CANCEL_JOB, SHOW_JOB, UPLOAD_SOURCE, Cancel, Job, OneJob, UploadSource
from falaj.jobs.store import attempts, jobs
from falaj.lifecycle.operations.gates import (
    APPLY_GATES,
    READ_RESULTS,
    RUN_GATES,
    ApplyGates,
    Gate,
    GateRun,
    Gates,
    ReadResults,
    Requirement,
    RunGates,
)
from falaj.operations.dispatcher import Call
from falaj.registry.operations.evidence import READ_EVIDENCE, Evidence, ReadEvidence
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.promotions import PROMOTE, Promote, Promotion
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.artifacts.store import artifacts
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, LOG_INPUTS, CreateRun, Dataset, DatasetInput, LogInputs
from tests.lifecycle.playing import PROJECT, Stage

MODEL = "scorer"
PATIENCE = 60.0
WHOLE = Gate(name="whole", kind="signature")
MEASURED = Gate(name="apart", kind="leakage", on="later", training="known", label="left")
ASKED = Gate(name="asked", kind="command", command=("true",))
CSV = b"x,left\n1,0\n2,1\n3,0\n"


class Hall:
    def __init__(self, stage: Stage, versions: int = 2) -> None:
        self.stage = stage
        self.call = stage.call
        self.call(CREATE_MODEL, CreateModel(project=PROJECT, model=MODEL))
        for number in range(versions):
            self.register(f"weights {number}".encode())

    def send(self, operation: Operation[Any, Any], request: Any, content: bytes, token: str = "") -> Any:
        credentials, id = token or self.stage.owner, new_id(self.stage.clock.now())
        asked = Call(credentials=credentials, request_id=id, chunks=iter((content,)))
        return self.stage.platform.dispatcher.call(operation, request, asked)

    def register(
        self,
        content: bytes,
        *,
        requirements: bytes = b"",
        reads: tuple[str, ...] = (),
        run: str = "",
        by: tuple[str, ...] = (),
    ) -> int:
        """Of a run that says it read these datasets, as they are now; the files as these jobs would write them."""
        run = run or self.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
        if reads:
            told = tuple(DatasetInput(dataset=self.told(name)) for name in reads)
            self.call(LOG_INPUTS, LogInputs(project=PROJECT, run=run, datasets=told))
        files = {"model/weights.bin": content} | ({"model/requirements.txt": requirements} if requirements else {})
        for name, one in files.items():
            self.send(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=name), one)
        for number, job in enumerate(by):
            self.stage.platform.database.write(lambda work, job=job, number=number: self._tried(work, run, job, number))
        request = CreateVersion(project=PROJECT, model=MODEL, holder=run, folder="model", run=run)
        return int(self.call(CREATE_VERSION, request).version)

    def _tried(self, work: UnitOfWork, run: str, job: str, number: int) -> None:
        """A try of the job that had the token by which the files came."""
        token = work.execute(select(artifacts.c.token).where(artifacts.c.holder == run)).scalars().first()
        (found,) = jobs.with_ids(work, [job])
        now = self.stage.clock.now()
        row = {"id": new_id(now), "job": job, "project": found.project, "number": 50 + number, "engine": "", "seats": "[]"}
        told = {"state": "ended", "token": token, "planned": int(now), "started": int(now), "ended": int(now)}
        attempts.add(work, [row | told])

    def told(self, dataset: str) -> Dataset:
        try:
            shown = self.call(SHOW_VERSION, OneVersion(project=PROJECT, dataset=dataset, version="current"))
        except NotFound:
            return Dataset(name=dataset, digest="0" * 32, source_type="falaj", source="elsewhere")
        return Dataset(name=dataset, digest=shown.digest[:32], source_type="falaj", source=dataset)

    def source(self, content: bytes) -> str:
        packed = packed_alone({"train.py": content})
        return str(self.send(UPLOAD_SOURCE, UploadSource(project=PROJECT), packed).digest)

    def apply(self, *gates: Gate, token: str = "", require: tuple[Requirement, ...] = ()) -> Gates:
        return self.call(APPLY_GATES, ApplyGates(project=PROJECT, gates=gates, require=require), token)

    def run(self, version: int, *gates: str, token: str = "", **fields: Any) -> dict[str, GateRun]:
        request = RunGates(project=PROJECT, model=MODEL, version=version, gates=gates, **fields)
        return {one.gate: one for one in self.call(RUN_GATES, request, token).items}

    def results(self, version: int) -> dict[str, GateRun]:
        request = ReadResults(project=PROJECT, model=MODEL, version=version)
        return {one.gate: one for one in self.call(READ_RESULTS, request).items}

    def evidence(self, version: int, gate: str = "") -> tuple[Evidence, ...]:
        request = ReadEvidence(project=PROJECT, model=MODEL, version=version, gate=gate)
        return self.call(READ_EVIDENCE, request).items

    def promote(self, version: int, token: str = "") -> Promotion:
        return self.call(PROMOTE, Promote(project=PROJECT, model=MODEL, alias="champion", version=version), token)

    def job(self, id: str) -> Job:
        return self.call(SHOW_JOB, OneJob(project=PROJECT, job=id))

    def call_off(self, *jobs: str) -> None:
        """Until they are over; before any of them starts, where the controller has not looked yet."""
        for job in jobs:
            self.call(CANCEL_JOB, Cancel(project=PROJECT, job=job))
        deadline = time.monotonic() + PATIENCE
        while any(self.job(job).ended is None for job in jobs):
            assert time.monotonic() < deadline, "they were not called off"
            self.stage.platform.jobs.step()
            time.sleep(0.01)

    def settle(self) -> None:
        self.stage.platform.gates.step(self.stage.clock.now())


def put_rows(hall: Hall, dataset: str, content: bytes) -> int:
    opened = hall.call(writing.OPEN_WRITE, writing.OpenWrite(project=PROJECT, dataset=dataset, mode="overwrite", create=True))
    part = writing.WritePart(project=PROJECT, dataset=dataset, write=opened.id, piece=1)
    hall.send(writing.WRITE_PART, part, content)
    done = writing.CommitWrite(project=PROJECT, dataset=dataset, write=opened.id, pieces=1)
    return int(hall.call(writing.COMMIT_WRITE, done).version)
