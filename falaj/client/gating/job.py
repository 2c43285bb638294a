"""The program of a gate's job: `python -m falaj.client.gating.job RUN`.

Asks what is to be measured, fetches models and rows, measures, and tells figures. Whether they are enough is decided by the
platform. What cannot be measured is told as such, and the gate has failed.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from functools import partial

from falaj.base.errors import Corrupt, FalajError, PermanentError
from falaj.client.datasets import Dataset, dataset
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.gating.leaks import leaks
from falaj.client.gating.models import Models
from falaj.client.http import Client
from falaj.client.patience import patiently
from falaj.lifecycle.operations.gates import (
    READ_GATE_FILE,
    READ_TASK,
    TELL_GATE,
    FormTaken,
    OneRun,
    ReadGateFile,
    Task,
    TellGate,
    Told,
)
from falaj.optimisation.operations.words import DataSeen


def main() -> int:
    try:
        with client_of_environment() as client:
            return _measure(client, project_of_environment(""), sys.argv[1])
    except FalajError as error:
        print(f"falaj: {error}", file=sys.stderr, flush=True)
        return 1


def _measure(client: Client, project: str, run: str) -> int:
    task = client.call(READ_TASK, OneRun(project=project, run=run))
    if task.state != "running":
        print(f"The gate {task.gate.name} is over: it {task.state}.", flush=True)
        return 0
    try:
        told = _told(client, project, task)
    except (PermanentError, ValueError) as error:
        # Of a classified column no value is told, and such a message may have some.
        why = type(error).__name__ if task.masked else str(error)
        told = Told(problem=f"It could not be measured: {why}"[:2000])
    request = TellGate(project=project, run=run, job=os.environ.get("FALAJ_JOB", ""), told=told)
    over = client.call(TELL_GATE, request)
    print(f"{over.gate}: {over.state}. {over.words}", flush=True)
    return 0


def _told(client: Client, project: str, task: Task) -> Told:
    held_out = _dataset(client, project, task.on)
    if task.gate.kind == "leakage":
        return leaks(task, held_out, [_dataset(client, project, one) for one in task.training])
    models = Models(task, held_out, partial(_contents, client, project, task), len(os.sched_getaffinity(0)))
    return {"quality": models.quality, "latency": models.latency, "fairness": models.fairness}[task.gate.kind]()


def _dataset(client: Client, project: str, seen: DataSeen) -> Dataset:
    found = dataset(f"{seen.dataset}@{seen.version}", project=project, client=client)
    if found.digest != seen.digest:
        raise Corrupt(f"{seen.dataset}@{seen.version} is another than was planned.")
    return found


def _contents(client: Client, project: str, task: Task, form: FormTaken) -> Mapping[str, bytes]:
    found = {}
    for file in form.files:
        request = ReadGateFile(project=project, run=task.run, file=file.name, incumbent=form is task.incumbent)
        content = patiently(lambda asked=request: b"".join(client.call(READ_GATE_FILE, asked).chunks))  # type: ignore[misc]
        if hashlib.sha256(content).hexdigest() != file.digest:
            raise Corrupt(f"The model's file {file.name!r} arrived as another than was planned.")
        found[file.name] = content
    return found


if __name__ == "__main__":
    sys.exit(main())
