"""Tables and queries of a DuckDB file, opened for reading only, by a DuckDB that reaches nothing else."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked, one_of_table_and_query, refuse, refuse_types
from falaj.tables.connectors.opened import ROWS, Opened
from falaj.tables.connectors.sqlite import file_of
from falaj.tables.errors import LibraryMissing
from falaj.tables.functions import CONFINED, FUNCTIONS, TABLE_FUNCTIONS

# By their whole names, which no macro of the file can take.
_BROUGHT: Final = {
    "macros": "SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal",
    "views": "SELECT schema_name, view_name, sql FROM system.main.duckdb_views() WHERE NOT internal",
    "tables": "SELECT schema_name, table_name FROM system.main.duckdb_tables() WHERE NOT internal",
}
_KNOWN: Final = FUNCTIONS | TABLE_FUNCTIONS
_NAME: Final = r'(?:"(?:[^"]|"")*"|[^\s".(),;]+)'
# As DuckDB writes views down; what is written otherwise is not read.
_VIEW: Final = re.compile(
    rf"CREATE (?:TEMPORARY )?VIEW (?:{_NAME}\.)*{_NAME}(?: \({_NAME}(?:, {_NAME})*\))? AS (?P<select>.+?);?", re.DOTALL
)


def opened(address: Address, asked: Asked) -> Opened:
    one_of_table_and_query(asked)
    refuse(asked, "a database", at="--at", endpoint="--endpoint")
    refuse_types(asked, "a DuckDB file")
    file = file_of(address)
    duckdb = _duckdb()
    try:
        connection = duckdb.connect(str(file), read_only=True, config=CONFINED)
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise Invalid(f"{address.shown} cannot be opened: {address.without_secrets(str(error))}.") from None
    try:
        _refuse_unconfined(connection, asked)
        reader = connection.execute(asked.query or f"FROM {_quoted(asked.table)}").to_arrow_reader(ROWS)
    except Invalid:
        connection.close()
        raise
    except duckdb.Error as error:
        connection.close()
        raise Invalid(f"{address.shown} refuses this: {address.without_secrets(str(error))}.") from None
    what = f"table {asked.table}" if asked.table else "a query"
    batches = _batches(connection, reader, duckdb, address.shown)
    return Opened(schema=reader.schema, batches=batches, shown=f"{address.shown}, {what}")


def _refuse_unconfined(connection: Any, asked: Asked) -> None:
    """What a file brings along is held against the same rules as any query: some functions of DuckDB read files or run text as
    SQL whatever it is set to, views may call them, and macros may be called like what is harmless."""
    statements = import_module("falaj.tables.statements")
    found = {what: connection.execute(sql).fetchall() for what, sql in _BROUGHT.items()}
    if shadowing := sorted({str(name).lower() for (name,) in found["macros"]} & _KNOWN):
        raise Invalid(f"The file calls a macro of its own like a function that is known ({shadowing[0]}): drop it there first.")
    views = [(str(name).lower(), sql) for _, name, sql in found["views"]]
    within = [(schema, name) for schema, name, *_ in (*found["views"], *found["tables"])]
    names = [name for _, name in within]
    if asked.query:
        statements.refuse_unknown(asked.query, names, within)
        waiting = set(statements.tables_of(statements.parsed(asked.query)))
    else:
        waiting = {asked.table.rpartition(".")[2].lower()}
    seen = set[str]()
    while waiting := waiting - seen:
        name = waiting.pop()
        seen.add(name)
        for select in [_select(name, sql) for view, sql in views if view == name]:
            try:
                statements.refuse_unknown(select, names, within)
            except Invalid as error:
                raise Invalid(f"The view {name!r} of the file is not allowed. {error}") from None
            waiting |= statements.tables_of(statements.parsed(select))


def _select(name: str, sql: str) -> str:
    if (found := _VIEW.fullmatch(sql)) is None:
        raise Invalid(f"The view {name!r} of the file cannot be looked through: ask for what it is made of.")
    return found["select"]


def _batches(connection: Any, reader: pa.RecordBatchReader, duckdb: Any, shown: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise Invalid(f"{shown} cannot be read on: {' '.join(str(error).split())[:300]}. No version was made.") from None
    finally:
        connection.close()


def _quoted(table: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in table.split("."))


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise LibraryMissing("Reading from DuckDB needs its library: pip install duckdb.") from None
    return duckdb
