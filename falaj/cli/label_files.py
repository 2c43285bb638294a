"""Rows of labels from files or standard input, whatever they are written in; and how many are sent."""

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from falaj.base.errors import Invalid
from falaj.cli.deferred import Deferred
from falaj.cli.transfers import STANDARD

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress

    from falaj.tables import plain_parquet
else:
    rich_console, rich_progress = Deferred("rich.console"), Deferred("rich.progress")
    plain_parquet = Deferred("falaj.tables.plain_parquet")

PARQUET: Final = b"PAR1"
_LONGEST_LINE: Final = 1 << 20
_LARGEST_FROM_INPUT: Final = 1 << 30


def rows_of(stream: BinaryIO, file: str, format: str = "") -> Generator[tuple[int, Mapping[str, Any]], None, None]:
    """With the line of each, counted from 1; of Parquet, with the row. `format` is found by default."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[type-var]
    kind = format or _kind_of(buffered.peek(1 << 12)[: 1 << 12])
    if kind == "parquet":
        whole: str | BinaryIO = file
        if file == STANDARD:  # its end comes first: it cannot be read as it comes
            content = buffered.read(_LARGEST_FROM_INPUT + 1)
            if len(content) > _LARGEST_FROM_INPUT:
                raise Invalid("More than a GiB of Parquet cannot be read from the input: name the file.")
            whole = io.BytesIO(content)
        yield from enumerate(plain_parquet.rows_of(whole), 1)
    elif kind == "jsonl":
        yield from _json_lines(buffered)
    else:
        yield from _delimited(buffered)


def _kind_of(start: bytes) -> str:
    if start.startswith(PARQUET):
        return "parquet"
    return "jsonl" if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else "csv"


def _json_lines(stream: BinaryIO) -> Iterator[tuple[int, Mapping[str, Any]]]:
    number = 0
    while line := stream.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            raise Invalid(f"Line {number} is longer than a MiB: each has one label, as a JSON object")
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise Invalid(f"Line {number} is no JSON object")
        yield number, row


def _delimited(stream: BinaryIO) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    try:
        reader = csv.DictReader(text, strict=True)
        names = reader.fieldnames or ()
        if not {"truth", "id"} & set(names) and not any(name.startswith("entity.") for name in names):
            raise Invalid(f"The first line must name columns, such as id,row,truth; it has {', '.join(names)[:200] or 'none'}")
        for row in reader:
            if None in row or None in row.values():
                raise Invalid(f"Line {reader.line_num} has not as many fields as the first line, which has {len(names)}")
            yield reader.line_num, row
    except csv.Error as error:
        raise Invalid(f"Line {reader.line_num} cannot be read as CSV: {error}") from None
    except UnicodeDecodeError:
        raise Invalid("It is not UTF-8 text") from None
    finally:
        text.detach()


@contextmanager
def counter(name: str) -> Iterator[Callable[[int], None]]:
    """On a terminal, standard error shows how many labels were sent."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    columns = ("{task.description}", rich_progress.SpinnerColumn(), "{task.completed:,} labels")
    console = rich_console.Console(stderr=True, markup=False)
    with rich_progress.Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda labels: progress.update(task, completed=labels)
