"""What columns a table has, in words of our own, so that the control plane can compare and refuse without a data library.

`arrow_schemas` turns these into Arrow's and back. Words of types: see `types`.
"""

import unicodedata
from typing import Annotated, Final

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import Items, Message, Text, value
from falaj.tables import types

MOST_COLUMNS: Final = 10_000
LONGEST_NAME: Final = 255
LONGEST_TYPE: Final = 20_000
_UNSEEN: Final = ("Cc", "Cf", "Zl", "Zp")  # what ends lines, turns their direction, or shows nothing


@value
class Column(Message):
    """`type` is a word of `types`, as `int64` or `list(text)`. Of one that is not `nullable` every row has a value."""

    name: Annotated[str, Text(shortest=1, longest=500)]
    type: Annotated[str, Text(shortest=1, longest=LONGEST_TYPE)]
    nullable: bool = True


@value
class Schema(Message):
    """Columns in their order. Names are unique; `checked` says so with words."""

    columns: Annotated[tuple[Column, ...], Items(least=1, most=MOST_COLUMNS)]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Raises `Invalid`, naming what there is, where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise Invalid(f"There is no column {name!r}. There are {listed(self.names)}.")


def checked(schema: Schema) -> Schema:
    """The schema with its words spelled one way. Raises `Invalid` for names that appear twice, in whatever case, because SQL
    does not tell such apart, and for unknown words."""
    seen: dict[str, str] = {}
    columns = []
    for column in schema.columns:
        if (before := seen.get(column.name.casefold())) == column.name:
            raise Invalid(f"There are two columns called {column.name!r}: rename one of them.")
        if before is not None:
            raise Invalid(f"The columns {before!r} and {column.name!r} differ in case alone: rename one of them.")
        seen[column.name.casefold()] = column.name
        spelled = str(types.parse(column.type, of=column.name))
        columns.append(column if spelled == column.type else Column(name=column.name, type=spelled, nullable=column.nullable))
    if not columns:
        raise Invalid("A table needs at least one column.")
    return Schema(columns=tuple(columns))


def storable(schema: Schema) -> Schema:
    """The same of columns that are to be kept. Raises `Invalid` for too many, and for names that are too long or have signs
    that nobody sees: what a query finds may have such, and a dataset not."""
    if len(schema.columns) > MOST_COLUMNS:
        raise Invalid(f"There are {len(schema.columns)} columns, and a table has at most {MOST_COLUMNS}: make lists of some.")
    for column in schema.columns:
        name = column.name
        if len(column.type) > LONGEST_TYPE:
            raise Invalid(f"The type of column {name[:50]!r} takes more than {LONGEST_TYPE} characters to write: split it up.")
        if len(name) > LONGEST_NAME:
            raise Invalid(
                f"A column's name has at most {LONGEST_NAME} characters: {name[:50]!r}... has {len(name)}. Shorten it."
            )
        if any(unicodedata.category(sign) in _UNSEEN for sign in name):
            raise Invalid(f"The column {name!a} has signs in its name that nobody sees: rename it.")
    return checked(schema)


def evolved(current: Schema, given: Schema) -> Schema:
    """The schema of the next version, where the newest has `current` and rows with `given` are to be added.

    Columns may be added (they are null in the rows before) and widened (`int32` to `int64`); those that can be null may be
    absent from the given rows. Everything else raises `Conflict`, and `Invalid` where the columns would be none that can be
    kept.
    """
    offered = {column.name: column for column in given.columns}
    columns = []
    for column in current.columns:
        other = offered.pop(column.name, None)
        if other is not None:
            kind, nullable = _joined(column.name, column, other), column.nullable or other.nullable
            columns.append(Column(name=column.name, type=kind, nullable=nullable))
        elif column.nullable:
            columns.append(column)
        else:
            raise Conflict(
                f"Column {column.name!r} is missing from the given rows, which have {listed(tuple(offered))} besides. "
                "It may not be null: send it."
            )
    # What is new is null in every row that was there before.
    columns += [Column(name=column.name, type=column.type, nullable=True) for column in offered.values()]
    return storable(Schema(columns=tuple(columns)))


def listed(names: tuple[str, ...], most: int = 20) -> str:
    """Names for people: the first of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


def _joined(name: str, now: Column, given: Column) -> str:
    """The narrower of the two may be what is given: it is widened as it is written."""
    present, offered = types.parse(now.type, of=name), types.parse(given.type, of=name)
    if types.fits(offered, into=present):
        return str(present)
    if types.fits(present, into=offered):
        return str(offered)
    raise Conflict(
        f"Column {name!r} is {now.type} and the given rows have {given.type}, which neither holds the other without loss. "
        f"Convert it to {now.type} before, or write a new column."
    )
