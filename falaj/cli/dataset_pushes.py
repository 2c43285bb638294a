"""`falaj dataset push`: lines on their way into a dataset as they come, and what waits there."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from falaj.base.clock import Moment
from falaj.base.errors import FalajError, Invalid
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import source
from falaj.datasets.operations.pushing import Pushes, PushRows

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress

    from falaj.client import pushing
else:
    pushing = Deferred("falaj.client.pushing")
    rich_console, rich_progress = Deferred("rich.console"), Deferred("rich.progress")

PATIENCE: Final = 600.0
LONGEST_LINE: Final = 8 << 20


def send(terminal: Terminal, file: str, request: PushRows, *, rows: int, seconds: float) -> int:
    """The lines of a file or of standard input, pushed as they come; how many rows are safe."""
    client = terminal.client_at(terminal.access, patience=PATIENCE)
    sender = pushing.Pusher(client, request, rows=rows, seconds=seconds, patience=PATIENCE)
    with source(file) as (stream, _), _counter(request.dataset) as counted:
        try:
            with suppress(KeyboardInterrupt):  # what was read is sent all the same: so one ends `tail -f`
                for line in _lines(stream):
                    sender.push_line(line)
                    counted(sender.pushed)
            sender.flush()
        except FalajError as error:
            safe = f"The first {sender.pushed:,} rows are safe, and no others." if sender.pushed else "No row was pushed."
            raise type(error)(f"{str(error).rstrip('.')}. {safe}") from None
        finally:
            counted(sender.pushed)
    sender.close()
    return sender.pushed


def shown(layout: Layout, found: Pushes) -> None:
    """Nothing where nothing was ever pushed."""
    if found.waiting and found.since is not None:
        layout.line(
            f"Pushed and waiting: {found.waiting_rows:,} rows in {found.waiting:,} pushes, since {Moment(found.since)}."
        )
    if found.stuck:
        layout.line(f"Pushed and stuck: {found.stuck_rows:,} rows in {found.stuck:,} pushes, which fit no version any more.")
    if found.error:
        layout.line(f"Why: {found.error}")


def told(layout: Layout, found: Pushes) -> None:
    shown(layout, found)
    if not found.waiting and not found.stuck:
        made = f" The last version that was made of pushes is {found.version}." if found.version else ""
        layout.line(f"Nothing that was pushed to {found.dataset} waits.{made}")


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Without those that are empty. Raises `Invalid` for one that is too long to be a row."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise Invalid(f"A line is longer than {LONGEST_LINE >> 20} MiB: each has one row, as a JSON object")
        if row := line.strip():
            yield row


@contextmanager
def _counter(name: str) -> Iterator[Callable[[int], None]]:
    """On a terminal, standard error shows how many rows are safe."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    columns = ("{task.description}", rich_progress.SpinnerColumn(), "{task.completed:,} rows")
    console = rich_console.Console(stderr=True, markup=False)
    with rich_progress.Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda rows: progress.update(task, completed=rows)
