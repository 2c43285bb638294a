"""`falaj channel`: where alerts are sent."""

import sys
from typing import Annotated, Final, Literal

import typer

from falaj.base.errors import Invalid
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands, Yes
from falaj.cli.layout import Layout, listing
from falaj.cli.terminal import Terminal
from falaj.monitoring.operations import alerts as declared

commands = Commands("Channels: webhooks, mail and chats that alerts go to.")
OfChannel = Annotated[str, typer.Argument(help="Its name, as monitors call it.", show_default=False)]
Kind = Literal["webhook", "apprise"]
_WEBHOOK: Final = ("https://", "http://")


@commands.command("set")
def set_channel(
    terminal: Terminal,
    name: OfChannel,
    address: Annotated[
        str,
        typer.Argument(
            help="Where: https://... for a webhook, or a service as apprise writes it. Left out it is asked for, or read from "
            "standard input: a command line is seen by others.",
            show_default=False,
        ),
    ] = "",
    project: InProject = "",
) -> None:
    """Say where alerts are sent. Webhooks are signed with a secret that is shown this once.

    Example: falaj channel set team https://hooks.example.com/falaj --project fraud
    """
    chosen = project_of(terminal, project)
    url = address or _asked(name)
    kind: Kind = "webhook" if url.lower().startswith(_WEBHOOK) else "apprise"
    request = declared.SetChannel(project=chosen, channel=name, kind=kind, url=url)
    terminal.run(declared.SET_CHANNEL, request, _made)


@commands.command("list")
def list_channels(terminal: Terminal, project: InProject = "") -> None:
    """List a project's channels, without what is secret in their addresses.

    Example: falaj channel list --project fraud
    """
    request = declared.ListChannels(project=project_of(terminal, project))
    terminal.run(declared.LIST_CHANNELS, request, listing("name", "kind", "shown", "changed", "changed_by"))


@commands.command("delete")
def delete_channel(terminal: Terminal, name: OfChannel, yes: Yes = False, project: InProject = "") -> None:
    """Send alerts there no more. What still waits to be sent there is given up.

    Example: falaj channel delete team --yes --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.confirm(f"Delete the channel {name}?", yes)
    terminal.call(declared.DELETE_CHANNEL, declared.OneChannel(project=chosen, channel=name))
    terminal.told({"deleted": name}, f"{name} is deleted.")


def _asked(name: str) -> str:
    text = typer.prompt(f"Address of {name}", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    if not (found := text.strip()):
        raise Invalid("No address was given; name one, or write it to standard input.")
    return str(found)


def _made(layout: Layout, made: declared.NewChannel) -> None:
    layout.line(f"{made.channel.name} sends to {made.channel.shown}.")
    if made.secret:
        layout.line(f"Its messages are signed; receivers verify them with this secret, which is shown this once: {made.secret}")
