"""What every connector is asked, and what it gives."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from falaj.base.errors import Invalid, Unavailable
from falaj.base.values import value
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.forms import Form

ROWS: Final = 65_536


class SourceUnavailable(Unavailable):
    """The place that the rows come from does not answer, or broke off. Nothing of what it gave was published."""


@value
class Asked:
    """`table` or `query` of a database; `at` is the version or snapshot of a lake's table; `endpoint` that of an S3 service
    which is not AWS. Of `form`, `types` and `time_zone` hold for every source, the rest for files of text."""

    table: str = ""
    query: str = ""
    at: str = ""
    endpoint: str = ""
    form: Form = Form()


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


def one_of_table_and_query(asked: Asked) -> None:
    if bool(asked.table) == bool(asked.query):
        raise Invalid("Say which rows of the database: a table (--table), or a query (--query), and not both.")


def refuse(asked: Asked, of: str, **wrong: str) -> None:
    """Raises `Invalid` for what was asked of a source that knows nothing of it."""
    for name, option in wrong.items():
        if getattr(asked, name):
            raise Invalid(f"{option} means nothing for {of}.")
