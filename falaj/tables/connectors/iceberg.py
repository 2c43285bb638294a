"""Tables of Apache Iceberg, by a catalog in an SQLite file or by a table's own metadata file, at a snapshot."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from falaj.base.errors import FalajError, Invalid, NotFound
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked, refuse, refuse_types
from falaj.tables.connectors.opened import Opened, SourceUnavailable
from falaj.tables.connectors.places import endpoint_of
from falaj.tables.connectors.sqlite import file_of
from falaj.tables.errors import LibraryMissing

_METADATA = ".metadata.json"


def opened(address: Address, asked: Asked) -> Opened:
    """`iceberg:///catalog.db` with a table such as `sales.orders`, or `iceberg:///orders/metadata/00003-….metadata.json`."""
    refuse(asked, "an Iceberg table", query="--query")
    refuse_types(asked, "an Iceberg table")
    if asked.at and not asked.at.isdecimal():
        raise Invalid(f"{asked.at!r} is no snapshot of an Iceberg table: they are numbers.")
    libraries, file = _Libraries(), file_of(address)
    try:
        table = _table(libraries, address, file, asked)
        snapshot = _snapshot(table, asked)
        scan = table.scan(snapshot_id=snapshot)
        schema = libraries.pyarrow.schema_to_pyarrow(scan.projection(), include_field_ids=False)
        tasks = list(scan.plan_files())
    except FalajError:
        raise
    except (libraries.exceptions.NoSuchTableError, libraries.exceptions.NoSuchNamespaceError):
        raise NotFound(f"There is no Iceberg table {asked.table!r} in {address.shown}.") from None
    except (ValueError, OSError, TypeError, KeyError, pa.ArrowException) as error:
        raise _told(error, address) from None
    return Opened(
        schema=schema,
        batches=_batches(libraries, table, scan, sorted(tasks, key=lambda task: task.file.file_path), schema, address),
        shown=f"{address.shown}{f', table {asked.table}' if asked.table else ''}, snapshot {snapshot or 'none'}",
        pin=f"{table.metadata.table_uuid}@{snapshot}",
    )


def _table(libraries: "_Libraries", address: Address, file: Path, asked: Asked) -> Any:
    endpoint = endpoint_of(asked)
    properties = {"s3.endpoint": endpoint} if endpoint else {}
    if file.name.endswith(_METADATA):
        refuse(asked, "a metadata file", table="--table")
        return libraries.tables.StaticTable.from_metadata(str(file.absolute()), properties)
    if not asked.table:
        raise Invalid("Say which table of the catalog: --table namespace.name.")
    catalog = libraries.catalogs.SqlCatalog(
        _catalog_name(file, address), uri=f"sqlite:///{file.absolute()}", init_catalog_tables="false", **properties
    )
    try:
        return catalog.load_table(asked.table)
    finally:
        catalog.engine.dispose()


def _catalog_name(file: Path, address: Address) -> str:
    """A file may hold several catalogs; then the address says which one: `?catalog=name`."""
    if said := address.options.get("catalog"):
        return said
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    try:
        names = [name for (name,) in connection.execute("select distinct catalog_name from iceberg_tables order by 1")]
    except sqlite3.Error as error:
        raise Invalid(f"{address.shown} is no Iceberg catalog: {error}.") from None
    finally:
        connection.close()
    if len(names) != 1:
        raise Invalid(f"{address.shown} has the catalogs {', '.join(names) or 'none'}: say ?catalog=name in the address.")
    return str(names[0])


def _snapshot(table: Any, asked: Asked) -> int | None:
    """None of a table that never had a row."""
    if asked.at:
        if table.snapshot_by_id(int(asked.at)) is None:
            raise NotFound(f"The Iceberg table has no snapshot {asked.at}: it never was, or has expired.")
        return int(asked.at)
    current = table.current_snapshot()
    return None if current is None else int(current.snapshot_id)


def _batches(
    libraries: "_Libraries", table: Any, scan: Any, tasks: list[Any], schema: pa.Schema, address: Address
) -> Iterator[pa.RecordBatch]:
    """File by file: asked for all at once, the library reads ahead without end."""
    reading = libraries.pyarrow.ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter, scan.case_sensitive)
    try:
        for task in tasks:
            for batch in reading.to_record_batches([task]):
                yield batch.cast(schema)
    except FileNotFoundError as error:
        raise NotFound(f"{address.shown}: a file of this snapshot is gone: {str(error)[:300]}.") from None
    except (ValueError, OSError, pa.ArrowException) as error:
        raise _told(error, address) from None


def _told(error: Exception, address: Address) -> FalajError:
    said = address.without_secrets(str(error))
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{address.shown}: a file of the table is gone: {said}.")
    if isinstance(error, OSError):
        return SourceUnavailable(f"{address.shown} does not answer, or broke off: {said}. No version was made.")
    return Invalid(f"{address.shown} cannot be read as an Iceberg table: {said}.")


class _Libraries:
    def __init__(self) -> None:
        try:
            import pyiceberg.catalog.sql
            import pyiceberg.exceptions
            import pyiceberg.io.pyarrow
            import pyiceberg.table
        except ImportError:
            raise LibraryMissing("Iceberg tables need a library that is not here: pip install 'falaj[lake]'.") from None
        self.catalogs: Any = pyiceberg.catalog.sql
        self.exceptions: Any = pyiceberg.exceptions
        self.pyarrow: Any = pyiceberg.io.pyarrow
        self.tables: Any = pyiceberg.table
