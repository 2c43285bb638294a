"""`falaj monitor`: what is watched of endpoints, how they are, and whether one dataset is still like another."""

from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from falaj.base.clock import SystemClock
from falaj.base.errors import NotFound
from falaj.cli import monitor_wishes
from falaj.cli.amounts import fraction_of, seconds_of
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import save
from falaj.monitoring.operations import checks, monitors, objectives
from falaj.serving.operations.endpoints import LIST_ENDPOINTS, ListEndpoints

if TYPE_CHECKING:
    from falaj.cli import monitor_looks as looks
    from falaj.web.reports import gathering, page
else:
    looks = Deferred("falaj.cli.monitor_looks")
    gathering, page = Deferred("falaj.web.reports.gathering"), Deferred("falaj.web.reports.page")

commands = Commands("Monitors: what is watched of endpoints, and how they are.")
OfEndpoint = Annotated[str, typer.Argument(help="The endpoint's name.", show_default=False)]
OfRevision = Annotated[int, typer.Option(help="Which one; the one with most traffic by default.", min=0, show_default=False)]
Season = Literal["none", "hour", "week"]
_ASKS: Final = 0.2  # seconds


def _kept(help: str, **more: Any) -> Any:
    """An option that leaves things as they are where it is not given."""
    return typer.Option(help=help, show_default=False, **more)


@commands.command("apply")
def apply(
    terminal: Terminal,
    endpoint: OfEndpoint,
    file: Annotated[str, typer.Option(help="A TOML file with what is wished; options win. - is standard input.")] = "",
    reference: Annotated[str | None, _kept("Rows to compare with, e.g. flights@3; '' to learn from the traffic.")] = None,
    time: Annotated[str | None, _kept("The reference's column of moments, for a season.", metavar="COLUMN")] = None,
    ignore: Annotated[list[str] | None, _kept("A column not to watch; '' for none. Repeatable.", metavar="COLUMN")] = None,
    window: Annotated[str | None, _kept("How long a window is, e.g. 60 or 5m.")] = None,
    learn_rows: Annotated[int | None, _kept("Rows that are learnt from, where nothing is known.", min=1)] = None,
    floor: Annotated[str | None, _kept("The distance from which on a change matters: 0.1, or 10%.")] = None,
    one_in: Annotated[int | None, _kept("At most one false alarm in so many windows.", min=1)] = None,
    season: Annotated[Season | None, _kept("Compare with the same hour of the day, or of the week.")] = None,
    timezone: Annotated[str | None, _kept("Whose hours, e.g. Asia/Dubai.")] = None,
    quiet: Annotated[int | None, _kept("Windows without a sighting, until an alert is over.", min=1)] = None,
    channel: Annotated[list[str] | None, _kept("Where alerts go; '' for nowhere. Repeatable.", metavar="NAME")] = None,
    escalate_to: Annotated[list[str] | None, _kept("Where alerts go that nobody sees to. Repeatable.", metavar="NAME")] = None,
    escalate_after: Annotated[str | None, _kept("After how long, e.g. 30m.")] = None,
    remind_after: Annotated[str | None, _kept("After how long an alert is told again; 0: never.")] = None,
    action: Annotated[
        list[str] | None,
        _kept(
            "What an alert makes happen: roll-back, pause-canary, fall-back, retrain,pipeline=NAME; '' for nothing. Repeatable."
        ),
    ] = None,
    objective: Annotated[
        list[str] | None, _kept("availability=99.9% or latency=99%@100ms; '' for none. Repeatable.", metavar="OBJECTIVE")
    ] = None,
    quality: Annotated[
        list[str] | None, _kept("auc>=0.8, gap(region)<=0.1, and /30d over a month; '' for none. Repeatable.", metavar="BOUND")
    ] = None,
    relearn: Annotated[bool, typer.Option("--relearn", help="Forget what was learnt, and learn anew.")] = False,
    wait: Annotated[float, typer.Option(help="How long to wait until every plane watches so, in seconds.", min=0)] = 60.0,
    project: InProject = "",
) -> None:
    """Watch an endpoint, or change how; what is left out stays. Waits until its planes do.

    An action may say more, separated by commas: on=drift+quality, cooldown=1d, most=3, approval, variant=int8, job=ID.

    Example: falaj monitor apply fraud --reference payments@3 --channel team --objective availability=99.9% --project fraud
    """
    chosen = project_of(terminal, project)
    given = {
        "reference": reference,
        "time": time,
        "ignore": _several(ignore),
        "window": None if window is None else seconds_of(window),
        "learn_rows": learn_rows,
        "floor": None if floor is None else fraction_of(floor, "--floor"),
        "one_in": one_in,
        "season": season,
        "timezone": timezone,
        "quiet": quiet,
        "channels": _several(channel),
        "escalate_to": _several(escalate_to),
        "escalate_after": None if escalate_after is None else seconds_of(escalate_after),
        "remind_after": None if remind_after is None else seconds_of(remind_after),
        "actions": None if action is None else tuple(monitor_wishes.action_of(one) for one in action if one),
        "objectives": None if objective is None else tuple(monitor_wishes.objective_of(one) for one in objective if one),
        "quality": None if quality is None else tuple(monitor_wishes.bound_of(one) for one in quality if one),
    }
    options = {name: one for name, one in given.items() if one is not None}
    read = monitor_wishes.wishes_in(file) if file else {}
    before = _known(terminal, chosen, endpoint)
    wishes = monitor_wishes.merged(before, read, options)
    request = monitors.ApplyMonitor(project=chosen, endpoint=endpoint, wishes=wishes, relearn=relearn)
    made = _heard(terminal, chosen, terminal.call(monitors.APPLY_MONITOR, request, patience=600.0), wait)
    terminal.show(made, lambda layout, one: _applied(layout, before, one, relearn=relearn))


@commands.command("list")
def list_monitors(terminal: Terminal, project: InProject = "", limit: Limit = 100, cursor: Cursor = "") -> None:
    """List a project's monitors: how its endpoints are, at a glance.

    Example: falaj monitor list --project fraud
    """
    chosen = project_of(terminal, project)
    page = terminal.run(
        monitors.LIST_MONITORS, monitors.ListMonitors(project=chosen, limit=limit, cursor=cursor), looks.monitors
    )
    if terminal.as_json or cursor or page.next:
        return
    there = terminal.call(LIST_ENDPOINTS, ListEndpoints(project=chosen, limit=1000)).items
    watched = {one.endpoint for one in page.items}
    if others := [one.name for one in there if one.name not in watched]:
        terminal.say(f"Not watched: {', '.join(others[:10])}{' and others' if len(others) > 10 else ''}.")


@commands.command("show")
def show(terminal: Terminal, endpoint: OfEndpoint, project: InProject = "") -> None:
    """Say how an endpoint's traffic is, then its columns, the furthest first.

    Example: falaj monitor show fraud --project fraud
    """
    request = monitors.OneMonitor(project=project_of(terminal, project), endpoint=endpoint)
    terminal.run(monitors.SHOW_MONITOR, request, looks.monitor)


@commands.command("check")
def check(
    terminal: Terminal,
    dataset: Annotated[str, typer.Argument(help="The version to look at, e.g. flights@2.", show_default=False)],
    reference: Annotated[str, typer.Option(help="What it is held against, e.g. flights@1.", show_default=False)],
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out. Repeatable.", metavar="COLUMN")] = None,
    floor: Annotated[str, typer.Option(help="The distance from which on a change matters: 0.1, or 10%.")] = "0.1",
    one_in: Annotated[int, typer.Option(help="At most one false alarm in so many checks.", min=1)] = 1000,
    sampled: Annotated[int, typer.Option(help="Also tell so many rows of each apart, by all columns together.", min=0)] = 0,
    fail_on_drift: Annotated[bool, typer.Option("--fail-on-drift", help="End with status 1 where something drifted.")] = False,
    project: InProject = "",
) -> None:
    """Hold a version of a dataset against another: which columns drifted, and how far.

    Example: falaj monitor check flights@2 --reference flights@1 --fail-on-drift --project travel
    """
    request = checks.CheckVersion(
        project=project_of(terminal, project),
        dataset=dataset,
        reference=reference,
        ignore=tuple(ignore or ()),
        floor=fraction_of(floor, "--floor"),
        one_in=one_in,
        sampled=sampled,
    )
    found = terminal.call(checks.CHECK_VERSION, request, patience=600.0)
    terminal.show(found, looks.check)
    if found.drifting and fail_on_drift:
        raise typer.Exit(1)


@commands.command("report")
def report(
    terminal: Terminal,
    endpoint: OfEndpoint,
    out: Annotated[str, typer.Option(help="Where the file goes; - is standard output.")] = "report.html",
    days: Annotated[int, typer.Option(help="How far back quality is told.", min=1, max=366)] = 30,
    project: InProject = "",
) -> None:
    """Write an HTML report to send on: one file, with all that you may see of an endpoint, and nothing that runs.

    Example: falaj monitor report fraud --out fraud.html --project fraud
    """
    chosen = project_of(terminal, project)
    found = gathering.gathered(terminal.call, chosen, endpoint, days=days)
    written = save([page.report(found, SystemClock().now()).encode()], out)
    terminal.told({"written": out, "bytes": written}, f"Written to {out}.", file=out)


@commands.command("delete")
def delete(terminal: Terminal, endpoint: OfEndpoint, yes: Yes = False, project: InProject = "") -> None:
    """Watch an endpoint no more. Its alerts stay.

    Example: falaj monitor delete fraud --yes --project fraud
    """
    terminal.confirm(f"Watch {endpoint} no more? What was learnt of it is forgotten.", yes)
    terminal.call(monitors.DELETE_MONITOR, monitors.OneMonitor(project=project_of(terminal, project), endpoint=endpoint))
    terminal.told({"deleted": endpoint}, f"{endpoint} is not watched any more.")


@commands.command("windows")
def windows(
    terminal: Terminal,
    endpoint: OfEndpoint,
    revision: OfRevision = 0,
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List what came out of each window of traffic, newest first.

    Example: falaj monitor windows fraud --limit 20 --project fraud
    """
    chosen = project_of(terminal, project)
    request = monitors.ReadWindows(project=chosen, endpoint=endpoint, revision=revision, limit=limit, cursor=cursor)
    terminal.run(monitors.READ_WINDOWS, request, looks.windows)


@commands.command("column")
def column(
    terminal: Terminal,
    endpoint: OfEndpoint,
    column: Annotated[str, typer.Argument(help="The column's name.", show_default=False)],
    revision: OfRevision = 0,
    last: Annotated[int, typer.Option(help="So many of the last windows; 0: those since it changed.", min=0, max=200)] = 0,
    project: InProject = "",
) -> None:
    """Show how a column is spread in the reference and lately.

    Example: falaj monitor column fraud amount --last 20 --project fraud
    """
    chosen = project_of(terminal, project)
    request = monitors.ReadColumn(project=chosen, endpoint=endpoint, column=column, revision=revision, windows=last)
    terminal.run(monitors.READ_COLUMN, request, looks.spread)


@commands.command("objectives")
def show_objectives(terminal: Terminal, endpoint: OfEndpoint, project: InProject = "") -> None:
    """Show how an endpoint's calls do against its objectives: what burns, and what is left of the budget of errors.

    Example: falaj monitor objectives fraud --project fraud
    """
    request = objectives.ReadObjectives(project=project_of(terminal, project), endpoint=endpoint)
    terminal.run(objectives.READ_OBJECTIVES, request, looks.objectives)


def _several(given: list[str] | None) -> tuple[str, ...] | None:
    """An empty one stands for none at all."""
    return None if given is None else tuple(one for one in given if one)


def _known(terminal: Terminal, project: str, endpoint: str) -> monitors.Wishes | None:
    """Nothing where it is not watched yet; whether there is such an endpoint is for the platform to say."""
    try:
        return terminal.call(monitors.SHOW_MONITOR, monitors.OneMonitor(project=project, endpoint=endpoint)).wishes
    except NotFound:
        return None


def _heard(terminal: Terminal, project: str, one: monitors.Monitor, patience: float) -> monitors.Monitor:
    """Once no plane is behind, or nobody wants to wait any longer: rows that are asked for sooner may not be counted."""
    deadline = monotonic() + patience
    while one.behind and monotonic() < deadline:
        sleep(_ASKS)
        one = terminal.call(monitors.SHOW_MONITOR, monitors.OneMonitor(project=project, endpoint=one.endpoint))
    return one


def _applied(layout: Layout, before: monitors.Wishes | None, one: monitors.Monitor, *, relearn: bool) -> None:
    told = [] if before is None else monitor_wishes.changes(before, one.wishes)
    if before is None:
        against = one.wishes.reference or f"the first {one.wishes.learn_rows:,} rows that it answers"
        layout.line(f"{one.endpoint} is watched from now on, in windows of {one.wishes.window} s, against {against}.")
    elif not told:
        layout.line(f"{one.endpoint} is watched as before.")
    for name, old, new in told:
        layout.line(f"{name}: {old} -> {new}")
    if relearn:
        layout.line("All that was learnt is learnt anew.")
    if one.behind:
        layout.line(f"{one.behind} serving plane(s) have not heard of it yet: what they answer until then may not be counted.")
