"""Tables and queries of an SQLite file, which is opened for reading only.

SQLite lets every value have a type of its own. A column's is what its table declares, or else what its first rows hold; a value
that does not go into it is told by its row.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from falaj.base.errors import Invalid, NotFound
from falaj.tables.connectors import kinds, rows
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked, one_of_table_and_query, refuse
from falaj.tables.connectors.opened import Opened
from falaj.tables.connectors.rows import Row, RowColumn, schema_of

_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
# As SQLite itself reads a declaration: by the first of these that is in it. Times are ours, for it has none.
_DECLARED: Final = (
    ("BOOL", "bool"), ("DATETIME", "moment"), ("TIMESTAMP", "moment"), ("DATE", "date"), ("INT", "int64"),
    ("CHAR", "text"), ("CLOB", "text"), ("TEXT", "text"), ("BLOB", "bytes"), ("REAL", "float64"), ("FLOA", "float64"),
    ("DOUB", "float64"),
)  # fmt: skip


def opened(address: Address, asked: Asked) -> Opened:
    """`sqlite:///folder/file.db` is below where we are, `sqlite:////folder/file.db` below the root."""
    one_of_table_and_query(asked)
    refuse(asked, "a database", at="--at", endpoint="--endpoint")
    file = file_of(address)
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    try:
        connection.execute("pragma trusted_schema = off")
        cursor = connection.execute(asked.query or f"select * from {_quoted(asked.table)}")  # nosec B608 - quoted
        if not cursor.description:
            raise Invalid("The query gives no columns.")
        names = [column[0] for column in cursor.description]
        first = rows.first_rows(cursor.fetchmany)
        declared = _declared(connection, asked.table) if asked.table else {}
        columns = _columns(names, first, declared, asked.form.types or {})
    except (sqlite3.Error, sqlite3.Warning) as error:
        connection.close()
        raise Invalid(f"{address.shown} refuses this: {error}.") from None
    except BaseException:
        connection.close()
        raise
    what = f"table {asked.table}" if asked.table else "a query"
    batches = _batches(connection, cursor, columns, first, address.shown)
    return Opened(schema=schema_of(columns), batches=batches, shown=f"{address.shown}, {what}")


def file_of(address: Address) -> Path:
    """Raises `NotFound`: a database that is not there would be made by looking at it."""
    file = Path(address.path.removeprefix("/"))
    if address.host or not address.path.removeprefix("/"):
        raise Invalid(
            f"The address of a file is {address.scheme}:///folder/file below where you are, and "
            f"{address.scheme}:////folder/file below the root."
        )
    if not file.is_file():
        raise NotFound(f"There is no file {file}.")
    return file


def _batches(
    connection: sqlite3.Connection, cursor: sqlite3.Cursor, columns: Sequence[RowColumn], first: Sequence[Row], shown: str
) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows.batches(columns, cursor.fetchmany, first)
    except sqlite3.Error as error:
        raise Invalid(f"{shown} cannot be read on: {error}. No version was made.") from None
    finally:
        connection.close()


def _columns(
    names: Sequence[str], first: Sequence[Row], declared: Mapping[str, str], said: Mapping[str, str]
) -> list[RowColumn]:
    kinds.refuse_unknown(said, names)
    made = []
    for place, name in enumerate(names):
        seen = [row[place] for row in first]
        word = said.get(name) or _word(declared.get(name, "")) or _seen_word(seen)
        made.append(kinds.column(name, word, seen))
    return made


def _declared(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    found = connection.execute("select name, type from pragma_table_xinfo(?)", [table.rpartition(".")[2]])
    return dict(found)


def _word(declared: str) -> str:
    if (sizes := _DECIMAL.match(declared)) is not None:
        return f"decimal({sizes[1]}, {sizes[2] or 0})"
    return next((word for part, word in _DECLARED if part in declared.upper()), "")


def _seen_word(seen: Sequence[Any]) -> str:
    """A column that held nothing so far is text, which everything but bytes can be written as."""
    found = {type(value) for value in seen if value is not None}
    if found and found <= {int, float}:
        return "int64" if found == {int} else "float64"
    return "bytes" if found == {bytes} else "text"


def _quoted(table: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in table.split("."))
