"""`falaj key`: the key ring and its recovery kit."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.app.home import is_running
from falaj.app.settings import read_settings
from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.values import value
from falaj.cli.command import Commands, Cursor, Limit, Project, Yes
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, sentence
from falaj.cli.terminal import Terminal
from falaj.keys.operations import KEY_LIST, KEY_ROTATE_SIGNING, Keys, ListKeys, RotateSigning
from falaj.storage.operations import KEY_ROTATE, KEY_SHOW, KEY_SHRED, OneProject, ShredProject

if TYPE_CHECKING:
    from falaj.app import backends
    from falaj.keys import file as ring_files
    from falaj.keys import recovery
else:
    backends, ring_files, recovery = (
        Deferred("falaj.app.backends"),
        Deferred("falaj.keys.file"),
        Deferred("falaj.keys.recovery"),
    )

commands = Commands("The key ring and its recovery kit.")


@value
class Recovered:
    directory: str


@value
class Kit:
    file: str
    text: str


@value
class PutAway:
    file: str


@commands.command("list")
def list_keys(terminal: Terminal, limit: Limit = 100, cursor: Cursor = "") -> None:
    """List the ring's keys and the signing keys, without their material.

    Example: falaj key list
    """
    terminal.run(KEY_LIST, ListKeys(limit=limit, cursor=cursor), _keys)


@commands.command("show")
def show(terminal: Terminal, project: Project) -> None:
    """Show how far a project's key is in use and in rotation.

    Example: falaj key show fraud
    """
    terminal.run(KEY_SHOW, OneProject(project=project))


@commands.command("rotate")
def rotate(
    terminal: Terminal,
    project: Annotated[str, typer.Argument(help="The project's name.", show_default=False)] = "",
    signing: Annotated[str, typer.Option(help="Rotate the signing key of this purpose instead.", show_default=False)] = "",
) -> None:
    """Give a project a new key, or a purpose a new signing key. Everything stays readable, and what was signed stays valid.

    Example: falaj key rotate fraud
    """
    if bool(project) == bool(signing):
        raise Invalid("Name either a project or, with --signing, a purpose; `falaj key list` has the purposes.")
    if project:
        terminal.run(KEY_ROTATE, OneProject(project=project))
    else:
        terminal.run(KEY_ROTATE_SIGNING, RotateSigning(purpose=signing))


@commands.command("shred")
def shred(terminal: Terminal, project: Project, yes: Yes = False) -> None:
    """Destroy a project's key, and with it everything the project ever stored.

    Example: falaj key shred fraud --yes
    """
    terminal.confirm(f"Destroy everything that project {project} ever stored? There is no way back.", yes)
    said = sentence(lambda it: f"{it.blobs} blobs of {it.project} are gone for good.")
    terminal.run(KEY_SHRED, ShredProject(project=project, confirm=project), said)


@commands.command("kit")
def kit(
    terminal: Terminal,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the file, once the sheet is in a safe place.")] = False,
    yes: Yes = False,
) -> None:
    """Print the recovery kit, to be kept on paper or in a password safe, and not on this machine.

    Example: falaj key kit | lpr
    """
    file = backends.recovery_kit(terminal.home, read_settings(terminal.home.settings))
    if not file.exists():
        raise NotFound(f"There is no recovery kit at {file}; it was put away, or the keys are in a hardware module.")
    if delete:
        terminal.confirm("Is the sheet in a safe place? Without it, a lost key directory means lost data.", yes)
        file.unlink()
        terminal.show(PutAway(file=str(file)), sentence(lambda it: f"Deleted {it.file}."))
        return
    terminal.show(Kit(file=str(file), text=file.read_text()), sentence(lambda it: it.text))


@commands.command("recover")
def recover(
    terminal: Terminal,
    kit: Annotated[Path, typer.Option(help="A file with the recovery kit, or with its code alone.", show_default=False)],
) -> None:
    """Make a lost key directory again, from the escrow copy in the home and the recovery kit.

    Example: falaj key recover --kit recovery-kit.txt
    """
    home, settings = terminal.home, read_settings(terminal.home.settings)
    if settings.keys.kind != "file":
        raise Invalid("The keys of this platform are in a hardware module; recover them by its own means.")
    if is_running(home):
        raise Conflict(f"The platform runs on {home.path}, so its keys are there; stop it first with: falaj down")
    directory = backends.key_directory(home, settings)
    passphrase = os.environ.get(ring_files.PASSPHRASE_VARIABLE, "")
    ring_files.recover(home.escrow, recovery.read_kit(kit), directory, passphrase=passphrase)
    terminal.show(Recovered(directory=str(directory)), sentence(lambda it: f"The key ring is back in {it.directory}."))


def _keys(layout: Layout, keys: Keys) -> None:
    layout.table(["key", "versions", "newest"], ([key.name, len(key.versions), key.versions[-1].created] for key in keys.items))
    if keys.signing:
        layout.line()
        columns = ["signs", "id", "public", "created", "retired"]
        layout.table(columns, ([key.purpose, key.id, key.public, key.created, key.retired] for key in keys.signing))
    if keys.next:
        layout.line(f"There are more: add --cursor {keys.next}")
