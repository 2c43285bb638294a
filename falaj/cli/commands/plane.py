"""`falaj plane`: the hosts that answer predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.base.clock import SystemClock
from falaj.cli.command import Commands, Cursor, Limit, Yes
from falaj.cli.deferred import Deferred
from falaj.cli.layout import listing
from falaj.cli.terminal import Terminal, read_text
from falaj.serving.operations import planes as declared

if TYPE_CHECKING:
    from falaj.serving.plane import joining
else:
    joining = Deferred("falaj.serving.plane.joining")

commands = Commands("Serving planes: hosts that answer predictions.")
OfPlane = Annotated[str, typer.Argument(help="The plane's name.", show_default=False)]


@commands.command("list")
def list_planes(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List serving planes and how they are.

    Example: falaj plane list
    """
    columns = ("name", "zone", "url", "workers", "serial", "heard", "problems")
    terminal.run(declared.LIST_PLANES, declared.ListPlanes(limit=limit, cursor=cursor), listing(*columns))


@commands.command("create")
def create(
    terminal: Terminal,
    plane: OfPlane,
    zone: Annotated[str, typer.Option(help="The zone it serves in.", show_default=False)],
    file: Annotated[Path, typer.Option(help="Where to write the join document.")] = Path("plane.json"),
    days: Annotated[int, typer.Option(help="How long its token holds; the plane renews it in time.", min=1, max=366)] = 90,
) -> None:
    """Let another host in, and write the document that `falaj serve --join` wants there. Keep it secret.

    Example: falaj plane create dubai-2 --zone dubai --file plane.json
    """
    made = terminal.call(declared.CREATE_PLANE, declared.CreatePlane(plane=plane, zone=zone, days=days))
    join = joining.Join(
        name=made.plane.name,
        zone=made.plane.zone,
        url=terminal.access.url,
        token=made.token,
        keys={key.id: key.public for key in made.keys},
        certificate=read_text(terminal.access.certificate) if terminal.access.certificate else "",
        renew_at=joining.renewal_of(SystemClock().now(), made.expires),
    )
    joining.write_join(file.absolute(), join)
    terminal.told(
        {"plane": made.plane.name, "file": str(file)},
        f"Bring {file} to that host and run there: falaj serve --join {file} --directory DIR --host ADDRESS",
    )


@commands.command("delete")
def delete(terminal: Terminal, plane: OfPlane, yes: Yes = False) -> None:
    """Shut a plane out; stop its host, too: what it holds goes on answering.

    Example: falaj plane delete dubai-2 --yes
    """
    terminal.confirm(f"Shut {plane} out?", yes)
    terminal.call(declared.DELETE_PLANE, declared.OnePlane(plane=plane))
    terminal.told({"deleted": plane}, f"{plane} gets no more news. Stop its host as well.")
