"""`falaj pipeline`: steps done one after the other, durably: written down in Python, run, followed, resumed, replayed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from falaj.base.errors import Invalid, NotFound
from falaj.cli.amounts import seconds_of
from falaj.cli.choosing import InProject, pair_of, project_of, version_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, sentence
from falaj.cli.pipeline_files import apply_file, is_file, parameters_of
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import save
from falaj.lifecycle.checking import given_parameters
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations import triggers as trigger_operations
from falaj.lifecycle.operations.pipelines import Pipeline, PipelineRun
from falaj.lifecycle.operations.triggers import Trigger, TriggerKind
from falaj.lifecycle.operations.words import Definition

if TYPE_CHECKING:
    from falaj.cli import pipeline_drawings as drawings
    from falaj.cli import pipeline_following as following
    from falaj.cli import pipeline_looks as looks
    from falaj.cli import pipeline_replays as replays
else:
    drawings, replays = Deferred("falaj.cli.pipeline_drawings"), Deferred("falaj.cli.pipeline_replays")
    following, looks = Deferred("falaj.cli.pipeline_following"), Deferred("falaj.cli.pipeline_looks")

commands = Commands("Pipelines: steps done one after the other, durably; started by people, times and events.")
OfPipeline = Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)]
OfRun = Annotated[str, typer.Argument(help="The run's id, or the last digits of it.", show_default=False)]
OfStep = Annotated[str, typer.Argument(help="The step's name; of one item of a list, like train[2].", show_default=False)]
FileOrName = Annotated[
    str, typer.Argument(help="FILE.py, FILE.py:PIPELINE, or the name of one that is applied.", show_default=False)
]
Source = Annotated[Path | None, typer.Option(help="The folder that goes along; the file's by default.", show_default=False)]
Detach = Annotated[bool, typer.Option("--detach", help="Only start it.")]
Given = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the pipeline. Repeatable.", metavar="NAME=VALUE", show_default=False),
]
Why = Annotated[str, typer.Option(help="Why; it stays on record.", show_default=False)]
_DIGITS: Final = "0123456789abcdef"


def _none(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, **more)


@commands.command("run")
def run(
    terminal: Terminal,
    pipeline: FileOrName,
    given: Given = None,
    anew: Annotated[bool, typer.Option("--anew", help="Take nothing that came out before.")] = False,
    from_step: Annotated[
        str,
        typer.Option("--from", help="Begin with this step; what comes before is of --of.", metavar="STEP", show_default=False),
    ] = "",
    of: Annotated[str, _none("The run whose first steps are taken; the pipeline's newest by default.", metavar="RUN")] = "",
    only: Annotated[list[str] | None, _none("This step and what it needs. Repeatable.", metavar="STEP")] = None,
    version: Annotated[int, _none("One that you looked at, whoever wrote it; the newest by default.", min=0)] = 0,
    source: Source = None,
    detach: Detach = False,
    reason: Why = "",
    project: InProject = "",
) -> None:
    """Run a pipeline, and follow it: a file is written down, sent and applied first.

    Example: falaj pipeline run flights.py --set depth=8 --project late
    """
    chosen = project_of(terminal, project)

    def check(definition: Definition) -> None:
        parameters = parameters_of(given, definition.parameters)
        if not (of or from_step):  # which has the rest of them
            given_parameters(definition, parameters)

    if is_file(pipeline):
        if version:
            raise Invalid("A file says itself what is run: give --version with the name of a pipeline.")
        applied = apply_file(terminal, chosen, pipeline, source, check=check)[0]
        version = applied.version
    else:
        wanted = declared.OnePipeline(project=chosen, pipeline=pipeline, version=version)
        applied = terminal.call(declared.SHOW_PIPELINE, wanted)
    request = declared.StartRun(
        project=chosen,
        pipeline=applied.name,
        version=version,
        parameters=parameters_of(given, applied.definition.parameters),
        anew=anew,
        of=of or (_newest(terminal, chosen, applied.name) if from_step else ""),
        from_step=from_step,
        only=tuple(only or ()),
        words=reason,
    )
    _begun(terminal, chosen, terminal.call(declared.START_RUN, request), detach)


@commands.command("apply")
def apply(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(help="FILE.py, or FILE.py:PIPELINE for one of it.", show_default=False)],
    source: Source = None,
    project: InProject = "",
) -> None:
    """Write down what a file has, check it, and keep it, with gates that it names and what starts it; nothing is run.

    Example: falaj pipeline apply flights.py --project late
    """
    if not is_file(file):
        raise Invalid(f"{file!r} is no file of Python: give one with a function that has @falaj.pipeline.")
    made = apply_file(terminal, project_of(terminal, project), file, source, every=True)
    if terminal.as_json:
        terminal.print_json([{"name": one.name, "version": one.version, "digest": one.digest} for one in made])
        return
    for one in made:
        count = len(one.definition.steps)
        Layout().line(f"{one.name} is version {one.version}, with {count} step{'' if count == 1 else 's'}.")


@commands.command("list")
def list_pipelines(terminal: Terminal, project: InProject = "", limit: Limit = 100, cursor: Cursor = "") -> None:
    """List a project's pipelines.

    Example: falaj pipeline list --project late
    """
    request = declared.ListPipelines(project=project_of(terminal, project), limit=limit, cursor=cursor)
    terminal.run(declared.LIST_PIPELINES, request, looks.pipelines)


@commands.command("show")
def show(
    terminal: Terminal,
    pipeline: Annotated[str, typer.Argument(help="A pipeline's name, or a run's id.", show_default=False)],
    version: Annotated[int, _none("Of the pipeline; the newest by default.", min=0)] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Of a run: go on until it ends.")] = False,
    project: InProject = "",
) -> None:
    """Show a pipeline with its steps, or a run with what came of each.

    Example: falaj pipeline show nightly --project late
    """
    chosen = project_of(terminal, project)
    found = _pipeline_or_run(terminal, chosen, pipeline, version)
    if isinstance(found, Pipeline):
        terminal.show(found, looks.pipeline)
    elif follow and found.state == "running":
        raise typer.Exit(following.follow_run(terminal, chosen, found.id))
    else:
        terminal.show(found, looks.run)


@commands.command("runs")
def list_runs(
    terminal: Terminal,
    pipeline: Annotated[str, typer.Argument(help="Of this pipeline; of all by default.", show_default=False)] = "",
    state: Annotated[str, _none("running, done, failed or cancelled.")] = "",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List runs of pipelines, newest first.

    Example: falaj pipeline runs nightly --state failed --project late
    """
    chosen = project_of(terminal, project)
    request = declared.ListRuns(project=chosen, pipeline=pipeline, state=state, limit=limit, cursor=cursor)
    terminal.run(declared.LIST_RUNS, request, looks.runs)


@commands.command("resume")
def resume(terminal: Terminal, run: OfRun, detach: Detach = False, project: InProject = "") -> None:
    """Go on with a run that failed or was cancelled: what was done stays done.

    Example: falaj pipeline resume 5c6d7e --project late
    """
    chosen = project_of(terminal, project)
    _begun(terminal, chosen, terminal.call(declared.RESUME_RUN, declared.OneRun(project=chosen, run=run)), detach)


@commands.command("cancel")
def cancel(terminal: Terminal, run: OfRun, reason: Why = "", yes: Yes = False, project: InProject = "") -> None:
    """Stop a run: nothing more is begun, and its jobs are stopped.

    Example: falaj pipeline cancel 5c6d7e --yes --project late
    """
    chosen = project_of(terminal, project)
    terminal.confirm(f"Stop the run {run}?", yes)
    terminal.run(
        declared.CANCEL_RUN,
        declared.Cancel(project=chosen, run=run, reason=reason),
        sentence(
            lambda it: f"{it.pipeline} {it.id[-looks.SHORT :]} is {'being stopped' if it.state == 'running' else it.state}."
        ),
    )


@commands.command("graph")
def graph(
    terminal: Terminal,
    pipeline: Annotated[str, typer.Argument(help="FILE.py, a pipeline's name, or a run's id.", show_default=False)],
    out: Annotated[str, _none("Draw it into this file: .svg, .html or .dot.", metavar="FILE")] = "",
    source: Source = None,
    project: InProject = "",
) -> None:
    """Draw a pipeline's steps, of a run with how each of them is. A file is only read, and nothing is sent.

    Example: falaj pipeline graph flights.py --out flights.svg
    """
    drawn = (
        drawings.of_file(pipeline, source)
        if is_file(pipeline)
        else drawings.of_known(terminal, chosen := project_of(terminal, project), _pipeline_or_run(terminal, chosen, pipeline))
    )
    if out:
        content = drawn.as_file(out)
        save([content.encode()], out)
        terminal.told({"file": out, "bytes": len(content)}, f"Drawn into {out}.", out)
    elif terminal.as_json:
        terminal.print_json({"name": drawn.name, "steps": drawn.steps(), "links": drawn.links()})
    else:
        looks.tree(Layout(), drawn.name, drawn.definition)


@commands.command("schedule")
def schedule(
    terminal: Terminal,
    pipeline: OfPipeline,
    cron: Annotated[str, _none('Minute, hour, day, month, weekday: "0 6 * * 1-5".')],
    zone: Annotated[str, typer.Option(help="By whose clock, such as Asia/Dubai.")] = "UTC",
    name: Annotated[str, typer.Option(help="What the trigger is called.")] = "schedule",
    given: Given = None,
    project: InProject = "",
) -> None:
    """Run a pipeline at certain times.

    Example: falaj pipeline schedule nightly --cron "0 6 * * *" --zone Asia/Dubai --project late
    """
    chosen = project_of(terminal, project)
    _set_trigger(terminal, chosen, pipeline, name, Trigger(kind="schedule", cron=cron, zone=zone), given)


trigger = commands.group("trigger", "What starts a pipeline by itself.")


@trigger.command("set")
def set_trigger(
    terminal: Terminal,
    pipeline: OfPipeline,
    name: Annotated[str, typer.Argument(help="What the trigger is called.", show_default=False)],
    on: Annotated[
        TriggerKind,
        _none(
            "schedule; a new version of a dataset or model, a move of an alias, an alert of drift or falling quality; a "
            "signed webhook, or one that tells of a git push."
        ),
    ],
    about: Annotated[str, _none("Which dataset, model, alias (late@champion), endpoint or branch.")] = "",
    cron: Annotated[str, _none('For a schedule: "0 6 * * *".')] = "",
    zone: Annotated[str, typer.Option(help="By whose clock, such as Asia/Dubai.")] = "UTC",
    given: Given = None,
    pause: Annotated[str, typer.Option(help="At least so long between two runs, such as 1h.", metavar="SPAN")] = "0",
    project: InProject = "",
) -> None:
    """Start a pipeline by itself, in your name. A parameter may be what happened: --set rows=trigger.version.

    A webhook, or a push to a git branch that GitHub, GitLab, Gitea or Forgejo tells of, gets an address and a secret.

    Example: falaj pipeline trigger set nightly new-rows --on dataset --about flights --pause 1h --project late
    """
    chosen = project_of(terminal, project)
    wish = Trigger(kind=on, about=about, cron=cron, zone=zone, pause=seconds_of(pause))
    _set_trigger(terminal, chosen, pipeline, name, wish, given)


@trigger.command("list")
def list_triggers(terminal: Terminal, pipeline: OfPipeline, project: InProject = "") -> None:
    """Say what starts a pipeline by itself, and when it does next.

    Example: falaj pipeline trigger list nightly --project late
    """
    request = trigger_operations.ListTriggers(project=project_of(terminal, project), pipeline=pipeline)
    terminal.run(trigger_operations.LIST_TRIGGERS, request, looks.triggers)


@trigger.command("delete")
def delete_trigger(
    terminal: Terminal,
    pipeline: OfPipeline,
    name: Annotated[str, typer.Argument(help="The trigger's name.", show_default=False)],
    project: InProject = "",
) -> None:
    """Let this start it no more.

    Example: falaj pipeline trigger delete nightly new-rows --project late
    """
    request = trigger_operations.OneTrigger(project=project_of(terminal, project), pipeline=pipeline, trigger=name)
    terminal.run(trigger_operations.DELETE_TRIGGER, request, sentence(lambda _: f"{name} starts {pipeline} no more."))


@commands.command("approve")
def approve(terminal: Terminal, run: OfRun, step: OfStep, reason: Why = "", project: InProject = "") -> None:
    """Agree to what a run asks about.

    Example: falaj pipeline approve 5c6d7e approval --project late
    """
    _decide(terminal, project, run, step, reason, agree=True)


@commands.command("refuse")
def refuse(terminal: Terminal, run: OfRun, step: OfStep, reason: Why = "", project: InProject = "") -> None:
    """Refuse what a run asks about; it ends there.

    Example: falaj pipeline refuse 5c6d7e approval --reason "Not before Sunday." --project late
    """
    _decide(terminal, project, run, step, reason, agree=False)


@commands.command("send")
def send(
    terminal: Terminal,
    run: OfRun,
    event: Annotated[str, typer.Argument(help="What the event is called.", show_default=False)],
    content: Annotated[str, _none("What it brings, as JSON.", metavar="JSON")] = "{}",
    project: InProject = "",
) -> None:
    """Send a run an event that one of its steps waits for, or will.

    Example: falaj pipeline send 5c6d7e labels-complete --content '{"rows":1200}' --project late
    """
    request = declared.SendEvent(
        project=project_of(terminal, project), run=run, event=event, content=looks.json_of(content, "--content")
    )
    terminal.run(declared.SEND_EVENT, request, sentence(lambda _: f"Sent {event} to {run}."))


@commands.command("logs")
def logs(terminal: Terminal, run: OfRun, step: OfStep, project: InProject = "") -> None:
    """Print what the job of a step wrote.

    Example: falaj pipeline logs 5c6d7e train --project late
    """
    chosen = project_of(terminal, project)
    found = terminal.call(declared.SHOW_RUN, declared.OneRun(project=chosen, run=run))
    one = looks.step_in(found, step)
    if not one.job:
        taken = f" What it handed on was taken from the run {one.cached[-looks.SHORT :]}." if one.cached else ""
        words = f" {one.words}" if one.words else ""  # of gates, which have jobs of their own
        raise NotFound(f"The step {step} of {run} has no job: it is {one.state}.{words}{taken}")
    drawings.print_log(terminal, chosen, one.job)


@commands.command("delete")
def delete(terminal: Terminal, pipeline: OfPipeline, yes: Yes = False, project: InProject = "") -> None:
    """Delete a pipeline with its triggers; what its runs did stays on record.

    Example: falaj pipeline delete nightly --yes --project late
    """
    chosen = project_of(terminal, project)
    terminal.confirm(f"Delete the pipeline {pipeline}, and what starts it?", yes)
    request = declared.OnePipeline(project=chosen, pipeline=pipeline)
    terminal.run(declared.DELETE_PIPELINE, request, sentence(lambda _: f"{pipeline} is deleted."))


@commands.command("replay")
def replay(
    terminal: Terminal,
    version: Annotated[str, typer.Argument(help="MODEL:VERSION, or MODEL@ALIAS.", show_default=False)],
    project: InProject = "",
) -> None:
    """Run again what made a version of a model, and say whether the same comes out: its files, then the figures of its run.

    Ends with 1 where it does not.

    Example: falaj pipeline replay late:3 --project late
    """
    chosen = project_of(terminal, project)
    model, mark, given = version.rpartition("@" if "@" in version else ":")
    if not (mark and model and given):
        raise Invalid(f"{version!r} names no version; write it like late:3 or late@champion.")
    number = version_of(terminal, chosen, model, given)
    raise typer.Exit(replays.replay(terminal, chosen, model, number))


def _begun(terminal: Terminal, project: str, started: PipelineRun, detach: bool) -> None:
    short = started.id[-looks.SHORT :]
    if detach:
        terminal.show(started, sentence(lambda it: f"{it.pipeline} {short} is under way: falaj pipeline show {short} -f"))
        return
    terminal.say(f"{started.pipeline} {short}, version {started.version}, is under way.")
    sys.stdout.flush()
    raise typer.Exit(following.follow_run(terminal, project, started.id))


def _newest(terminal: Terminal, project: str, pipeline: str) -> str:
    found = terminal.call(declared.LIST_RUNS, declared.ListRuns(project=project, pipeline=pipeline, limit=1)).items
    if not found:
        raise NotFound(f"{pipeline} was never run, so there is nothing to take from: leave --from out.")
    return found[0].id


def _pipeline_or_run(terminal: Terminal, project: str, given: str, version: int = 0) -> Pipeline | PipelineRun:
    """A name may look like the digits of an id: then the pipeline is meant, where there is one."""
    try:
        return terminal.call(
            declared.SHOW_PIPELINE, declared.OnePipeline(project=project, pipeline=given.lower(), version=version)
        )
    except NotFound:
        if version or not (6 <= len(given) <= 32 and all(letter in _DIGITS for letter in given)):
            raise
    return terminal.call(declared.SHOW_RUN, declared.OneRun(project=project, run=given))


def _decide(terminal: Terminal, project: str, run: str, step: str, reason: str, *, agree: bool) -> None:
    name, item = looks.step_of(step)
    request = declared.Decide(project=project_of(terminal, project), run=run, step=name, item=item, agree=agree, reason=reason)
    done = "agreed to" if agree else "refused"
    terminal.run(declared.DECIDE_STEP, request, sentence(lambda it: f"{step} of {it.pipeline} is {done}."))


def _set_trigger(terminal: Terminal, project: str, pipeline: str, name: str, wish: Trigger, given: list[str] | None) -> None:
    known = terminal.call(declared.SHOW_PIPELINE, declared.OnePipeline(project=project, pipeline=pipeline))
    plain = [one for one in given or () if not pair_of(one)[1].startswith("trigger.")]
    happened = {key: {"$": text} for key, text in map(pair_of, given or ()) if text.startswith("trigger.")}
    parameters = {**parameters_of(plain, known.definition.parameters), **happened}
    request = trigger_operations.SetTrigger(
        project=project, pipeline=pipeline, trigger=name, wish=looks.with_parameters(wish, parameters)
    )
    url = terminal.access.url
    terminal.run(trigger_operations.SET_TRIGGER, request, lambda layout, made: looks.trigger_set(layout, made, pipeline, url))
