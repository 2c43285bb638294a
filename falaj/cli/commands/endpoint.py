"""`falaj endpoint`: who answers, who gets what, how it goes, and the tokens that open it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from falaj.base.errors import NotFound, Unavailable
from falaj.cli.choosing import InProject, an_id, project_of
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.commands.deploy import answering
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, listing, sentence, tell_of_more
from falaj.cli.overtaking import overtaking
from falaj.cli.splits import arm_of, described, percent_of, share_of
from falaj.cli.terminal import Terminal
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations import exports as exported
from falaj.serving.operations import keys
from falaj.serving.operations.words import Arm

if TYPE_CHECKING:
    from falaj.client import trials
else:
    trials = Deferred("falaj.client.trials")

commands = Commands("Endpoints: names that clients call, and the revisions that answer.")
key_commands = commands.group("key", "Long-lived keys for calling endpoints.")
OfEndpoint = Annotated[str, typer.Argument(help="The endpoint's name.", show_default=False)]
Reason = Annotated[str, typer.Option(help="Why; it stays on record.", show_default=False)]
Wait = Annotated[float, typer.Option(help="How long to wait until every plane answers so, in seconds.", min=0)]


def _kept(help: str, **more: Any) -> Any:
    """An option that leaves things as they are where it is not given."""
    return typer.Option(help=help, show_default=False, **more)


@commands.command("list")
def list_endpoints(terminal: Terminal, project: InProject = "", limit: Limit = 100, cursor: Cursor = "") -> None:
    """List a project's endpoints.

    Example: falaj endpoint list --project fraud
    """
    request = declared.ListEndpoints(project=project_of(terminal, project), limit=limit, cursor=cursor)
    terminal.run(declared.LIST_ENDPOINTS, request, _endpoints)


@commands.command("show")
def show(terminal: Terminal, endpoint: OfEndpoint, project: InProject = "") -> None:
    """Show an endpoint: who gets what, how it answers, what is wrong.

    Example: falaj endpoint show fraud --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.run(declared.SHOW_ENDPOINT, declared.OneEndpoint(project=chosen, endpoint=endpoint), _endpoint)


@commands.command("split")
def split(
    terminal: Terminal,
    endpoint: OfEndpoint,
    arms: Annotated[
        list[str], typer.Argument(help="REVISION=PERCENT, e.g. 3=90 4=10:challenger 5=100:shadow.", show_default=False)
    ],
    reason: Reason = "",
    wait: Wait = 60.0,
    project: InProject = "",
) -> None:
    """Say which revision gets which share of the traffic.

    Example: falaj endpoint split fraud 3=90 4=10:challenger --project fraud
    """
    chosen = project_of(terminal, project)
    request = declared.Split(project=chosen, endpoint=endpoint, arms=tuple(arm_of(arm) for arm in arms), reason=reason)
    with overtaking(terminal, chosen, endpoint):
        made = terminal.call(declared.SPLIT_TRAFFIC, request)
    _changed(terminal, chosen, made, wait)


@commands.command("promote")
def promote(
    terminal: Terminal,
    endpoint: OfEndpoint,
    revision: Annotated[
        int, typer.Option(help="Which one; the newest that has a part by default.", min=0, show_default=False)
    ] = 0,
    reason: Reason = "",
    wait: Wait = 60.0,
    project: InProject = "",
) -> None:
    """Give all traffic to one revision: the end of a canary that did well.

    Example: falaj endpoint promote fraud --project fraud
    """
    chosen = project_of(terminal, project)
    request = declared.PromoteRevision(project=chosen, endpoint=endpoint, revision=revision, reason=reason)
    with overtaking(terminal, chosen, endpoint):
        made = terminal.call(declared.PROMOTE_REVISION, request)
    _changed(terminal, chosen, made, wait)


@commands.command("rollback")
def rollback(
    terminal: Terminal,
    endpoint: OfEndpoint,
    reason: Reason = "",
    yes: Yes = False,
    wait: Wait = 60.0,
    project: InProject = "",
) -> None:
    """Go back to the split before the present one; again, to the one before that.

    Example: falaj endpoint rollback fraud --yes --project fraud
    """
    chosen = project_of(terminal, project)
    if not yes:
        now = terminal.call(declared.SHOW_ENDPOINT, declared.OneEndpoint(project=chosen, endpoint=endpoint))
        terminal.confirm(f"Now: {described(now)}. Go back to revision {now.back_to or '?'}?", yes)
    request = declared.RollBack(project=chosen, endpoint=endpoint, reason=reason)
    with overtaking(terminal, chosen, endpoint):
        made = terminal.call(declared.ROLL_BACK, request)
    _changed(terminal, chosen, made, wait)


@commands.command("configure")
def configure(
    terminal: Terminal,
    endpoint: OfEndpoint,
    latency_ms: Annotated[int | None, _kept("The latency objective.", min=1)] = None,
    concurrency: Annotated[int | None, _kept("Most calls at once on a worker; 0: by itself.", min=0)] = None,
    calls_per_second: Annotated[int | None, _kept("Of one caller; 0: any number.", min=0)] = None,
    nan: Annotated[Literal["allow", "refuse"] | None, _kept("NaN and infinity among inputs.")] = None,
    idle_seconds: Annotated[int | None, _kept("Out of memory after so long without a call; 0: never.", min=0)] = None,
    log_percent: Annotated[float | None, _kept("So many per cent of the calls are logged.")] = None,
    mask: Annotated[list[str] | None, _kept("A column that is never logged. Repeatable.", metavar="COLUMN")] = None,
    callback: Annotated[list[str] | None, _kept("A host that asynchronous answers may go to. Repeatable.")] = None,
    device: Annotated[Literal["auto", "cpu", "gpu"] | None, _kept("What it runs on.")] = None,
    wait: Wait = 60.0,
    project: InProject = "",
) -> None:
    """Set how an endpoint answers; what is left out stays.

    Example: falaj endpoint configure fraud --latency-ms 20 --log-percent 1 --mask card_number --project fraud
    """
    chosen = project_of(terminal, project)
    known = terminal.call(declared.SHOW_ENDPOINT, declared.OneEndpoint(project=chosen, endpoint=endpoint)).options
    given = {
        "latency_ms": latency_ms,
        "concurrency": concurrency,
        "calls_per_second": calls_per_second,
        "nan": nan,
        "idle_seconds": idle_seconds,
        "log_share": None if log_percent is None else share_of(log_percent),
        "masked": None if mask is None else tuple(mask),
        "callbacks": None if callback is None else tuple(callback),
        "device": device,
    }
    fields = {name: getattr(known, name) for name in declared.Options.__dataclass_fields__}
    options = declared.Options(**(fields | {name: one for name, one in given.items() if one is not None}))
    request = declared.Configure(project=chosen, endpoint=endpoint, options=options)
    terminal.show(_settled(terminal, chosen, terminal.call(declared.CONFIGURE, request), wait), _endpoint)


@commands.command("delete")
def delete(terminal: Terminal, endpoint: OfEndpoint, yes: Yes = False, project: InProject = "") -> None:
    """Stop answering under a name.

    Example: falaj endpoint delete fraud --yes --project fraud
    """
    terminal.confirm(f"Stop answering as {endpoint}? Callers will be refused.", yes)
    chosen = project_of(terminal, project)
    terminal.call(declared.DELETE_ENDPOINT, declared.OneEndpoint(project=chosen, endpoint=endpoint))
    terminal.told({"deleted": endpoint}, f"{endpoint} answers no more.")


@commands.command("history")
def history(terminal: Terminal, endpoint: OfEndpoint, project: InProject = "", limit: Limit = 100, cursor: Cursor = "") -> None:
    """List every change of who gets what, newest first.

    Example: falaj endpoint history fraud --project fraud
    """
    request = declared.ReadChanges(project=project_of(terminal, project), endpoint=endpoint, limit=limit, cursor=cursor)
    terminal.run(declared.READ_CHANGES, request, _changes)


@commands.command("revisions")
def revisions(
    terminal: Terminal, endpoint: OfEndpoint, project: InProject = "", limit: Limit = 100, cursor: Cursor = ""
) -> None:
    """List every revision an endpoint had, newest first.

    Example: falaj endpoint revisions fraud --project fraud
    """
    request = declared.ReadRevisions(project=project_of(terminal, project), endpoint=endpoint, limit=limit, cursor=cursor)
    terminal.run(
        declared.READ_REVISIONS,
        request,
        listing("number", "model", "version", "variant", "runtime", "size", "created", "quarantined"),
    )


@commands.command("traffic")
def traffic(
    terminal: Terminal,
    endpoint: OfEndpoint,
    minutes: Annotated[int, typer.Option(help="How far back.", min=1, max=43_200)] = 15,
    project: InProject = "",
) -> None:
    """Show rate, latencies and errors of late, by revision, and how busy the planes are.

    Example: falaj endpoint traffic fraud --minutes 60 --project fraud
    """
    request = declared.ReadTraffic(project=project_of(terminal, project), endpoint=endpoint, seconds=60 * minutes)
    terminal.run(declared.READ_TRAFFIC, request, _traffic)


@commands.command("test")
def try_out(
    terminal: Terminal,
    endpoint: OfEndpoint,
    calls: Annotated[int, typer.Option(help="How many calls for each revision.", min=1, max=1000)] = 20,
    project: InProject = "",
) -> None:
    """Ask every revision that has a part, with made-up rows, and say whether and how fast each answers. The exit status is 1
    where one does not.

    Example: falaj endpoint test fraud --project fraud
    """
    chosen = project_of(terminal, project)
    known = terminal.call(declared.SHOW_ENDPOINT, declared.OneEndpoint(project=chosen, endpoint=endpoint))
    if not known.url:
        raise Unavailable(f"No serving plane answers for {endpoint} now: {' '.join(known.problems) or 'none was heard of.'}")
    token = terminal.call(keys.ASK_FOR_TOKEN, keys.AskForToken(project=chosen, endpoint=endpoint)).token
    trust = terminal.access.trust_in_planes(known.certificates)
    revisions = [arm.revision for arm in known.arms]
    found = [trials.tried(known.url, token, endpoint, one, calls=calls, trust=trust) for one in revisions]
    terminal.show(trials.Trials(items=tuple(found)), _trials)
    if not all(one.ok for one in found):
        raise typer.Exit(1)


@commands.command("logs")
def logs(terminal: Terminal, endpoint: OfEndpoint, project: InProject = "", limit: Limit = 100, cursor: Cursor = "") -> None:
    """Show sampled calls with their inputs and answers, newest first. `falaj endpoint configure --log-percent` switches it on.

    Example: falaj endpoint logs fraud --project fraud
    """
    request = declared.ReadLogs(project=project_of(terminal, project), endpoint=endpoint, limit=limit, cursor=cursor)
    terminal.run(declared.READ_LOGS, request, listing("at", "revision", "status", "ms", "inputs", "outputs"))


@commands.command("certificates")
def certificates(terminal: Terminal, endpoint: OfEndpoint, project: InProject = "") -> None:
    """Print the certificates that an endpoint's planes show, for clients that know nobody who signed them.

    Example: falaj endpoint certificates fraud --project fraud
    """
    request = declared.OneEndpoint(project=project_of(terminal, project), endpoint=endpoint)
    known = terminal.call(declared.SHOW_ENDPOINT, request)
    if not known.certificates:
        raise NotFound(f"No plane answers for {endpoint} under TLS; its addresses: {', '.join(known.urls) or 'none'}.")
    terminal.told({"certificates": known.certificates}, "".join(known.certificates).rstrip("\n"))


@commands.command("token")
def token(
    terminal: Terminal,
    endpoint: Annotated[str, typer.Argument(help="For this endpoint alone; for all by default.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Print a short-lived token for calling endpoints.

    Example: falaj endpoint token fraud --project fraud
    """
    request = keys.AskForToken(project=project_of(terminal, project), endpoint=endpoint)
    terminal.run(keys.ASK_FOR_TOKEN, request, sentence(lambda made: made.token))


@commands.command("callback-secret")
def callback_secret(terminal: Terminal, endpoint: OfEndpoint, project: InProject = "") -> None:
    """Print what receivers verify this endpoint's callbacks with (Standard Webhooks).

    Example: falaj endpoint callback-secret fraud --project fraud
    """
    request = declared.OneEndpoint(project=project_of(terminal, project), endpoint=endpoint)
    terminal.run(exported.READ_CALLBACK_SECRET, request, sentence(lambda made: made.secret))


@key_commands.command("create")
def create_key(
    terminal: Terminal,
    label: Annotated[str, typer.Argument(help="What it is for.", show_default=False)],
    endpoint: Annotated[
        list[str] | None, typer.Option(help="For this endpoint; for all by default. Repeatable.", metavar="NAME")
    ] = None,
    days: Annotated[int, typer.Option(help="How long it holds.", min=1, max=366)] = 90,
    manage: Annotated[bool, typer.Option("--manage", help="May load and unload models through the protocol.")] = False,
    project: InProject = "",
) -> None:
    """Make a long-lived key for programs that call endpoints. It is shown this once.

    Example: falaj endpoint key create shop --endpoint fraud --days 90 --project fraud
    """
    request = keys.CreateKey(
        project=project_of(terminal, project), label=label, endpoints=tuple(endpoint or ()), days=days, manage=manage
    )
    terminal.run(keys.CREATE_KEY, request, sentence(lambda made: made.token))


@key_commands.command("list")
def list_keys(terminal: Terminal, project: InProject = "", limit: Limit = 100, cursor: Cursor = "") -> None:
    """List the keys of a project's endpoints.

    Example: falaj endpoint key list --project fraud
    """
    request = keys.ListKeys(project=project_of(terminal, project), limit=limit, cursor=cursor)
    terminal.run(keys.LIST_KEYS, request, listing("id", "label", "endpoints", "manage", "created", "expires", "revoked"))


@key_commands.command("revoke")
def revoke_key(
    terminal: Terminal,
    key: Annotated[str, typer.Argument(help="The key's id.", show_default=False, callback=an_id("key"))],
    project: InProject = "",
) -> None:
    """End a key.

    Example: falaj endpoint key revoke 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    terminal.call(keys.REVOKE_KEY, keys.RevokeKey(project=project_of(terminal, project), key=key))
    terminal.told({"revoked": key}, "Revoked; planes refuse it within a second.")


def _trials(layout: Layout, found: "trials.Trials") -> None:
    rows = [(one.revision, one.ok, f"{one.median_ms:.2f}", f"{one.longest_ms:.2f}", one.said) for one in found.items]
    layout.table(("revision", "answers", "median ms", "longest ms", "said"), rows)


def _changed(terminal: Terminal, project: str, endpoint: declared.Endpoint, wait: float) -> None:
    settled = _settled(terminal, project, endpoint, wait)
    terminal.show(settled, sentence(lambda it: f"{it.name}: {described(it)}."))


def _settled(terminal: Terminal, project: str, endpoint: declared.Endpoint, wait: float) -> declared.Endpoint:
    return answering(terminal, project, endpoint, patience=wait) if wait else endpoint


def _endpoints(layout: Layout, page: declared.Endpoints) -> None:
    rows = [(one.name, described(one), f"{one.ready} of {one.planes}", one.url, " ".join(one.problems)) for one in page.items]
    layout.table(("name", "traffic", "ready", "address", "problems"), rows)
    tell_of_more(page)


def _endpoint(layout: Layout, one: declared.Endpoint) -> None:
    cold = [revision for revision in one.revisions if revision.cold_start_ms]
    layout.pairs(
        [
            ("name", one.name),
            ("traffic", described(one)),
            ("answers on", f"{one.ready} of {one.planes} planes"),
            ("address", one.urls or None),
            ("rolls back to", one.back_to or None),
            ("next step", one.next_step),
            ("problems", one.problems),
            ("remarks", one.remarks or None),
            ("ladder", tuple(_rung(revision, rung) for revision in one.revisions for rung in revision.ladder) or None),
            ("looks up", tuple(dict.fromkeys(name for revision in one.revisions for name in revision.features)) or None),
            ("cold start", tuple(f"revision {revision.number}: {revision.cold_start_ms:.0f} ms" for revision in cold) or None),
            *((name.replace("_", " "), _option(name, one.options)) for name in declared.Options.__dataclass_fields__),
        ]
    )


def _option(name: str, options: declared.Options) -> Any:
    return percent_of(options.log_share) if name == "log_share" else getattr(options, name)


def _rung(revision: declared.Revision, rung: declared.Rung) -> str:
    workers = "1 worker" if rung.workers == 1 else f"{rung.workers} workers"
    now = f"answers on {workers}, " if rung.workers else ""
    falls = f", fallen to {'once' if rung.falls == 1 else f'{rung.falls:,} times'}" if rung.throughput else ""
    calls = "1 call" if rung.requests == 1 else f"{rung.requests:,} calls"
    return f"revision {revision.number}, {rung.name}: {now}{calls} answered{falls}"


def _changes(layout: Layout, page: declared.Changes) -> None:
    def shares(arms: tuple[Arm, ...]) -> str:
        return ", ".join(f"{arm.revision}: {percent_of(arm.share)}{' shadow' if arm.role == 'shadow' else ''}" for arm in arms)

    rows = [
        (one.at, one.kind, shares(one.before), shares(one.arms), one.by.name if one.by else "Falaj", one.reason)
        for one in page.items
    ]
    layout.table(("at", "what", "before", "after", "by", "why"), rows)
    tell_of_more(page)


def _traffic(layout: Layout, found: declared.Traffic) -> None:
    columns = (
        "at",
        "revision",
        "calls",
        "pinned",
        "a second",
        "errors",
        "shed",
        "unlogged",
        "rows a batch",
        "p50 ms",
        "p99 ms",
    )
    layout.table(
        columns,
        (
            (
                point.at,
                point.revision,
                point.requests,
                point.pinned,
                f"{point.requests / point.seconds:.1f}" if point.seconds else "-",
                point.errors,
                point.shed,
                point.unlogged or None,
                f"{point.rows / point.batches:.1f}" if point.batches else "-",
                f"{point.p50:.2f}",
                f"{point.p99:.2f}",
            )
            for point in found.points
        ),
    )
    for host in found.hosts:
        layout.line(host.sentence)
