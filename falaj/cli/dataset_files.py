"""Files on their way into datasets: what they are, how to find a broken import again, and how far it is."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal, as_document, checked
from falaj.cli.transfers import STANDARD, source
from falaj.datasets.operations.writing import OpenWrite
from falaj.tables.forms import NULLS, Form

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress

    from falaj.client import dataset_pieces, dataset_writes
else:
    rich_console, rich_progress = Deferred("rich.console"), Deferred("rich.progress")
    dataset_pieces, dataset_writes = Deferred("falaj.client.dataset_pieces"), Deferred("falaj.client.dataset_writes")

PATIENCE: Final = 900.0


@value
class FormOptions:
    """What a file is, where it should not be guessed."""

    format: Annotated[
        Literal["csv", "jsonl", "parquet", "arrow", ""],
        typer.Option(help="What it is; found by default.", metavar="<csv|jsonl|parquet|arrow>", show_default=False),
    ] = ""
    delimiter: Annotated[str, typer.Option(help="What stands between the fields of a CSV file.", show_default=False)] = ""
    encoding: Annotated[str, typer.Option(help="How its text is written; UTF-8 by default.", show_default=False)] = ""
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line of a CSV file is a row.")] = False
    null: Annotated[
        list[str] | None,
        typer.Option(help="A text that means there is no value. Repeatable.", metavar="TEXT", show_default=False),
    ] = None
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", help="A column's type, such as zip=text. Repeatable.", metavar="COLUMN=TYPE", show_default=False
        ),
    ] = None
    time_zone: Annotated[
        str,
        typer.Option(help="Where the clocks hang that wrote times without an offset, such as Asia/Dubai.", show_default=False),
    ] = ""

    def form(self) -> Form:
        return Form(
            format=self.format,
            delimiter="\t" if self.delimiter == "\\t" else self.delimiter,
            encoding=self.encoding,
            header=not self.no_header,
            nulls=tuple(self.null) if self.null else NULLS,
            types=dict(_pair(text) for text in self.types) if self.types else None,
            time_zone=self.time_zone,
        )


def send(terminal: Terminal, file: str, request: OpenWrite, *, again: bool) -> "dataset_writes.Written":
    """The file as a version. A file that was sent in part, or wholly, is known again by its name, size and time."""
    with source(file) as (stream, size):
        form, pieces = dataset_pieces.cut(stream, request.form, name=file, size=size)
        _refuse_what_it_says_itself(request.form, form.format)
        key = "" if again or file == STANDARD else _key(request, Path(file))
        request = checked(OpenWrite, replace(request, form=form, key=key))
        client = terminal.client_at(terminal.access, patience=PATIENCE)
        with bar(size, "standard input" if file == STANDARD else Path(file).name) as watching:
            return dataset_writes.write(client, request, pieces, watching=watching)


def _refuse_what_it_says_itself(given: Form, kind: str) -> None:
    if kind in ("parquet", "arrow"):
        for said, option in ((given.types, "type"), (given.delimiter, "delimiter"), (given.encoding, "encoding")):
            if said:
                raise Invalid(f"--{option} is for CSV and JSON lines; {kind.capitalize()} says it itself: convert it before.")


def _key(request: OpenWrite, file: Path) -> str:
    facts = file.stat()
    about = [str(file.absolute()), facts.st_size, facts.st_mtime_ns, dataset_pieces.PIECE, as_document(request)]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _pair(text: str) -> tuple[str, str]:
    column, found, word = text.rpartition("=")
    if not found or not column or not word:
        raise Invalid(f"{text!r} says no type: write COLUMN=TYPE, such as zip=text.")
    return column, word


@contextmanager
def bar(size: int | None, name: str) -> "Iterator[Callable[[dataset_pieces.PieceToSend, bool], None] | None]":
    """On a terminal, a bar on standard error shows how far the pieces are that arrived."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    columns = (
        "{task.description}",
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    console = rich_console.Console(stderr=True, markup=False)
    with rich_progress.Progress(*columns, console=console, transient=True) as progress:
        task, furthest = progress.add_task(name, total=size), 0

        def watching(piece: "dataset_pieces.PieceToSend", _: bool) -> None:
            nonlocal furthest
            furthest = max(furthest, piece.end)
            progress.update(task, completed=furthest)

        yield watching
