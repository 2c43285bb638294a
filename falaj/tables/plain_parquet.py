"""Rows of a plain Parquet file, one after the other: for what is small and read once."""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from falaj.base.errors import Invalid

_ROWS: Final = 10_000  # in memory at a time


def rows_of(file: str | BinaryIO) -> Iterator[dict[str, Any]]:
    """By the names of its columns. Raises `Invalid` for what is no such file."""
    try:
        with pq.ParquetFile(file) as found:
            for batch in found.iter_batches(_ROWS):
                yield from batch.to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Invalid(f"It is no Parquet file that can be read: {str(error).splitlines()[0]}.") from None
