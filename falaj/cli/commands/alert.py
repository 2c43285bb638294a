"""`falaj alert`: what needs somebody, who was told, and what was done about it."""

from typing import Annotated, Literal

import typer

from falaj.cli.amounts import share_told
from falaj.cli.choosing import InProject, an_id, project_of
from falaj.cli.command import Commands, Cursor, Limit
from falaj.cli.layout import Layout, brief, sentence, tell_of_more
from falaj.cli.terminal import Terminal
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.alerts import Action, Alert
from falaj.serving.operations.endpoints import SHOW_ENDPOINT, OneEndpoint

commands = Commands("Alerts: what monitors found, and what was done about it.")
OfAlert = Annotated[str, typer.Argument(help="The alert's id.", show_default=False, callback=an_id("alert"))]
OfAction = Annotated[
    str,
    typer.Argument(help="The action's id; `falaj alert show` has it.", show_default=False, callback=an_id("action")),
]


@commands.command("list")
def list_alerts(
    terminal: Terminal,
    which: Annotated[Literal["open", "over", "all"], typer.Option(help="Which ones.")] = "open",
    endpoint: Annotated[str, typer.Option(help="Of this endpoint alone.", show_default=False)] = "",
    project: InProject = "",
    limit: Limit = 100,
    cursor: Cursor = "",
) -> None:
    """List alerts, newest first; those that are open by default.

    Example: falaj alert list --endpoint fraud --which all --project fraud
    """
    chosen = project_of(terminal, project)
    request = declared.ListAlerts(project=chosen, endpoint=endpoint, which=which, limit=limit, cursor=cursor)
    page = terminal.call(declared.LIST_ALERTS, request)
    if endpoint and not page.items and not cursor:  # alerts outlive their endpoint; where there are none, it may be mistyped
        terminal.call(SHOW_ENDPOINT, OneEndpoint(project=chosen, endpoint=endpoint))
    terminal.show(page, _alerts)


@commands.command("show")
def show(terminal: Terminal, alert: OfAlert, project: InProject = "") -> None:
    """Show an alert: what changed, who was told, what was done, and what waits for somebody's word.

    Example: falaj alert show 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    request = declared.OneAlert(project=project_of(terminal, project), alert=alert)
    terminal.run(declared.SHOW_ALERT, request, _alert)


@commands.command("acknowledge")
def acknowledge(terminal: Terminal, alert: OfAlert, project: InProject = "") -> None:
    """Say that you see to it: nobody is reminded, and it goes to nobody else.

    Example: falaj alert acknowledge 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    request = declared.OneAlert(project=project_of(terminal, project), alert=alert)
    terminal.run(declared.ACKNOWLEDGE_ALERT, request, sentence(_acknowledged))


@commands.command("approve")
def approve(terminal: Terminal, action: OfAction, project: InProject = "") -> None:
    """Agree to what an alert would do; it is done within seconds.

    Example: falaj alert approve 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    _decide(terminal, project_of(terminal, project), action, agree=True)


@commands.command("refuse")
def refuse(terminal: Terminal, action: OfAction, project: InProject = "") -> None:
    """Refuse what an alert would do.

    Example: falaj alert refuse 0199a1b2c3d4e5f60718293a4b5c6d7e --project fraud
    """
    _decide(terminal, project_of(terminal, project), action, agree=False)


def _decide(terminal: Terminal, project: str, action: str, *, agree: bool) -> None:
    request = declared.DecideAction(project=project, action=action, agree=agree)
    terminal.run(
        declared.DECIDE_ACTION,
        request,
        sentence(lambda alert: next(f"{one.kind}: {one.words}" for one in alert.actions if one.id == action)),
    )


def _acknowledged(alert: Alert) -> str:
    return f"{alert.acknowledged_by.name if alert.acknowledged_by else 'Somebody'} sees to it: {alert.title}."


def _state(alert: Alert) -> str:
    if alert.resolved is not None:
        return "over"
    return "open" if alert.acknowledged_by is None else f"{alert.acknowledged_by.name} sees to it"


def _alerts(layout: Layout, page: declared.Alerts) -> None:
    rows = [
        (one.id, brief(one.raised), one.endpoint, one.severity, one.title, _state(one), tuple(map(_done, one.actions)))
        for one in page.items
    ]
    layout.table(("alert", "raised", "endpoint", "severity", "what", "state", "actions"), rows)
    for one in page.items:
        if _unheard(one):
            layout.line(f"Nobody was reached by {one.id}: {one.sent[-1].problem} `falaj alert show` has all attempts.")
    tell_of_more(page)


def _unheard(alert: Alert) -> bool:
    """Whether it was sent, and no channel has taken anything of it."""
    return bool(alert.sent) and all(one.at is None and one.problem for one in alert.sent)


def _done(action: Action) -> str:
    return f"{action.kind} {action.state}"


def _alert(layout: Layout, one: Alert) -> None:
    layout.pairs(
        [
            ("alert", one.id),
            ("endpoint", one.endpoint),
            ("what", f"{one.title} ({one.kind}, {one.severity})"),
            ("state", _state(one)),
            ("raised", one.raised),
            ("since", one.since),
            ("last seen", f"{str(one.seen)[:19]}Z, {'once' if one.sightings == 1 else f'{one.sightings:,} times'} in all"),
            ("over", one.resolved),
            ("words", "\n".join(one.sentences)),
        ]
    )
    if one.columns:
        layout.line()
        rows = [(it.column, f"{it.effect:.3f}", share_told(it.missing), share_told(it.outside)) for it in one.columns]
        layout.table(("column", "effect", "missing", "outside"), rows)
    if one.actions:
        layout.line()
        layout.table(("action", "what", "state", "words"), [(it.id, it.kind, it.state, it.words) for it in one.actions])
    if one.sent:
        layout.line()
        layout.table(
            ("message", "to", "sent", "tries", "problem"),
            [(it.what, it.channel, it.at, it.tries, it.problem) for it in one.sent],
        )
