"""`falaj status` and `falaj console`: the running platform, seen from outside."""

import sys
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.base.errors import Unauthenticated, Unavailable
from falaj.base.values import Nothing, value
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.places import sign_in_link
from falaj.cli.terminal import Terminal
from falaj.governance.sessions.operations import LINK_SESSION
from falaj.operations.operations import HEALTH, READY, SHOW, PlatformInfo

if TYPE_CHECKING:
    from falaj.app import planes
else:
    planes = Deferred("falaj.app.planes")

commands = Commands("The running platform.")


@value
class Status:
    url: str
    version: str
    ready: bool
    trouble: str
    parts: dict[str, str]
    platform: PlatformInfo | None  # only those who are signed in may know
    serving: str = ""  # where the home's own serving plane answers, seen from this machine


@value
class ConsoleLink:
    link: str


@commands.command("status")
def status(terminal: Terminal) -> None:
    """Say whether the platform runs and how its parts are; the exit status is 1 when it is not ready.

    Example: falaj status --json
    """
    health = terminal.call(HEALTH, Nothing(), retry=False)
    try:
        parts, trouble = terminal.call(READY, Nothing(), retry=False).parts, ""
    except Unavailable as error:
        parts, trouble = {}, str(error)
    try:
        platform = terminal.call(SHOW, Nothing())
    except Unauthenticated:
        platform = None
    found = Status(
        url=terminal.access.url,
        version=health.version,
        ready=not trouble,
        trouble=trouble,
        parts=parts,
        platform=platform,
        serving=planes.running(terminal.home),
    )
    terminal.show(found, _status)
    if trouble:
        raise typer.Exit(1)


@commands.command("console")
def console(
    terminal: Terminal,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link only.")] = False,
) -> None:
    """Make a one-time sign-in link, print it, and open it in a browser where there is one.

    Example: falaj console --no-browser
    """
    link = sign_in_link(terminal.access.url, terminal.call(LINK_SESSION, Nothing()).code)
    terminal.show(ConsoleLink(link=link), lambda layout, it: layout.line(it.link))
    sys.stdout.flush()
    if not no_browser and not terminal.as_json and sys.stdout.isatty():
        webbrowser.open(link)


def _status(layout: Layout, found: Status) -> None:
    layout.line(f"Falaj {found.version} {'is ready' if found.ready else 'is not ready'} at {found.url}")
    if found.trouble:
        layout.line(found.trouble, style="red")
    rows = list(found.parts.items())
    if found.platform is not None:
        about = found.platform
        rows += [
            ("profile", about.profile),
            ("zone", f"{about.zone} ({about.country})"),
            ("storages", ", ".join(about.storages)),
        ]
    if found.serving:
        rows.append(("predictions", found.serving))
    layout.pairs(rows)
