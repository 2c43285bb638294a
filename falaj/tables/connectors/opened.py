"""What every connector gives, and how it says that it cannot."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from falaj.base.errors import Unavailable
from falaj.base.values import value
from falaj.tables.arrow_schemas import from_arrow

ROWS: Final = 65_536


class SourceUnavailable(Unavailable):
    """The place that the rows come from does not answer, or broke off. Nothing of what it gave was published."""


@value
class Opened:
    """Rows that are read as they are asked for. `shown` says where from, with no secret in it. Where what is read cannot change
    unnoticed, `pin` is different for every state of it; else it is empty."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    shown: str
    pin: str = ""

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches)


def checked(opened: Opened) -> Opened:
    """Raises `Invalid` for columns that tables here do not have, before anything is read."""
    from_arrow(opened.schema)
    return opened
