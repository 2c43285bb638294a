"""`falaj train`: a script, or cells of a notebook, as a job: on one or several nodes, started as its framework wants it."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from falaj.base.errors import Invalid
from falaj.cli.choosing import project_of
from falaj.cli.command import Commands
from falaj.cli.job_options import JobOptions, with_source
from falaj.cli.job_plans import begun, planned
from falaj.cli.terminal import Terminal
from falaj.cli.traces import doubts, tell_of_trace
from falaj.client import shapes
from falaj.jobs.operations import jobs as declared
from falaj.training.launchers import manifests, notebooks
from falaj.training.launchers.choosing import Wishes, choose
from falaj.training.launchers.reading import read_text, text_of
from falaj.training.launchers.travelling import companions
from falaj.training.profiling import names as profiling

commands = Commands("Training: from a plain script to as many hosts as it can use.")


@commands.command("train")
def train(
    terminal: Terminal,
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python script, or a notebook.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What the script is given: follows --.", show_default=False)
    ] = None,
    nodes: Annotated[str, typer.Option(help="So many, each a task of the job; 2:4 for at least two and at most four.")] = "1",
    processes: Annotated[int, typer.Option(help="On each node; 0: one for each GPU, with MPI one for each core.", min=0)] = 0,
    launcher: Annotated[
        str, typer.Option(help="single, torchrun, tensorflow, mpi, spark or ray; auto: by what the script imports.")
    ] = "auto",
    cell: Annotated[
        list[int] | None, typer.Option(help="Only this code cell of a notebook. Repeatable.", show_default=False, min=1)
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="The folder that is sent and that it runs in.", show_default="the script's own")
    ] = None,
    checkpoints: Annotated[
        bool,
        typer.Option(
            "--checkpoints/--no-checkpoints",
            help="Whether it saves what it did, and goes on from there when it is tried again.",
        ),
    ] = True,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Record some steps kernel by kernel, in a trace kept with the run; say --experiment, too."
        ),
    ] = False,
    apply_profile: Annotated[
        bool,
        typer.Option(
            "--apply-profile",
            help="Ask for the CPUs and GPUs that its last profile in the experiment asks for, unless they are given here; "
            "loader processes follow it at every start.",
        ),
    ] = False,
    print_as: Annotated[
        Literal["trainjob", "pytorchjob"] | None,
        typer.Option("--print", help="Only write the Kubernetes manifest of the same training.", show_default=False),
    ] = None,
    *,
    options: JobOptions,
) -> None:
    """Train with a script as a job: reads what it trains with, says how it starts it, then shows what it writes.

    Example: falaj train train.py --nodes 2 --gpus 4 --cpus 16 --memory 64GiB --project fraud -- --epochs 3
    """
    folder, given = source or script.parent, tuple(arguments or ())
    text, name = _script(terminal, script, folder, cell or ())
    wishes = replace(_nodes(nodes), launcher=launcher, processes=processes, grace=options.grace)
    reading = read_text(text, name, script.parent, folder)
    if apply_profile:
        options = _by_profile(terminal, context, options, name, wishes)
    wishes = replace(wishes, cpus=options.cpus, gpus=options.gpus)
    launch = choose(reading, given, wishes)
    if print_as:
        print(json.dumps(manifests.written(print_as, launch, (name, *given), _pod(options, script.stem)), indent=2))
        return
    has_run = bool(options.experiment or options.writes)
    for sentence in (*launch.sentences, *(doubts(reading, has_run) if profile else ())):
        terminal.say(sentence)
    project = project_of(terminal, options.project)
    asked = options.spec(
        name=options.name or _name(script),
        command=launch.command,
        tasks=launch.nodes,
        least=wishes.least,
        checkpoints=checkpoints,
    )
    if profile:
        asked = _profiled(asked)
    if options.dry_run:
        terminal.run(declared.PLAN_JOB, declared.Submit(project=project, spec=asked), planned)
        return
    spec = with_source(terminal, project, asked, folder, companions() | {name: text.encode()})
    made = terminal.call(declared.SUBMIT_JOB, declared.Submit(project=project, spec=spec))
    begun(terminal, project, made, options.follow, afterwards=tell_of_trace if profile else None)


def _script(terminal: Terminal, script: Path, folder: Path, cells: Sequence[int]) -> tuple[str, str]:
    """Its text, and its name in the folder that is sent."""
    if script.is_dir():
        within = sorted(one.name for pattern in ("*.py", "*.ipynb") for one in script.glob(pattern))
        there = f", such as {script / within[0]}" if within else ", and this one has none"
        raise Invalid(f"{script} is a folder; name a script or a notebook{there}.")
    if not folder.is_dir():
        raise Invalid(f"{folder} is no folder.")
    if not script.resolve().is_relative_to(folder.resolve()):
        raise Invalid(f"{script} is not within {folder}, which is what is sent; name a --source that holds it.")
    place = script.resolve().relative_to(folder.resolve())
    if script.suffix != ".ipynb":
        if cells:
            raise Invalid(f"--cell is for notebooks, and {script.name} is none.")
        return text_of(script), place.as_posix()
    made = notebooks.script_of(script, cells)
    terminal.say(
        f"{made.cells} code cells of {script.name}" + (f", without {made.dropped} lines of magic." if made.dropped else ".")
    )
    return made.text, place.with_name(f"{script.stem}_cells.py").as_posix()


def _by_profile(terminal: Terminal, context: typer.Context, options: JobOptions, script: str, wishes: Wishes) -> JobOptions:
    """With what the profile of an earlier training asks for. What the person asked for stands."""
    sources = {name: context.get_parameter_source(name) for name in ("cpus", "gpus", "gpu_model")}
    given = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    fixed = (given - {"gpu_model"}) | ({"gpus"} if "gpu_model" in given else set())
    project = project_of(terminal, options.project)
    asked = options.spec(command=(script,), tasks=wishes.nodes, least=wishes.least)
    spec, sentences = shapes.advised(terminal, project, asked, script, fixed)
    for sentence in sentences:
        terminal.say(sentence)
    return replace(
        options,
        project=project,
        cpus=spec.resources.cpus,
        gpus=spec.resources.gpus,
        gpu_model=list(spec.resources.gpu_models),
        env=[f"{one.name}={one.value}" for one in spec.variables],
    )


def _profiled(spec: declared.Spec) -> declared.Spec:
    others = (one for one in spec.variables if one.name != profiling.VARIABLE)
    return replace(spec, variables=(*others, declared.Setting(name=profiling.VARIABLE, value="deep")))


def _name(script: Path) -> str:
    """As much of it as a job may be called."""
    return re.sub(r"[^A-Za-z0-9 ._-]", "-", script.stem).lstrip(" ._-")[:100]


def _nodes(text: str) -> Wishes:
    least, colon, most = text.partition(":")
    if not (least.isdecimal() and (most.isdecimal() or not colon)):
        raise Invalid(f"{text!r} is no number of nodes; write 2, or 2:4 for at least two and at most four.")
    if int(least) < 1:
        raise Invalid(f"--nodes {text}: a training has at least one node.")
    if colon and int(most) < int(least):
        raise Invalid(f"--nodes {text}: at least {least} and at most {most} cannot be; write {most}:{least}.")
    return Wishes(nodes=int(most), least=int(least)) if colon else Wishes(nodes=int(least))


def _pod(options: JobOptions, name: str) -> manifests.Pod:
    asked = options.spec(command=(name,))
    wish = asked.resources
    return manifests.Pod(
        name=options.name or name,
        image=asked.image,
        cpus=wish.cpus,
        memory_mib=wish.memory_mib,
        gpus=wish.gpus,
        variables={one.name: one.value for one in asked.variables},
        retries=asked.retries,
    )
