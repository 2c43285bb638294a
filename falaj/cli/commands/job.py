"""`falaj job`: run a command when and where there is a share for it, and see why it waits and what it does."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from falaj.base.clock import SECOND, Moment
from falaj.cli.amounts import amount_told, memory_told, mib_of, seconds_of, span_told
from falaj.cli.choosing import InProject, moment_of, pair_of, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.deferred import Deferred
from falaj.cli.following import follow_job, write_safely
from falaj.cli.job_specs import unusual_of
from falaj.cli.layout import Layout, brief, shown, tell_of_more
from falaj.cli.terminal import Terminal, read_text
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job, Setting, Spec
from falaj.jobs.operations.words import Place, Resources

if TYPE_CHECKING:
    from falaj.client import packing
else:
    packing = Deferred("falaj.client.packing")

commands = Commands("Jobs: commands that run when and where there is a share for them.")
OfJob = Annotated[str, typer.Argument(help="The job's id, or the last digits of it.", show_default=False)]
_OVER: Final = ("done", "failed", "cancelled")


def _none(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, **more)


@commands.command("submit")
def submit(
    terminal: Terminal,
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --.", show_default=False)],
    name: Annotated[str, _none("What to call it; the program's name by default.")] = "",
    queue: Annotated[
        str, _none("The queue whose share it uses; yours by default.", envvar="FALAJ_QUEUE", show_envvar=False)
    ] = "",
    priority: Annotated[str, typer.Option(help="low, normal, high, urgent, or another class.")] = "normal",
    cpus: Annotated[float, typer.Option(help="Of each task.")] = 1.0,
    memory: Annotated[str, typer.Option(help="Of each task, such as 4GiB.")] = "1GiB",
    gpus: Annotated[float, typer.Option(help="Of each task: whole ones, or a part of one such as 0.5.")] = 0.0,
    gpu_model: Annotated[list[str] | None, _none("Only on this model. Repeatable.", metavar="MODEL")] = None,
    sharing: Annotated[Literal["mps", "time"], typer.Option(help="How a part of a GPU is shared.")] = "mps",
    io: Annotated[int, _none("Weight of its host's disks and network.", min=0)] = 0,
    tasks: Annotated[int, typer.Option(help="So many at once, or none.", min=1)] = 1,
    least: Annotated[int, _none("It makes do with so many.", min=0)] = 0,
    source: Annotated[Path, typer.Option(help="The folder it runs in; a copy of it is sent.")] = Path(),
    no_source: Annotated[bool, typer.Option("--no-source", help="Send no files.")] = False,
    lock: Annotated[str, _none("A requirements file with pinned versions to run with.", metavar="FILE")] = "",
    image: Annotated[str, _none("A container image to run in.")] = "",
    env: Annotated[list[str] | None, _none("A variable it sees. Repeatable.", metavar="NAME=VALUE")] = None,
    secret: Annotated[list[str] | None, _none("A secret it sees as a variable. Repeatable.", metavar="NAME")] = None,
    host: Annotated[list[str] | None, _none("A host it may reach. Repeatable.", metavar="NAME:PORT")] = None,
    permission: Annotated[list[str] | None, _none("What its token may do. Repeatable.", metavar="NAME")] = None,
    experiment: Annotated[str, _none("The experiment that its run is in.")] = "",
    takes: Annotated[str, _none("How long it will take, if you know, such as 2h.", metavar="SPAN")] = "",
    timeout: Annotated[str, typer.Option(help="It is ended after so long.", metavar="SPAN")] = "1d",
    deadline: Annotated[str, _none("When it should be done, such as 2026-12-01T18:00:00Z.", metavar="TIME")] = "",
    retries: Annotated[int, typer.Option(help="So many tries after the first.", min=0)] = 2,
    grace: Annotated[int, typer.Option(help="Seconds between being asked to stop and being made to.", min=0)] = 30,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Asked to stop, it saves what it did, and goes on from there.")
    ] = False,
    preemptible: Annotated[
        bool,
        typer.Option("--preemptible/--not-preemptible", help="Whether it may be asked to make room; if not, it cannot borrow."),
    ] = True,
    reads: Annotated[
        list[str] | None, _none("What it reads: run, model, version or dataset, and its id. Repeatable.", metavar="KIND=ID")
    ] = None,
    disk: Annotated[str, typer.Option(help="Room for its files, such as 20GiB.")] = "10GiB",
    label: Annotated[str, _none("For other jobs to keep away from it.")] = "",
    apart_from: Annotated[
        list[str] | None, _none("Not on a host with a job of this label. Repeatable.", metavar="LABEL")
    ] = None,
    topology: Annotated[
        Literal["any", "host", "rack", "spread"], typer.Option(help="Where its tasks are to each other.")
    ] = "any",
    zone: Annotated[str, _none("The zone it runs in; the project's first by default.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say where, when and at what cost.")] = False,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Show what it writes until it ends.")] = True,
    project: InProject = "",
) -> None:
    """Run a command as a job: says where and when, then shows what it writes.

    Example: falaj job submit --cpus 2 --memory 4GiB --project fraud -- python train.py --rounds 200
    """
    chosen = project_of(terminal, project)
    wish = Resources(
        cpus=cpus,
        memory_mib=mib_of(memory),
        gpus=gpus,
        gpu_models=tuple(gpu_model or ()),
        sharing=sharing if gpus % 1 else "mps",
        io=io,
    )
    settings = tuple(Setting(name=key, value=text) for key, text in map(pair_of, env or ()))
    digest = "" if no_source or dry_run else _sent(terminal, chosen, source, zone)
    spec = Spec(
        name=name,
        command=tuple(command),
        source=digest,
        lock=read_text(lock) if lock else "",
        image=image,
        resources=wish,
        tasks=tasks,
        least=least,
        queue=queue,
        priority=priority,
        zone=zone,
        seconds=seconds_of(takes) if takes else 0,
        timeout=seconds_of(timeout),
        retries=retries,
        grace=grace,
        deadline=moment_of(deadline) if deadline else None,
        variables=settings,
        secrets=tuple(secret or ()),
        hosts=tuple(host or ()),
        permissions=tuple(permission or ()),
        experiment=experiment,
        topology=topology,
        checkpoints=checkpoints,
        preemptible=preemptible,
        inputs=tuple(declared.Input(kind=kind, id=id) for kind, id in map(pair_of, reads or ())),
        disk_mib=mib_of(disk),
        label=label,
        apart_from=tuple(apart_from or ()),
    )
    request = declared.Submit(project=chosen, spec=spec)
    if dry_run:
        terminal.run(declared.PLAN_JOB, request, _planned)
        return
    made = terminal.call(declared.SUBMIT_JOB, request)
    _begun(terminal, chosen, made, follow)


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
    """Submit the same job again.

    Example: falaj job retry 5c6d7e --project fraud
    """
    chosen = project_of(terminal, project)
    _begun(terminal, chosen, terminal.call(declared.RETRY_JOB, declared.Retry(project=chosen, job=job)), follow)


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


def _sent(terminal: Terminal, project: str, folder: Path, zone: str) -> str:
    content, files = packing.packed(folder)
    if not files:
        return ""
    made = terminal.call(declared.UPLOAD_SOURCE, declared.UploadSource(project=project, zone=zone), chunks=[content])
    terminal.say(f"Sent {files} files of {folder} ({len(content) / 1e6:.1f} MB).")
    return made.digest


def _begun(terminal: Terminal, project: str, made: declared.Submitted, follow: bool) -> None:
    if terminal.as_json:
        terminal.show(made)
        return
    _planned(Layout(), made.plan, name=f"{made.job.name} ({made.job.id[-8:]})")
    if follow:
        code = follow_job(terminal, project, made.job.id)
        if code:
            raise typer.Exit(code)


def told(it: declared.Forecast) -> str:
    if it.reason.startswith("It is over"):
        return it.reason
    if it.expected is None:
        return f"nobody can say when it starts. {it.reason}".strip()
    if it.latest is None or it.earliest is None or it.latest - it.earliest < SECOND:
        return f"{_when(it.expected)}. {it.reason}".strip()
    return f"{_when(it.expected)}, most likely between {_when(it.earliest)} and {_when(it.latest)}. {it.reason}".strip()


def _when(moment: Moment) -> str:
    seconds = (moment - time.time() * SECOND) / SECOND
    return "now" if seconds < 1 else f"in {span_told(seconds)}"


def _planned(layout: Layout, plan: declared.Planned, name: str = "The job") -> None:
    where = ", ".join(sorted({place.node for place in plan.places}))
    prices = [f"{word} {amount / 1e6:.2f}" for word, amount in (("about", plan.cost), ("at most", plan.cost_most)) if amount]
    cost = f" It costs {', '.join(prices)}." if prices else ""
    starts = "starts " if plan.forecast.expected is not None else ""
    when = f"now on {where}. {plan.forecast.reason}".strip() if where else told(plan.forecast)
    layout.line(f"{name} in queue {plan.queue}: {starts}{when}{cost}")
    for remark in plan.remarks:
        layout.line(f"  {remark}")


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
