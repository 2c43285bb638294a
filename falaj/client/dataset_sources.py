"""Rows from where they already are: databases, lakes and folders, as an Arrow stream that is read as it is asked for."""

from collections.abc import Mapping
from typing import Any

from falaj.client.dataset_pieces import tables_library
from falaj.tables.connectors.asking import Asked
from falaj.tables.forms import Form


def source(
    address: str,
    *,
    table: str = "",
    query: str = "",
    at: str = "",
    endpoint: str = "",
    types: Mapping[str, str] | None = None,
) -> Any:
    """A `pyarrow.RecordBatchReader`, for `save_dataset` or whatever else takes Arrow.

    `postgresql://`, `sqlite:///` and `duckdb:///` take a `table` or a `query`; `delta:///`, `delta+s3://` and `iceberg:///` a
    version or snapshot to read `at`; `s3://` and a folder here are files of one kind. `types` are those of columns that a
    database or text does not say.
    """
    asked = Asked(table=table, query=query, at=at, endpoint=endpoint, form=Form(types=dict(types) if types else None))
    return tables_library("falaj.tables.connectors.opening").opened(address, asked).reader()
