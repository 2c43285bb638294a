"""Inserting many rows by one call: SQLite is given tuples, Postgres one array per column."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from sqlalchemy import String, Table, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY

from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.tracking.store.sets import array_text

CHUNK: Final = 100


class Bulk:
    """Inserts into a table; `conflict` says on the insert statement of either dialect what becomes of rows that are there.

    A row is a tuple in the order of the table's columns. Thread-safe.
    """

    def __init__(self, table: Table, conflict: Callable[[Any], Any]) -> None:
        names = [column.name for column in table.c]
        self._names = names
        row = {column.name: bindparam(column.name, type_=column.type) for column in table.c}
        self._texts = [isinstance(column.type, String) for column in table.c]
        arrays = (bindparam(column.name, type_=ARRAY(column.type)) for column in table.c)
        listed = func.unnest(*arrays).table_valued(*names).render_derived()
        one = conflict(sqlite.insert(table).values(row))
        self._text = str(one.compile(dialect=sqlite.dialect()))
        places = f"({', '.join('?' * len(names))})"
        self._chunk_text = self._text.replace(places, ", ".join([places] * CHUNK), 1)
        self._one = Prepared({"sqlite": one, "postgresql": conflict(postgresql.insert(table).values(row))})
        self._all = Prepared({"postgresql": conflict(postgresql.insert(table).from_select(names, select(*listed.c)))})

    def insert(self, work: UnitOfWork, rows: Sequence[tuple[Any, ...]]) -> int:
        """How many rows were inserted or changed. On Postgres no two rows may conflict with each other where conflicts change
        rows; in a common order they keep writers from waiting for each other in a circle."""
        if len(rows) == 1:
            return self._one.run(work, **dict(zip(self._names, rows[0], strict=True)))
        if not rows:
            return 0
        if work.connection.dialect.name == "sqlite":
            return self._insert_chunks(work, rows)
        columns = zip(*rows, strict=True)
        arrays = (list(column) if text else array_text(column) for column, text in zip(columns, self._texts, strict=True))
        return self._all.run(work, **dict(zip(self._names, arrays, strict=True)))

    def _insert_chunks(self, work: UnitOfWork, rows: Sequence[tuple[Any, ...]]) -> int:
        """A hundred rows a statement: a third quicker than row by row, and the interpreter is let go once and not a hundred
        times."""
        whole = len(rows) - len(rows) % CHUNK
        changed = 0
        for start in range(0, whole, CHUNK):
            given = tuple(chain.from_iterable(rows[start : start + CHUNK]))
            changed += work.connection.exec_driver_sql(self._chunk_text, given).rowcount
        if rest := rows[whole:]:
            changed += work.connection.exec_driver_sql(self._text, list(rest)).rowcount
        return changed
