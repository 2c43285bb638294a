"""`falaj train --profile`: whether there will be a trace, and afterwards whether there is one."""

from pathlib import PurePosixPath
from typing import Final

from falaj.cli.terminal import Terminal
from falaj.jobs.operations.jobs import Job
from falaj.tracking.operations.artifacts import LIST_ARTIFACTS, ListArtifacts
from falaj.training.launchers.reading import Reading
from falaj.training.profiling.names import TRACE

_WHO: Final = "a Session or trainer_for of falaj.training"
_NO_RUN: Final = "--profile keeps no trace: it would be a file of the run, and without --experiment there is none."


def doubts(reading: Reading, has_run: bool) -> list[str]:
    told = [] if has_run else [_NO_RUN]
    if reading.has("falaj.training") is None:
        told.append(f"--profile does nothing here: {_WHO} records the trace, and {reading.script} uses neither.")
    return told


def tell_of_trace(terminal: Terminal, project: str, job: Job) -> None:
    """Of a job that is over. One without a run was told of before it was sent."""
    if not job.run:
        return
    request = ListArtifacts(project=project, holder=job.run, folder=str(PurePosixPath(TRACE).parent), deep=True)
    if any(one.name == TRACE for one in terminal.call(LIST_ARTIFACTS, request).items):
        terminal.say(f"Its trace: falaj artifact get {job.run} {TRACE}")
    else:
        terminal.say(f"No trace is with its run: {_WHO} records the three steps after the twelfth, and this made none.")
