"""`falaj optimise`: the smallest and fastest form of a model that is provably as good, searched for by a job."""

from dataclasses import replace
from typing import Annotated, Any, Final, get_args

import typer

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.cli.choosing import project_of
from falaj.cli.command import Commands
from falaj.cli.commands.deploy import PATIENCE, meant
from falaj.cli.job_options import JobOptions
from falaj.cli.job_plans import begun, planned
from falaj.cli.layout import Layout
from falaj.cli.naming import every
from falaj.cli.terminal import Terminal, as_document
from falaj.cli.variant_looks import outcome
from falaj.jobs.operations import jobs as declared
from falaj.optimisation.jobs import command_of, gpus_for, spec_of, submitted
from falaj.optimisation.operations.optimisations import (
    ABANDON_OPTIMISATION,
    PLAN_OPTIMISATION,
    SHOW_OPTIMISATION,
    Limits,
    OneOptimisation,
    Optimisation,
    PlanOptimisation,
)
from falaj.optimisation.operations.words import Target

commands = Commands("Making models small.")


_GPUS: Final = typer.Option(
    help="GPUs of the search: whole ones, or a part of one such as 0.5.", show_default="1 for --target gpu"
)
_NOT_TAKEN: Final = ("env", "secret", "lock", "image", "host")  # with them it is no program of the platform's alone


def _refused() -> Any:
    return typer.Option(hidden=True, help="Not for optimisations: a job that brings something along is not believed.")


@value
class SearchOptions:
    """What is searched for: each field is an option."""

    on: Annotated[
        str, typer.Option(help="The dataset that is learnt from and calibrated with: sales, sales@7.", show_default=False)
    ] = ""
    held_out: Annotated[
        str,
        typer.Option(help="The dataset that variants are judged on; without it, three tenths of --on.", show_default=False),
    ] = ""
    truth: Annotated[
        str,
        typer.Option(help="The column with what the model should say; without it, what the original says.", show_default=False),
    ] = ""
    by: Annotated[
        list[str] | None,
        typer.Option("--slice", help="A column whose values are judged apart. Repeatable.", show_default=False),
    ] = None
    target: Annotated[str, typer.Option(help="What it is to run on: cpu, gpu or edge.")] = "cpu"
    latency_ms: Annotated[
        float, typer.Option(help="What 99 of 100 answers to a single row must keep to; 0: no bound.", min=0)
    ] = 0.0
    max_drop: Annotated[str, typer.Option(help="How much worse it may be over all.", metavar="PERCENT")] = "0.5%"
    max_slice_drop: Annotated[str, typer.Option(help="How much worse in any slice.", metavar="PERCENT")] = "2%"
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only candidates of these steps, such as int8 or prune:0.5. Repeatable.", show_default=False),
    ] = None
    student: Annotated[
        str, typer.Option(help="A registered version to teach what this one knows: MODEL:VERSION.", show_default=False)
    ] = ""
    certify: Annotated[int, typer.Option(help="So many of the best are certified.", min=0, max=20)] = 3
    budget: Annotated[int, typer.Option(help="The seconds that the whole search may take.", min=10)] = 900

    def request(self, project: str, model: str) -> PlanOptimisation:
        if not model or not self.on:
            raise Invalid("Name the model and, by --on, the dataset to learn from; or, by --resume, what is to go on.")
        name, version, alias = meant(model)
        taught, taught_version, unfit = meant(self.student) if self.student else ("", 0, "")
        if unfit:
            raise Invalid(f"--student is named by its number, such as {taught}:3, not as {self.student!r}.")
        return PlanOptimisation(
            project=project,
            model=name,
            version=version,
            alias=alias,
            on=self.on,
            held_out=self.held_out,
            label=self.truth,
            slices=tuple(self.by or ()),
            target=_target(self.target),
            limits=Limits(
                max_drop=_share(self.max_drop, "--max-drop"),
                max_slice_drop=_share(self.max_slice_drop, "--max-slice-drop"),
                latency_ms=self.latency_ms,
            ),
            only=tuple(self.only or ()),
            student=taught,
            student_version=taught_version,
            certify=self.certify,
            seconds=self.budget,
        )


@value
class SearchJobOptions(JobOptions):
    """The job of a search brings nothing along, and needs room for several forms of a model."""

    memory: Annotated[str, typer.Option(help="Memory of the search, such as 4GiB.")] = "4GiB"
    gpus: Annotated[float | None, _GPUS] = None  # type: ignore[assignment]  # until the target is known
    lock: Annotated[str, _refused()] = ""
    image: Annotated[str, _refused()] = ""
    env: Annotated[list[str] | None, _refused()] = None
    secret: Annotated[list[str] | None, _refused()] = None
    host: Annotated[list[str] | None, _refused()] = None

    def check(self) -> None:
        if given := [f"--{name}" for name in _NOT_TAKEN if getattr(self, name)]:
            raise Invalid(
                f"An optimisation does not take {', '.join(given)}: what is said of a variant counts only where the platform's "
                "own program runs as it is, with nothing brought along. Leave that out."
            )


@commands.command("optimise")
def optimise(
    terminal: Terminal,
    model: Annotated[
        str, typer.Argument(help="MODEL:VERSION or MODEL@ALIAS; MODEL alone is its champion.", show_default=False)
    ] = "",
    *,
    search: SearchOptions,
    resume: Annotated[
        str, typer.Option(help="The id of an optimisation that did not end: it goes on where it was.", show_default=False)
    ] = "",
    abandon: Annotated[
        str,
        typer.Option(
            help="The id of an optimisation to give up: what is not made by now never is; what was certified stays.",
            show_default=False,
        ),
    ] = "",
    options: SearchJobOptions,
) -> None:
    """Make a model smaller and faster, as a job: candidates are made and measured, and the best certified on rows it never saw.

    Killed or preempted it goes on with the next candidate.

    Example: falaj optimise churn@champion --on customers@7 --held-out customers@8 --truth left --slice country --project fraud
    """
    options.check()
    project = project_of(terminal, options.project)
    if abandon:
        terminal.run(ABANDON_OPTIMISATION, OneOptimisation(project=project, optimisation=abandon), _abandoned)
        return
    decided = _resumed(terminal, project, resume) if resume else _planned(terminal, search.request(project, model))
    wished = replace(options, gpus=gpus_for(decided.target, options.gpus))
    wish = wished.spec(command=("python",))
    if options.dry_run:
        try:
            terminal.run(declared.PLAN_JOB, declared.Submit(project=project, spec=spec_of(decided, wish)), planned)
        finally:
            if not resume:  # it was planned for its job to be asked about, and nothing of it stays open
                terminal.call(ABANDON_OPTIMISATION, OneOptimisation(project=project, optimisation=decided.id))
        return
    where = f"{decided.on.dataset}@{decided.on.version}"
    terminal.say(f"{decided.model} v{decided.version} for {decided.target}, on {where}; optimisation {decided.id}.")
    if resume:  # it stays open, whatever becomes of this job
        made = terminal.call(declared.SUBMIT_JOB, declared.Submit(project=project, spec=spec_of(decided, wish)))
    else:
        made = submitted(terminal.call, project, decided, wish)
    if terminal.as_json:
        terminal.print_json(as_document(made) | {"optimisation": as_document(decided)})
        return

    def afterwards(terminal: Terminal, project: str, _: declared.Job) -> None:
        found = terminal.call(SHOW_OPTIMISATION, OneOptimisation(project=project, optimisation=decided.id))
        outcome(Layout(), found, project)

    begun(terminal, project, made, options.follow, afterwards)


def _abandoned(layout: Layout, found: Optimisation) -> None:
    layout.line(f"Optimisation {found.id} of {found.model} v{found.version} is abandoned.")
    if kept := [one.name for one in found.variants if one.state == "certified"]:
        layout.line(f"What was certified stays: {', '.join(kept)}.")
    layout.line("If a job still works on it, it ends by itself when it next has something to tell.")


def _resumed(terminal: Terminal, project: str, id: str) -> Optimisation:
    found = terminal.call(SHOW_OPTIMISATION, OneOptimisation(project=project, optimisation=id))
    asked = declared.ListJobs(project=project, state="live")
    if found.state != "open":
        raise Invalid(f"Optimisation {id} is {found.state}: start another one.")
    live = every(lambda cursor: terminal.call(declared.LIST_JOBS, replace(asked, cursor=cursor)))
    if working := next((job for job in live if job.spec.command == command_of(id)), None):
        raise Invalid(
            f"Job {working.id} works on optimisation {id} and is {working.state}: `falaj job logs {working.id}` shows how far "
            f"it is. End it first to let another go on: `falaj job cancel {working.id}`."
        )
    return found


def _planned(terminal: Terminal, request: PlanOptimisation) -> Optimisation:
    decided = terminal.call(PLAN_OPTIMISATION, request, patience=PATIENCE)
    for remark in decided.remarks:
        terminal.say(remark)
    return decided


def _target(word: str) -> Target:
    if word not in get_args(Target):
        raise Invalid(f"--target is cpu, gpu or edge, not {word!r}.")
    return word  # type: ignore[return-value]


def _share(text: str, option: str) -> float:
    """`0.5%` or `0.005`."""
    try:
        share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise Invalid(f"{option} is written like 0.5% or 0.005, not {text!r}.") from None
    if not 0 < share < 1:
        raise Invalid(f"{option} lies between 0% and 100%, and {text!r} does not.")
    return share
