"""`falaj doctor` and `falaj support-bundle`: looking at a home from inside."""

from pathlib import Path
from typing import Annotated

import typer

from falaj.app.doctor import Check, examine
from falaj.app.support import write_bundle
from falaj.base.clock import SystemClock
from falaj.base.values import Message, value
from falaj.cli.command import Commands
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal

commands = Commands("The health of a home.")
STYLES = {"ok": "green", "warning": "yellow", "broken": "bold red"}


@value
class Examination(Message):
    healthy: bool
    checks: tuple[Check, ...]


@commands.command("doctor")
def doctor(terminal: Terminal) -> None:
    """Check home, settings, files, disk, keys, database, ledger, clock and port; the exit status is 1 when one is broken.

    Example: falaj doctor --json
    """
    checks = examine(terminal.home, SystemClock())
    found = Examination(healthy=all(check.state != "broken" for check in checks), checks=checks)
    terminal.show(found, _examination)
    if not found.healthy:
        raise typer.Exit(1)


@commands.command("support-bundle")
def support_bundle(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("falaj-support.tar.gz"),
) -> None:
    """Collect versions, settings, logs, the doctor's findings and table sizes, without secrets or personal values.

    Example: falaj support-bundle bundle.tar.gz
    """
    names = write_bundle(terminal.home, file, SystemClock())
    terminal.told({"file": str(file), "contents": names}, f"Wrote {file}: {', '.join(names)}. Read it before you send it.")


def _examination(layout: Layout, found: Examination) -> None:
    width = max(len(check.name) for check in found.checks)
    for check in found.checks:
        layout.line(f"{check.state.ljust(8)} {check.name.ljust(width)}  {check.message}", style=STYLES[check.state])
        if check.mend:
            layout.line(f"{' ' * (width + 11)}mend: {check.mend}")
