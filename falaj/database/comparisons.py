"""Comparisons of a filter as SQL over a column, meaning the same on either engine.

LIKE tells capitals apart on both, and a backslash in a pattern is a backslash; texts travel as bound parameters only.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import ColumnElement, Double, literal

from falaj.database.filters import Comparison
from falaj.database.work import UnitOfWork

_OPERATORS: Final[dict[str, Callable[[Any, Any], ColumnElement[bool]]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
# SQLite's LIKE does not tell capitals apart, its GLOB does.
_GLOB: Final = str.maketrans({"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"})


def compared(work: UnitOfWork, column: ColumnElement[Any], comparison: Comparison) -> ColumnElement[bool]:
    """Whether the column's value, where there is one, compares as asked. Presence (IS NULL) is the caller's to ask."""
    comparator, given = comparison.comparator, comparison.value
    if isinstance(given, tuple):
        return column.in_(given) if comparator == "IN" else column.not_in(given)
    if comparator in ("LIKE", "ILIKE"):
        return _like(work, column, str(given), sensitive=comparator == "LIKE")
    # A fraction stays one beside a column of whole numbers, too.
    bound: Any = literal(given, Double()) if isinstance(given, float) else given
    return _OPERATORS[comparator](column, bound)


def _like(work: UnitOfWork, column: ColumnElement[Any], pattern: str, *, sensitive: bool) -> ColumnElement[bool]:
    if work.connection.dialect.name == "sqlite":
        return column.op("GLOB", is_comparison=True)(pattern.translate(_GLOB)) if sensitive else column.like(pattern)
    return column.like(pattern, escape="") if sensitive else column.ilike(pattern, escape="")
