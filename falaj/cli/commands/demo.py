"""`falaj demo`: the first ten minutes, on a platform of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.base.errors import Conflict, Invalid
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal

if TYPE_CHECKING:
    from falaj.cli.demo import showing, stage
else:
    showing, stage = Deferred("falaj.cli.demo.showing"), Deferred("falaj.cli.demo.stage")

commands = Commands("The first ten minutes.")
PARTS = {
    "flights": "a year of flights: from raw data to a model that is replaced by a better one",
    "audit": "what was in production then, proven",
    "outage": "predictions without a control plane",
    "rollback": "a bad model goes back by itself",
    "residency": "data stays sealed and at home",
    "queues": "two teams share this machine",
    "certificate": "the champion made small, with a certificate",
}


@commands.command("demo")
def demo(
    terminal: Terminal,
    part: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(PARTS)}; all of them by default.", show_default=False)
    ] = None,
    ends: Annotated[bool, typer.Option("--exit", help="End after the last step; else the console stays open.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Make everything here, and leave it; else it is removed.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Where the HTML report goes; with --exit falaj-demo.html, else it is removed with the rest.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Play a year of real flights on a throw-away platform: train, serve, be surprised, retrain, prove; then the other parts.

    Example: falaj demo flights outage --report demo.html
    """
    if terminal.given_home is not None:
        raise Invalid("The demo makes a platform of its own, so --home has no meaning here; --folder says where it is made.")
    chosen = list(dict.fromkeys(part or PARTS))
    if unknown := [name for name in chosen if name not in PARTS]:
        raise Invalid(f"The demo has no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
    try:
        ended = showing.show(chosen, folder=folder, kept=report, stay=not ends, quiet=terminal.as_json)
    except stage.Unexpected as error:
        raise Conflict(f"The demo failed: {error}") from error
    if terminal.as_json:
        terminal.show(ended)
