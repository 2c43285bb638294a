"""Making a part of a source: rows read, brought into their schema, sealed, described and digested in one pass."""

from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from falaj.tables.ahead import ahead
from falaj.tables.fitting import Fitting
from falaj.tables.forms import Form
from falaj.tables.parts import PartWriter
from falaj.tables.profiles import Profiling
from falaj.tables.schemas import Schema
from falaj.tables.sources import opened


def make_part(
    source: IO[bytes], into: IO[bytes], *, form: Form, schema: Schema | None, key: bytes, object_id: str
) -> dict[str, Any]:
    """What is known of the part, for `orders.PartFacts`. Raises `Invalid` and `TooLarge`; then `into` holds no part."""
    found = opened(source, form, schema)
    return seal(found.batches, found.schema, into, schema=schema, key=key, object_id=object_id, time_zone=found.form.time_zone)


def seal(
    batches: Iterator[pa.RecordBatch],
    given: pa.Schema,
    into: IO[bytes],
    *,
    schema: Schema | None,
    key: bytes,
    object_id: str,
    time_zone: str = "",
) -> dict[str, Any]:
    """The same of batches that are there already, or are made as they are asked for."""
    fitting = Fitting(given, schema, time_zone=time_zone)
    profiling = Profiling(fitting.schema)
    with PartWriter(into, fitting.schema, key=key, object_id=object_id) as writer:
        for batch in ahead(batches):
            fitted = fitting(batch)
            writer.write(fitted)
            profiling.add(fitted)
    written = writer.close()
    return {
        "rows": written.rows,
        "size": written.size,
        "schema": written.schema,
        "digest": written.digest,
        "profile": profiling.profile(),
    }
