"""`falaj serve`: the serving plane of this host."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.app.settings import read_settings
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal

if TYPE_CHECKING:
    from falaj.app import serving_plane
    from falaj.client import planes
else:
    serving_plane, planes = Deferred("falaj.app.serving_plane"), Deferred("falaj.client.planes")

commands = Commands("The serving plane.")


@value
class Serving:
    url: str


@commands.command("serve")
def serve(
    terminal: Terminal,
    join: Annotated[Path | None, typer.Option(help="The document that `falaj plane create` wrote, on another host.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where that plane keeps its state and models; an edge bundle.")] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Where to listen; 0 is any free port.", min=0, max=65535)] = None,
    workers: Annotated[int | None, typer.Option(help="So many processes, however busy; else by load.", min=1, max=256)] = None,
) -> None:
    """Answer predictions, over REST and gRPC on one port, until a signal ends it. `falaj up` starts one by itself.

    It goes on by its last signed state when the control plane is gone.

    With --directory alone it goes on from there: as the plane that joined before, or by an edge bundle, without any control
    plane.

    Example: falaj serve --join plane.json --directory /var/lib/falaj-plane --host 0.0.0.0
    """
    if join is not None and directory is None:
        raise Invalid("--join needs --directory: where the plane of another host keeps its state and models.")
    chosen = {"FALAJ_SERVING_PORT": port, "FALAJ_SERVING_HOST": host, "FALAJ_SERVING_WORKERS": workers}
    environment = os.environ | {name: str(given) for name, given in chosen.items() if given is not None}
    settings = read_settings(terminal.home.settings, environment)

    def announce(url: str) -> None:
        terminal.show(Serving(url=url), _announcement)

    serving_plane.run(
        terminal.home,
        settings.serving,
        features=settings.features,
        profile=settings.platform.profile,
        join=join,
        directory=directory,
        control=planes.ControlPlane,
        ready=announce,
    )


def _announcement(layout: Layout, told: Serving) -> None:
    layout.line(f"Serving predictions at {told.url} (REST and gRPC).")
