"""Tables that stay where they are, on their way to being pinned: asked for again until all of a table was read."""

from collections.abc import Sequence
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.operation import Operation
from falaj.cli.dataset_checks import show_made
from falaj.cli.terminal import Terminal
from falaj.datasets.operations.external import ColumnType, Registration

_PATIENCE: Final = 900.0  # one file takes at most ten minutes, which is when the platform gives it up


def pin(terminal: Terminal, operation: Operation[Any, Registration], request: Any) -> None:
    """Each call goes on where the last one was; so does this command, however it was broken off."""
    while (told := terminal.call(operation, request, patience=_PATIENCE)).version is None:
        terminal.say(f"{told.done:,} of {told.of:,} files are read.")
    version = told.version
    words = f"{version.dataset}@{version.version} has {version.rows:,} rows in {told.of:,} files, which stay where they are."
    show_made(terminal, request.project, version, words)


def types_of(said: Sequence[str]) -> tuple[ColumnType, ...]:
    """From `total=decimal(38, 10)`."""
    pairs = [one.partition("=") for one in said]
    if wrong := [name for name, equals, word in pairs if not equals or not word]:
        raise Invalid(f"{wrong[0]!r} is no type of a column: write it like total=decimal(38, 10).")
    return tuple(ColumnType(column=name, type=word) for name, _, word in pairs)
