"""Tables and queries of a Postgres, through a cursor on its side, so that neither side gathers the rows.

The transaction only reads. What opens the database is in the address, or where Postgres's own programs look for it: PGPASSWORD,
~/.pgpass, a service file.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from falaj.base.errors import FalajError, Invalid
from falaj.tables.connectors import kinds, rows
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked, one_of_table_and_query, refuse
from falaj.tables.connectors.opened import Opened, SourceUnavailable
from falaj.tables.connectors.rows import Row, RowColumn, schema_of
from falaj.tables.errors import LibraryMissing

if TYPE_CHECKING:
    import psycopg

_PATIENCE: Final = 15
_MOST_DIGITS: Final = 76
_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "oid": pa.int64(),
    "float4": pa.float32(), "float8": pa.float64(), "bytea": pa.binary(), "date": pa.date32(), "time": pa.time64("us"),
    "timestamp": kinds.UNZONED, "timestamptz": kinds.ZONED,
    "text": pa.string(), "varchar": pa.string(), "bpchar": pa.string(), "name": pa.string(), "char": pa.string(),
    "json": pa.string(), "jsonb": pa.string(), "enum": pa.string(), "uuid": pa.string(),
}  # fmt: skip
_TYPES: Final = "select oid, typname, typtype, typelem <> 0 and typlen = -1 from pg_catalog.pg_type where oid = any(%s)"


_KEY: Final = """select a.attname from pg_catalog.pg_index i join pg_catalog.pg_attribute a on a.attrelid = i.indrelid
and a.attnum = any(i.indkey) where i.indrelid = to_regclass(%s) and i.indisprimary
order by array_position(i.indkey::int2[], a.attnum)"""


def opened(address: Address, asked: Asked, *, ordered: bool = False) -> Opened:
    """Raises `Invalid` for what the database refuses, `SourceUnavailable` where it is not there, here and from the batches.
    `ordered`: the rows of a table by its primary key, or by all they hold, so that equal content is read in an equal order."""
    one_of_table_and_query(asked)
    refuse(asked, "a database", at="--at", endpoint="--endpoint")
    reading = _Reading(address, asked, ordered=ordered)
    what = f"table {asked.table}" if asked.table else "a query"
    return Opened(schema=schema_of(reading.columns), batches=reading.batches(), shown=f"{address.shown}, {what}")


class _Reading:
    """A connection that is closed when the last batch was read, or nobody reads any more."""

    def __init__(self, address: Address, asked: Asked, *, ordered: bool) -> None:
        self._address, self._ordered = address, ordered
        self._psycopg = _psycopg()
        try:
            self._connection = self._connected()
            self._cursor = self._connection.cursor("falaj", binary=True)
            try:
                self._ask(asked)
                self.columns = self._columns(asked.form.types or {})
                self._first = rows.first_rows(self._cursor.fetchmany)
            except BaseException:
                self._close()
                raise
        except self._psycopg.Error as error:
            raise self._told(error) from None

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows.batches(self.columns, self._cursor.fetchmany, self._first)
        except self._psycopg.Error as error:
            raise self._told(error) from None
        finally:
            self._close()

    def _close(self) -> None:
        with suppress(self._psycopg.Error):  # of a connection that broke
            self._cursor.close()
        self._connection.close()

    def _connected(self) -> "psycopg.Connection[Row]":
        whole = "postgresql" + self._address.whole[len(self._address.scheme) :]
        connection: psycopg.Connection[Row] = self._psycopg.connect(
            whole, connect_timeout=_PATIENCE, application_name="falaj", keepalives_idle=30, autocommit=False
        )
        connection.read_only = True
        connection.execute("set local time zone 'UTC'")
        return connection

    def _ask(self, asked: Asked) -> None:
        _read_as_text(self._cursor)
        if asked.query:
            self._cursor.execute(asked.query.strip().rstrip(";").encode())
        else:
            sql, names = self._psycopg.sql, self._psycopg.sql.Identifier(*asked.table.split("."))
            order = self._order(names.as_string(self._connection)) if self._ordered else sql.SQL("")
            self._cursor.execute(sql.SQL("select t.* from {} t {}").format(names, order))

    def _order(self, table: str) -> Any:
        sql = self._psycopg.sql
        with self._connection.cursor() as cursor:
            key = [name for (name,) in cursor.execute(_KEY, [table]).fetchall()]
        if not key:
            return sql.SQL('order by t::text collate "C"')
        return sql.SQL("order by {}").format(sql.SQL(", ").join(sql.Identifier("t", name) for name in key))

    def _columns(self, said: Mapping[str, str]) -> list[RowColumn]:
        result, described = self._cursor.pgresult, self._cursor.description or []
        if result is None or not described:
            raise Invalid("The query gives no columns.")
        words = self._words([column.type_code for column in described])
        names = [column.name for column in described]
        kinds.refuse_unknown(said, names)
        found = [
            _column(column.name, words.get(column.type_code, "?"), result.fmod(place), said.get(column.name, ""))
            for place, column in enumerate(described)
        ]
        if refused := [sentence for sentence in found if isinstance(sentence, str)]:
            raise Invalid(" ".join(refused))
        return [column for column in found if isinstance(column, RowColumn)]

    def _words(self, codes: Sequence[int]) -> dict[int, str]:
        """The names of types; an enumeration is `enum`, an array ends in `[]`."""
        with self._connection.cursor() as cursor:
            found = cursor.execute(_TYPES, [sorted(set(codes))]).fetchall()
        return {oid: "enum" if kind == "e" else f"{name.lstrip('_')}[]" if array else name for oid, name, kind, array in found}

    def _told(self, error: "psycopg.Error") -> FalajError:
        said, state = self._address.without_secrets(str(error)), error.sqlstate or ""
        where = self._address.shown
        if isinstance(error, self._psycopg.ProgrammingError) and not state:
            return Invalid(f"{where} is no address of a Postgres: {said}.")
        # What the server says while one connects comes without its code.
        if state.startswith("28") or "password" in said or ("FATAL" in said and "does not exist" in said):
            return Invalid(f"{where} lets nobody in with this name and password: {said}. A password may be in PGPASSWORD.")
        if isinstance(error, self._psycopg.OperationalError | self._psycopg.InterfaceError) and not state.startswith(
            ("42", "22")
        ):
            return SourceUnavailable(f"{where} does not answer, or broke off: {said}. No version was made.")
        return Invalid(f"{where} refuses this: {said}.")


def _column(name: str, word: str, modifier: int, said: str) -> RowColumn | str:
    """A sentence where the column cannot be taken as it is."""
    taken = word == "numeric" or word in _PLAIN
    if said and taken and not (said == "moment" and word.startswith("timestamp")):
        return kinds.column(name, said)
    if word == "numeric":
        return _decimal(name, modifier)
    if taken:
        return RowColumn(name=name, type=_PLAIN[word], convert=str if word == "uuid" else None)
    if word.endswith("[]"):
        return f"Column {name!r} is an array ({word}): take its elements, or to_json({name})::text, in a query."
    if word == "interval":
        return f"Column {name!r} is an interval, whose months have no length: take extract(epoch from {name}) in a query."
    return f"Column {name!r} has the type {word}, which tables here do not have: take {name}::text in a query."


def _decimal(name: str, modifier: int) -> RowColumn | str:
    """Postgres keeps digits and scale in one number; a scale may be below zero, or above the digits."""
    if modifier < 4:
        return (
            f"Column {name!r} is numeric without a scale, so that nobody knows how many digits to keep: say --type "
            f"'{name}=decimal(38, 10)', or take {name}::numeric(38, 10) in a query."
        )
    digits, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    digits, scale = (digits - scale, 0) if scale < 0 else (max(digits, scale), scale)
    if digits > _MOST_DIGITS:
        return f"Column {name!r} has {digits} digits, and tables here have at most {_MOST_DIGITS}: take fewer in a query."
    made = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    return RowColumn(name=name, type=made, convert=rows.to_decimal)


def _read_as_text(cursor: "psycopg.ServerCursor[Row]") -> None:
    """JSON and enumerations are read as they are written; psycopg would make objects and bytes of them."""
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    class Text(Loader):
        format = Format.BINARY

        def load(self, data: Any) -> str:
            return bytes(data).decode()

    class Jsonb(Text):
        def load(self, data: Any) -> str:
            return super().load(data[1:])  # behind the number of its format

    for name in ("json", 0):
        cursor.adapters.register_loader(name, Text)
    cursor.adapters.register_loader("jsonb", Jsonb)


def _psycopg() -> Any:
    try:
        import psycopg
        import psycopg.sql
    except ImportError:
        raise LibraryMissing("Reading from Postgres needs its driver: pip install 'falaj[postgres]'.") from None
    return psycopg
