"""Deriving from the command line: SQL is the platform's, a function is a job's. What was made before is not made again."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.cli.amounts import mib_of, seconds_of
from falaj.cli.deferred import Deferred
from falaj.cli.following import follow_job
from falaj.cli.terminal import Terminal, read_text
from falaj.datasets.operations import deriving, versions
from falaj.jobs.operations import jobs
from falaj.jobs.operations.words import Resources

if TYPE_CHECKING:
    from falaj.client import functions
else:
    functions = Deferred("falaj.client.functions")

PATIENCE: Final = 900.0
_OVER: Final = ("done", "failed", "cancelled")
_LOOKS: Final = 0.3


def _none(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, **more)


@value
class FunctionOptions:
    """What the job of a Python function is given. Each field is an option of the commands that submit one."""

    cpus: Annotated[float, typer.Option(help="CPUs of the job that runs a function.")] = 1.0
    memory: Annotated[str, typer.Option(help="Memory of that job: its tables and its result have to fit.")] = "2GiB"
    queue: Annotated[
        str, _none("The queue whose share it uses; yours by default.", envvar="FALAJ_QUEUE", show_envvar=False)
    ] = ""
    timeout: Annotated[str, typer.Option(help="It is ended after so long.", metavar="SPAN")] = "1h"

    def resources(self) -> Resources:
        return Resources(cpus=self.cpus, memory_mib=mib_of(self.memory))


def by_sql(terminal: Terminal, request: deriving.Derive) -> deriving.Derived:
    return terminal.call(deriving.DERIVE, request, patience=PATIENCE, retry=False)


def by_function(
    terminal: Terminal,
    project: str,
    into: str,
    function: "functions.Function",
    inputs: tuple[str, ...],
    options: FunctionOptions,
    *,
    anew: bool = False,
    current: bool = True,
) -> deriving.Derived:
    """What was made of the same before, or what a job makes now, which is followed to its end. With `current` it is made the
    current version where it is not. Raises `Conflict` where the job fails."""
    asked = deriving.FindDerived(project=project, dataset=into, code=function.code, inputs=inputs)
    found = terminal.call(deriving.FIND_DERIVED, asked)
    if found.version is not None and not anew:
        version = found.version
        if current and not version.current:
            one = versions.OneVersion(project=project, dataset=into, version=str(version.version))
            version = terminal.call(versions.RESTORE_VERSION, one)
        return deriving.Derived(version=version, inputs=found.inputs, cached=True)
    _run(terminal, project, into, function, found, options)
    pinned = deriving.FindDerived(project=project, dataset=into, code=function.code, inputs=found.inputs)
    made = terminal.call(deriving.FIND_DERIVED, pinned)
    if made.version is None:
        raise Conflict(f"{into} has no version of this any more: somebody let go of it meanwhile.")
    return deriving.Derived(version=made.version, inputs=made.inputs, cached=False)


def function_of(reference: str, lock: str = "", folder: Path | None = None) -> "functions.Function":
    return functions.function_in(reference, read_text(lock) if lock else "", folder)


def made(told: deriving.Derived) -> str:
    version = told.version
    of = f"{version.dataset}@{version.version} has {version.rows:,} rows, derived from {', '.join(told.inputs)}"
    return f"{of}; it was made before." if told.cached else f"{of}."


def one_way(sql: str, python: str, inputs: list[str]) -> None:
    """Raises `Invalid` unless it is said how to derive, once."""
    if bool(sql) == bool(python):
        raise Invalid('Say how: --sql "SELECT ..." or --python file.py:function.')
    if python and not inputs:
        raise Invalid("Say which datasets the function gets: --from clicks --from users@3.")


def _run(
    terminal: Terminal,
    project: str,
    into: str,
    function: "functions.Function",
    found: deriving.FoundDerived,
    options: FunctionOptions,
) -> None:
    upload = jobs.UploadSource(project=project, zone=found.zone)
    sent = terminal.call(jobs.UPLOAD_SOURCE, upload, chunks=[functions.packed(function, into, found)])
    spec = functions.job_of(
        function,
        into,
        found,
        options.resources(),
        source=sent.digest,
        queue=options.queue,
        timeout=seconds_of(options.timeout),
    )
    job = terminal.call(jobs.SUBMIT_JOB, jobs.Submit(project=project, spec=spec)).job
    terminal.say(f"A job runs {function.name} over {', '.join(found.inputs)} ({job.id[-8:]}).")
    if not terminal.as_json:
        if code := follow_job(terminal, project, job.id):
            raise typer.Exit(code)
        return
    ended = _waited(terminal, project, job.id)
    if ended.state != "done":
        raise Conflict(f"The job is {ended.state}: {ended.words} falaj job logs {job.id[-8:]} shows what it wrote.")


def _waited(terminal: Terminal, project: str, job: str) -> jobs.Job:
    while True:
        now = terminal.call(jobs.SHOW_JOB, jobs.OneJob(project=project, job=job))
        if now.state in _OVER:
            return now
        time.sleep(_LOOKS)
