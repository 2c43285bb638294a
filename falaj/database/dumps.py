"""Every row of every table as plain JSON lines, and back: a dump of one engine restores into the other."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, LargeBinary, MetaData, Table, func, insert, select

from falaj.base.errors import Corrupt
from falaj.base.values import value
from falaj.database.migrations import VERSION_TABLE, revision_seen_by
from falaj.database.work import UnitOfWork

ROWS_A_PART = 1000


@value
class Part:
    """Some rows of one table, as JSON lines."""

    table: str
    rows: int
    lines: bytes


def revision_of(work: UnitOfWork) -> str:
    """The schema that a dump of this database has."""
    return revision_seen_by(work.connection) or ""


def dump(work: UnitOfWork) -> Iterator[Part]:
    """All tables as this snapshot sees them, in an order in which they can be loaded again.

    The tables are looked at, not taken from the code: before an upgrade, the database is still of an older release.
    """
    connection = work.connection.execution_options(yield_per=ROWS_A_PART)
    tables = MetaData()
    tables.reflect(work.connection)
    for table in (table for table in tables.sorted_tables if table.name != VERSION_TABLE):
        rows = connection.execute(select(table).order_by(*table.primary_key.columns)).mappings()
        for part in rows.partitions():
            lines = "".join(json.dumps({name: _plain(field) for name, field in row.items()}) + "\n" for row in part)
            yield Part(table=table.name, rows=len(part), lines=lines.encode())


class Loader:
    """Fills the empty tables of a database, which may be at the schema of an older release: its own tables are looked at."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tables = MetaData()
        self._tables.reflect(engine)

    def load(self, name: str, lines: bytes) -> int:
        """Insert one part; how many rows."""
        if (table := self._tables.tables.get(name)) is None:
            raise Corrupt(f"The dump has a table {name!r} that its schema has not.")
        try:
            rows = [_row(table, json.loads(line)) for line in lines.splitlines()]
        except ValueError as error:
            raise Corrupt(f"The dump's table {name!r} cannot be read: {error}") from None
        if rows:
            with self._engine.begin() as connection:
                connection.execute(insert(table), rows)
        return len(rows)

    def go_on_counting(self) -> None:
        """Let Postgres give numbers behind those that were loaded; SQLite looks at the table by itself."""
        if self._engine.dialect.name != "postgresql":
            return
        with self._engine.begin() as connection:
            for column in (column for table in self._tables.tables.values() for column in table.primary_key.columns):
                counter = connection.scalar(select(func.pg_get_serial_sequence(column.table.name, column.name)))
                if counter is not None:
                    last = select(func.setval(counter, func.coalesce(func.max(column), 0) + 1, False))
                    connection.execute(last.select_from(column.table))


def _plain(field: Any) -> Any:
    return base64.b64encode(field).decode() if isinstance(field, bytes) else field


def _row(table: Table, fields: dict[str, Any]) -> dict[str, Any]:
    binary = {column.name for column in table.columns if isinstance(column.type, LargeBinary)}
    return {name: base64.b64decode(field) if name in binary and field is not None else field for name, field in fields.items()}
