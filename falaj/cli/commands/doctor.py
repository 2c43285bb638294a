"""`falaj doctor` and `falaj support-bundle`: looking at a home from inside."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from falaj.base.clock import SystemClock
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal

if TYPE_CHECKING:
    from falaj.app import doctor as health
    from falaj.app import support
else:
    health, support = Deferred("falaj.app.doctor"), Deferred("falaj.app.support")

commands = Commands("The health of a home.")
STYLES = {"ok": "green", "warning": "yellow", "broken": "bold red"}


@commands.command("doctor")
def doctor(terminal: Terminal) -> None:
    """Check home, settings, files, disk, keys, database, ledger, clock and port; the exit status is 1 when one is broken.

    Example: falaj doctor --json
    """
    found = health.examine(terminal.home, SystemClock())
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
    names = support.write_bundle(terminal.home, file, SystemClock())
    terminal.told({"file": str(file), "contents": names}, f"Wrote {file}: {', '.join(names)}. Read it before you send it.")


def _examination(layout: Layout, found: "health.Examination") -> None:
    width = max(len(check.name) for check in found.checks)
    for check in found.checks:
        layout.line(f"{check.state.ljust(8)} {check.name.ljust(width)}  {check.message}", style=STYLES[check.state])
        if check.mend:
            layout.line(f"{' ' * (width + 11)}mend: {check.mend}")
