"""`falaj backup`: made by the running platform; verified and restored without one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from falaj.app.home import Home
from falaj.app.settings import read_settings
from falaj.base.clock import SystemClock
from falaj.base.values import Nothing
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import listing, sentence
from falaj.cli.terminal import Terminal
from falaj.operations.operations import CREATE_BACKUP, LIST_BACKUPS

if TYPE_CHECKING:
    from falaj.app import backends, backups, restoring
    from falaj.keys import recovery
else:
    backends, backups = Deferred("falaj.app.backends"), Deferred("falaj.app.backups")
    restoring, recovery = Deferred("falaj.app.restoring"), Deferred("falaj.keys.recovery")

commands = Commands("Make, check and restore backups.")
BackupFile = Annotated[str, typer.Argument(help="The backup: a file, or a name from `backup list`.", show_default=False)]
PATIENCE = 3600.0


@commands.command("create")
def create(terminal: Terminal) -> None:
    """Write a consistent, sealed backup into the home's `backups` folder while the platform runs.

    Example: falaj backup create
    """
    made = terminal.call(CREATE_BACKUP, Nothing(), patience=PATIENCE)
    terminal.show(made)
    terminal.say(f"Keep a copy elsewhere. To restore it there you need {made.opened_with}.")


@commands.command("list")
def list_backups(terminal: Terminal) -> None:
    """List the backups in the home, newest first.

    Example: falaj backup list
    """
    terminal.run(LIST_BACKUPS, Nothing(), listing("name", "size", "created"))


@commands.command("verify")
def verify(terminal: Terminal, backup: BackupFile) -> None:
    """Unseal a backup and hold it against its manifest, without a running platform. Any changed byte is found.

    Example: falaj backup verify 2026-11-15T093000-1f2e3d4c.falaj-backup
    """
    home = terminal.home
    ring = backends.look_at_ring(home, read_settings(home.settings), SystemClock())
    with Console(stderr=True).status("verifying the backup"):
        manifest = backups.verify(backups.open_backup(_file(home, backup), ring))
    terminal.show(manifest, sentence(lambda it: f"The backup is whole: {_contents(it)}."))


@commands.command("restore")
def restore(
    terminal: Terminal,
    backup: BackupFile,
    kit: Annotated[Path | None, typer.Option(help="The recovery kit, where the keys are not here.", metavar="FILE")] = None,
) -> None:
    """Fill a home that does not exist yet from a backup. The whole backup is verified first.

    Example: falaj backup restore copy.falaj-backup --home /srv/falaj --kit recovery-kit.txt
    """
    home = terminal.home
    code = recovery.read_kit(kit) if kit else ""
    with Console(stderr=True).status("restoring") as status:
        manifest = restoring.restore(
            home, read_settings(home.settings), SystemClock(), _file(home, backup), code=code, progress=status.update
        )
    said = f"Start it with: falaj up --home {home.path}"
    terminal.show(manifest, sentence(lambda it: f"Restored into {home.path}: {_contents(it)}. {said}"))


def _file(home: Home, backup: str) -> Path:
    """A path, or else the name of a backup in the home."""
    return Path(backup) if Path(backup).exists() or "/" in backup else home.backups / backup


def _contents(manifest: "backups.Manifest") -> str:
    return f"{sum(manifest.rows.values())} rows, {sum(manifest.objects.values())} objects, {manifest.tree_size} leaves"
