"""Tables and queries of a DuckDB file, opened for reading only, by a DuckDB that reaches nothing else."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from falaj.base.errors import Invalid
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked, one_of_table_and_query, refuse, refuse_types
from falaj.tables.connectors.opened import ROWS, Opened
from falaj.tables.connectors.sqlite import file_of
from falaj.tables.errors import LibraryMissing


def opened(address: Address, asked: Asked) -> Opened:
    one_of_table_and_query(asked)
    refuse(asked, "a database", at="--at", endpoint="--endpoint")
    refuse_types(asked, "a DuckDB file")
    file = file_of(address)
    duckdb = _duckdb()
    config = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
    try:
        connection = duckdb.connect(str(file), read_only=True, config=config)
    except duckdb.Error as error:
        raise Invalid(f"{address.shown} cannot be opened: {address.without_secrets(str(error))}.") from None
    try:
        reader = connection.execute(asked.query or f"FROM {_quoted(asked.table)}").to_arrow_reader(ROWS)
    except duckdb.Error as error:
        connection.close()
        raise Invalid(f"{address.shown} refuses this: {address.without_secrets(str(error))}.") from None
    what = f"table {asked.table}" if asked.table else "a query"
    batches = _batches(connection, reader, duckdb, address.shown)
    return Opened(schema=reader.schema, batches=batches, shown=f"{address.shown}, {what}")


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
