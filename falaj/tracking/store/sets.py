"""Conditions on sets of numbers, given as one parameter: there may be more of them than SQLite takes parameters."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, FromClause, Select, Text, any_, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork

_LISTED: Final = func.json_each(bindparam("among", type_=Text())).table_valued("value")
_ARRAY: Final = bindparam("among", type_=ARRAY(BigInteger))


def prepared_among(column: ColumnElement[Any], make: Callable[[ColumnElement[bool]], Select[Any]]) -> Prepared:
    """A statement that `make` builds around the condition that the column is in the parameter `among`."""
    return Prepared({"sqlite": make(column.in_(select(_LISTED.c.value))), "postgresql": make(column == any_(_ARRAY))})


def prepared_over(make: Callable[[FromClause], Select[Any]]) -> Prepared:
    """A statement that `make` builds over the parameter `among` as a table with one column, `value`."""
    return Prepared({"sqlite": make(_LISTED), "postgresql": make(func.unnest(_ARRAY).table_valued("value").render_derived())})


def set_given(work: UnitOfWork, numbers: Sequence[int]) -> str:
    """The value of the parameter `among`."""
    return json.dumps(numbers) if work.connection.dialect.name == "sqlite" else array_text(numbers)


def array_text(numbers: Sequence[Any]) -> str:
    """Numbers as Postgres writes an array: the driver takes ten times as long over a list of them."""
    return f"{{{','.join(map(str, numbers))}}}"
