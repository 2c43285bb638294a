"""`falaj job`: run a command when and where there is a share for it, and see why it waits and what it does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from falaj.cli.amounts import amount_told, memory_told, span_told
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.following import follow_job, write_safely
from falaj.cli.job_options import JobOptions, with_source
from falaj.cli.job_plans import begun, planned, told
from falaj.cli.job_specs import unusual_of
from falaj.cli.layout import Layout, brief, cell, shown, tell_of_more
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job
from falaj.jobs.operations.words import Place

commands = Commands("Jobs: commands that run when and where there is a share for them.")
OfJob = Annotated[str, typer.Argument(help="The job's id, or the last digits of it.", show_default=False)]
_OVER: Final = ("done", "failed", "cancelled")


def _none(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, **more)


@commands.command("submit")
def submit(
    terminal: Terminal,
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", show_default=False)],
    tasks: Annotated[int, typer.Option(help="So many at once, or none.", min=1)] = 1,
    least: Annotated[int, _none("It makes do with so many.", min=0)] = 0,
    source: Annotated[Path, typer.Option(help="The folder it runs in; a copy of it is sent.")] = Path(),
    no_source: Annotated[bool, typer.Option("--no-source", help="Send no files.")] = False,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Asked to stop, it saves what it did, and goes on from there.")
    ] = False,
    *,
    options: JobOptions,
) -> None:
    """Run a command as a job: says where and when, then shows what it writes.

    Example: falaj job submit --cpus 2 --memory 4GiB --project fraud -- python train.py --rounds 200
    """
    chosen = project_of(terminal, options.project)
    asked = options.spec(command=tuple(command), tasks=tasks, least=least, checkpoints=checkpoints)
    if options.dry_run:
        terminal.run(declared.PLAN_JOB, declared.Submit(project=chosen, spec=asked), planned)
        return
    spec = asked if no_source else with_source(terminal, chosen, asked, source)
    begun(terminal, chosen, terminal.call(declared.SUBMIT_JOB, declared.Submit(project=chosen, spec=spec)), options.follow)


@commands.command("list")
def list_jobs(
    terminal: Terminal,
    state: Annotated[str, _none("waiting, running, live, over, done, failed or cancelled.")] = "",
    queue: Annotated[str, _none("Of this queue.")] = "",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List jobs, newest first.

    Example: falaj job list --state live --project fraud
    """
    request = declared.ListJobs(project=project_of(terminal, project), state=state, queue=queue, limit=limit, cursor=cursor)
    terminal.run(declared.LIST_JOBS, request, _jobs)


@commands.command("show")
def show(terminal: Terminal, job: OfJob, project: InProject = "") -> None:
    """Show a job: what it is, where it is, what it used, what happened to it.

    Example: falaj job show 5c6d7e --project fraud
    """
    chosen = project_of(terminal, project)
    found = terminal.call(declared.SHOW_JOB, declared.OneJob(project=chosen, job=job))
    if terminal.as_json:
        terminal.show(found)
        return
    happened = terminal.call(declared.READ_EVENTS, declared.ReadEvents(project=chosen, job=found.id)).items
    ran = () if found.places or not found.attempts else _last_places(terminal, chosen, found.id)
    _job(Layout(), found, ran)
    Layout().table(("when", "what", "words"), [(event.at, event.kind, event.words) for event in happened])


@commands.command("logs")
def logs(
    terminal: Terminal,
    job: OfJob,
    attempt: Annotated[int, _none("Of this try; of the last by default.", min=0)] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
    project: InProject = "",
) -> None:
    """Print what a job wrote.

    Example: falaj job logs 5c6d7e --follow --project fraud
    """
    chosen = project_of(terminal, project)
    if follow and not terminal.as_json:
        raise typer.Exit(follow_job(terminal, chosen, job))
    offset, texts = 0, []
    while True:
        part = terminal.call(declared.READ_LOG, declared.ReadLog(project=chosen, job=job, attempt=attempt, offset=offset))
        if terminal.as_json:
            texts.append(part.text)
        else:
            write_safely(part.text)
        if part.note:
            terminal.say(part.note)
        if part.next == offset:
            break
        offset = part.next
    if terminal.as_json:
        terminal.print_json({"text": "".join(texts), "next": offset})


@commands.command("cancel")
def cancel(
    terminal: Terminal,
    job: OfJob,
    reason: Annotated[str, _none("Why; it stays on record.")] = "",
    yes: Yes = False,
    project: InProject = "",
) -> None:
    """Stop a job, or take it out of its queue.

    Example: falaj job cancel 5c6d7e --yes --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.confirm(f"Cancel the job {job}?", yes)
    request = declared.Cancel(project=chosen, job=job, reason=reason)
    done = terminal.call(declared.CANCEL_JOB, request)
    terminal.told(
        {"id": done.id, "state": done.state}, f"{done.name} is {'cancelled' if done.state in _OVER else 'being stopped'}."
    )


@commands.command("retry")
def retry(
    terminal: Terminal,
    job: OfJob,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Show what it writes until it ends.")] = True,
    project: InProject = "",
) -> None:
    """Submit the same job again. Where it saved checkpoints and was not done, it goes on from those.

    Example: falaj job retry 5c6d7e --project fraud
    """
    chosen = project_of(terminal, project)
    made = terminal.call(declared.RETRY_JOB, declared.Retry(project=chosen, job=job))
    for before in made.job.spec.continues[:1]:
        terminal.say(_goes_on_from(terminal.call(declared.SHOW_JOB, declared.OneJob(project=chosen, job=before))))
    begun(terminal, chosen, made, follow)


@commands.command("why")
def why(terminal: Terminal, job: OfJob, project: InProject = "") -> None:
    """Say why a job waits: which rule, which share, who is before it.

    Example: falaj job why 5c6d7e --project fraud
    """
    terminal.run(declared.EXPLAIN_JOB, declared.OneJob(project=project_of(terminal, project), job=job), _why)


@commands.command("eta")
def eta(terminal: Terminal, job: OfJob, project: InProject = "") -> None:
    """Say when a job will start, as an interval that holds four times in five.

    Example: falaj job eta 5c6d7e --project fraud
    """
    terminal.run(
        declared.FORECAST_JOB,
        declared.OneJob(project=project_of(terminal, project), job=job),
        lambda layout, it: layout.line(told(it)[:1].upper() + told(it)[1:]),
    )


def _goes_on_from(before: Job) -> str:
    """A script that saves where it should need not say so to the platform."""
    saved = (
        f" the last that it told of is of {cell(before.checkpointed)}"
        if before.checkpointed
        else " it did not say that it saved any"
    )
    return f"It goes on from what {before.name} ({before.id[-8:]}) saved in its checkpoints;{saved}."


def _jobs(layout: Layout, page: declared.Jobs) -> None:
    rows = [
        (
            one.id[-8:],
            one.name,
            one.state,
            one.queue if one.priority == "normal" else f"{one.queue}, {one.priority}",
            brief(one.submitted),
            shown(one.words)[:60],
        )
        for one in page.items
    ]
    layout.table(("job", "name", "state", "queue", "submitted", "words"), rows)
    tell_of_more(page)


def _last_places(terminal: Terminal, project: str, job: str) -> tuple[Place, ...]:
    """Where it ran last, of one that runs nowhere now."""
    tries = terminal.call(declared.LIST_ATTEMPTS, declared.OneJob(project=project, job=job)).items
    return tries[0].places if tries else ()


def _job(layout: Layout, one: Job, ran: Sequence[Place]) -> None:
    wish, used = one.spec.resources, one.usage
    layout.pairs(
        [
            ("id", one.id),
            ("name", one.name),
            ("state", f"{one.state}: {one.words}" if one.words else one.state),
            ("command", " ".join(one.spec.command)),
            ("queue", f"{one.queue}, {one.priority}"),
            ("asked for", f"{one.spec.tasks} x {wish.cpus:g} CPUs, {memory_told(wish.memory_mib)}, {wish.gpus:g} GPUs"),
            *unusual_of(one.spec),
            ("ran on" if ran else "places", [f"{place.node} {list(place.cards) or ''}".strip() for place in ran or one.places]),
            ("submitted", f"{str(one.submitted)[:19]}Z by {one.submitted_by.name or one.submitted_by.id}"),
            ("started", one.started),
            ("ended", one.ended),
            ("tries", one.attempts),
            ("progress", f"{one.progress:.0%}" if one.progress else None),
            ("checkpoint", one.checkpointed),
            ("CPU", f"{span_told(used.cpu_seconds)} of {span_told(used.cpu_seconds_asked)}"),
            ("memory", f"at most {memory_told(used.memory_mib_peak)}"),
            (
                "GPU",
                f"held {span_told(used.gpu_seconds)}, busy {span_told(used.gpu_busy_seconds)}" if used.gpu_seconds else None,
            ),
            ("cost", f"{used.cost / 1e6:.2f}" if used.cost else None),
            ("run", one.run),
            ("stands out", one.flags or None),
        ]
    )


def _why(layout: Layout, it: declared.Why) -> None:
    layout.line(it.sentence)
    if it.before:
        layout.line(f"{it.before} {'job is' if it.before == 1 else 'jobs are'} before it in its queue.")
    if it.shares:
        rows = [
            (
                one.resource,
                *(
                    amount_told(one.resource, part)
                    for part in (one.asked, one.nominal, one.used, one.borrowed, one.lent, one.free)
                ),
            )
            for one in it.shares
        ]
        layout.table(("resource", "asked", "owed", "used", "borrowed", "lent", "free"), rows)
    for hint in it.hints:
        layout.line(hint)
