"""`falaj up` and `falaj down`: the control plane of one home."""

import gc
import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from falaj.app.home import Home, default_home
from falaj.app.settings import read_settings
from falaj.base.errors import Conflict
from falaj.base.files import write_durably
from falaj.base.values import Nothing, value
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, sentence
from falaj.cli.places import owner_access, sign_in_link
from falaj.cli.terminal import Terminal
from falaj.governance.sessions.operations import LINK_SESSION

if TYPE_CHECKING:
    from falaj.app import backends, planes
    from falaj.app import up as control_plane
else:
    backends, control_plane, planes = Deferred("falaj.app.backends"), Deferred("falaj.app.up"), Deferred("falaj.app.planes")

commands = Commands("The control plane.")
Profile = Literal["solo", "team", "regulated"]


@value
class Stopped:
    was_running: bool


@commands.command("up")
def up(
    terminal: Terminal,
    port: Annotated[int | None, typer.Option(help="Where to listen; 0 is any free port.", min=0, max=65535)] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    profile: Annotated[Profile | None, typer.Option(help="What the deployment expects; chosen on the first start.")] = None,
    tls: Annotated[Literal["self-signed"] | None, typer.Option(help="Serve under a certificate made here.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it serves; `falaj down` ends it.")] = False,
) -> None:
    """Start the platform, making its home on the first start, and say how to sign in. Ctrl-C ends it.

    Example: falaj up --port 8400 --profile team --tls self-signed
    """
    if profile is not None:
        _choose(terminal, profile)
    if detach:
        options = {"--port": port, "--host": host, "--tls": tls}
        arguments = [part for name, given in options.items() if given is not None for part in (name, str(given))]
        _start_detached(terminal, arguments)
        return
    chosen = {"FALAJ_SERVER_PORT": port, "FALAJ_SERVER_HOST": host}
    environment = os.environ | {name: str(given) for name, given in chosen.items() if given is not None}
    settings = read_settings(terminal.home.settings, environment)
    announce = partial(terminal.show, render=partial(_announcement, terminal.home))
    gc.disable()  # importing the platform makes no garbage worth looking for; `run` enables it again
    control_plane.run(terminal.home, settings, tls=tls is not None, announce=announce)
    answering = planes.running(terminal.home)
    terminal.say(
        f"Stopped. Predictions are still answered at {answering}; `falaj down` ends that." if answering else "Stopped."
    )


@commands.command("down")
def down(terminal: Terminal) -> None:
    """Stop the platform and its serving plane; requests under way are finished.

    Example: falaj down
    """
    # In this order: a control plane that sees its serving plane gone starts another.
    was_running = control_plane.stop(terminal.home)
    found = Stopped(was_running=planes.stop(terminal.home) or was_running)
    terminal.show(found, sentence(lambda it: "Stopped." if it.was_running else f"No platform runs on {terminal.home.path}."))


def _choose(terminal: Terminal, profile: Profile) -> None:
    """Write the profile down on the first start; later it is changed in the settings, on purpose, not by a forgotten option."""
    file, home = terminal.home.settings, terminal.home
    if not file.exists():
        home.prepare()
        write_durably(file, f'[platform]\nprofile = "{profile}"\n'.encode())
    elif (present := read_settings(file).platform.profile) != profile:
        raise Conflict(f"This home runs under profile {present}; to change that, edit profile in {file}.")


def _start_detached(terminal: Terminal, arguments: list[str]) -> None:
    first_start = not terminal.home.credentials.exists()
    url = control_plane.start_detached(terminal.home, arguments)
    code = terminal.client_at(owner_access(terminal.home)).call(LINK_SESSION, Nothing()).code
    settings = read_settings(terminal.home.settings)
    kit = backends.recovery_kit(terminal.home, settings)
    told = control_plane.Announcement(
        url=url,
        console=sign_in_link(url, code),
        recovery_kit=str(kit) if kit.exists() else "",
        first_start=first_start,
        warning=control_plane.storage_warning(terminal.home, settings),
    )
    terminal.show(told, partial(_announcement, terminal.home))


def _announcement(home: Home, layout: Layout, told: "control_plane.Announcement") -> None:
    if told.first_start:
        layout.line("Welcome to Falaj. You are the owner of this platform.")
    layout.pairs([("address", told.url), ("sign in", told.console)])
    layout.line("In a notebook, so that mlflow finds it:")
    for line in _of_a_notebook(home, told.url):
        layout.line(line)
    layout.line("Then use mlflow as ever; FALAJ_URL and FALAJ_TOKEN do the same for `falaj` itself.")
    if home.path != default_home().path:
        layout.line(f"This home is not where `falaj` looks by itself: export FALAJ_HOME={shlex.quote(str(home.path))}")
    if told.recovery_kit:
        layout.line(
            f"The recovery kit lies in {told.recovery_kit}. Keep it elsewhere: `falaj key kit` prints it.", style="yellow"
        )
    if told.warning:
        layout.line(told.warning, style="yellow")


def _of_a_notebook(home: Home, url: str) -> tuple[str, str]:
    """In plain Python, at the margin, to be pasted as they stand into a kernel that need not have `falaj`. The token is made
    there, shown on no screen, nor kept with the notebook. It lives three days: under each profile the owner's has that left."""
    place = {"MLFLOW_TRACKING_URI": url}
    if certificate := owner_access(home).certificate:
        place["MLFLOW_TRACKING_SERVER_CERT_PATH"] = str(Path(certificate).absolute())
    installed = Path(sys.executable).with_name("falaj")
    falaj = [str(installed)] if installed.exists() else [sys.executable, "-P", "-m", "falaj.cli.main"]
    command = shlex.join([*falaj, "token", "create", "notebook", "--days", "3", "--bare", "--home", str(home.path.absolute())])
    return f"import os; os.environ |= {place}", f"os.environ['MLFLOW_TRACKING_TOKEN'] = os.popen({command!r}).read().strip()"
