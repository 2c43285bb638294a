"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.operation import Group, Permission
from falaj.base.values import NAME_PATTERN, Personal, Range, Text

CURRENT: Final = "current"  # the version that a dataset's name alone means
QUARANTINED: Final = "quarantined"  # the newest that waits for somebody to release or drop it

Description = Annotated[str, Text(longest=10_000), Personal()]
# Where the rows came from, in the writer's words: a file's name, a table's, the address of a lake.
Origin = Annotated[str, Text(longest=2000), Personal()]
# A number, a tag, or `current`. What is said of a text goes by its pattern: this is that of names, written otherwise.
VersionWord = Annotated[
    str,
    Text(
        pattern=rf"(?:{NAME_PATTERN})",
        longest=100,
        says="must be a version's number, a tag of it, or current, such as 3 or audited",
    ),
]
TagName = Annotated[
    str,
    Text(
        pattern=r"^[a-z][a-z0-9._-]{0,99}$",
        longest=100,
        says="takes small letters, digits, '.', '_' and '-', at most 100, beginning with a letter",
    ),
]
# `name`, `name@3` or `name@tag`.
DatasetRef = Annotated[
    str,
    Text(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,99}(@[a-z0-9][a-z0-9._-]{0,99})?$",
        longest=201,
        says="must be a dataset's name, or a version of it such as flights@3 or flights@audited",
    ),
]
# Of a table in a place: a folder below its prefix, or `schema.table`. Nothing here leads out of the place.
TableName = Annotated[
    str,
    Text(
        shortest=1,
        longest=700,
        pattern=r"^[^/\\\x00-\x1f][^\\\x00-\x1f]*$",
        says="must be a folder below the place's prefix such as sales/orders, or a table of a database such as public.orders",
    ),
]
ExternalKind = Literal["parquet", "delta", "iceberg", "postgres"]
DatasetRefOrNone = Annotated[
    str,
    Text(
        pattern=r"^([a-z0-9][a-z0-9._-]{0,99}(@[a-z0-9][a-z0-9._-]{0,99})?)?$",
        longest=201,
        says="must be a dataset's name, or a version of it such as flights@3 or flights@audited, or nothing",
    ),
]
CheckName = Annotated[str, Text(pattern=NAME_PATTERN, longest=100)]
CheckKind = Literal["range", "set", "unique", "nulls", "fresh", "refers", "sql"]
Severity = Literal["fail", "warn"]
ColumnName = Annotated[str, Text(shortest=1, longest=500)]
Number = Annotated[int, Range(least=0, most=2**31 - 1)]
Position = Annotated[int, Range(least=0, most=2**53)]
Mode = Literal["append", "overwrite", "merge", "delete"]

READ: Final = Permission(name="dataset.read", group=Group.READ)
WRITE: Final = Permission(name="dataset.write", group=Group.WRITE)
