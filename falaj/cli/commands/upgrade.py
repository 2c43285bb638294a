"""`falaj upgrade`: the schema of a home's database."""

from falaj.app.settings import read_settings
from falaj.app.upgrading import upgrade as upgrade_home
from falaj.base.clock import SystemClock
from falaj.cli.command import Commands
from falaj.cli.layout import sentence
from falaj.cli.terminal import Terminal

commands = Commands("Upgrading a home.")


@commands.command("upgrade")
def upgrade(terminal: Terminal) -> None:
    """Bring the database to this version's schema, after a backup. The platform must be stopped.

    Example: falaj upgrade
    """
    found = upgrade_home(terminal.home, read_settings(terminal.home.settings), SystemClock())
    done = f"The database went from schema {found.before} to {found.after}. The backup before that is {found.backup}."
    terminal.show(
        found, sentence(lambda it: done if it.backup else f"The database is at the newest schema, {it.after}, already.")
    )
