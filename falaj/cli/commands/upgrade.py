"""`falaj upgrade`: the schema of a home's database."""

from typing import TYPE_CHECKING

from falaj.app.settings import read_settings
from falaj.base.clock import SystemClock
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import sentence
from falaj.cli.terminal import Terminal

if TYPE_CHECKING:
    from falaj.app import upgrading
else:
    upgrading = Deferred("falaj.app.upgrading")

commands = Commands("Upgrading a home.")


@commands.command("upgrade")
def upgrade(terminal: Terminal) -> None:
    """Bring the database to this version's schema, after a backup. The platform must be stopped.

    Example: falaj upgrade
    """
    found = upgrading.upgrade(terminal.home, read_settings(terminal.home.settings), SystemClock())
    done = f"The database went from schema {found.before} to {found.after}. The backup before that is {found.backup}."
    terminal.show(
        found, sentence(lambda it: done if it.backup else f"The database is at the newest schema, {it.after}, already.")
    )
