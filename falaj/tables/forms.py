"""What a source of rows looks like: said by whoever brings it, or found from its first bytes. `sources` reads it."""

from typing import Annotated, Final

from falaj.base.values import Items, Message, Range, Text, value

FORMATS: Final = ("csv", "jsonl", "parquet", "arrow")
NULLS: Final = ("", "NA", "N/A", "NULL", "null", "None", "NaN", "nan")

_Word = Annotated[str, Text(longest=40)]
_ColumnName = Annotated[str, Text(longest=500)]


@value
class Form(Message):
    """Everything may be left out: what is empty is found. `sources.found` gives it back with nothing empty.

    `types` are words of `schemas` by column, for columns whose type should not be guessed. `time_zone` is where the clocks hung
    that wrote times without an offset; without it such times are refused. A source in pieces has its header in the first one:
    for the others `header` is false, `columns` are the names, and `first_line` is the line of the whole that a piece begins at,
    so that messages name lines as people see them.
    """

    format: Annotated[str, Text(pattern=r"^(csv|jsonl|parquet|arrow)?$", says="csv, jsonl, parquet or arrow")] = ""
    compression: Annotated[str, Text(pattern=r"^(none|gzip|zstd)?$", says="none, gzip or zstd")] = ""
    encoding: _Word = ""
    delimiter: Annotated[str, Text(longest=1)] = ""
    quote: Annotated[str, Text(longest=1)] = '"'
    header: bool = True
    columns: Annotated[tuple[_ColumnName, ...], Items(most=10_000)] = ()
    nulls: Annotated[tuple[_Word, ...], Items(most=100)] = NULLS
    types: dict[str, str] | None = None
    time_zone: _Word = ""
    first_line: Annotated[int, Range(least=1, most=1 << 62)] = 1
