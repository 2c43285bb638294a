"""`falaj version`."""

import platform

from falaj import __version__
from falaj.base.values import value
from falaj.cli.command import Commands
from falaj.cli.layout import sentence
from falaj.cli.terminal import Terminal

commands = Commands("Versions.")


@value
class Version:
    version: str
    python: str


@commands.command("version")
def version(terminal: Terminal) -> None:
    """Say which version this is.

    Example: falaj version --json
    """
    found = Version(version=__version__, python=platform.python_version())
    terminal.show(found, sentence(lambda it: f"falaj {it.version} (Python {it.python})"))
