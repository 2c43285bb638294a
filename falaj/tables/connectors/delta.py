"""Tables of Delta Lake, here or in a bucket: a version of one read as it was, and a version of ours written as a new one."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from falaj.base.errors import Conflict, FalajError, Invalid, NotFound
from falaj.tables.arrow_schemas import to_arrow
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked, refuse, refuse_types
from falaj.tables.connectors.opened import ROWS, Opened, SourceUnavailable
from falaj.tables.connectors.places import bucket_options
from falaj.tables.errors import LibraryMissing
from falaj.tables.schemas import Schema


def opened(address: Address, asked: Asked) -> Opened:
    """`delta:///folder` is below where we are, `delta:////folder` below the root, `delta+s3://bucket/folder` in a bucket."""
    refuse(asked, "a Delta table", table="--table", query="--query")
    refuse_types(asked, "a Delta table")
    if asked.at and not asked.at.isdecimal():
        raise Invalid(f"{asked.at!r} is no version of a Delta table: they are numbers.")
    deltalake = _deltalake()
    place, options = _place(address, asked)
    try:
        table = deltalake.DeltaTable(place, version=int(asked.at) if asked.at else None, storage_options=options)
        scanned = table.to_pyarrow_dataset()
    except deltalake.exceptions.TableNotFoundError:
        raise NotFound(f"There is no Delta table at {address.shown}.") from None
    except (deltalake.exceptions.DeltaError, OSError, ValueError) as error:
        raise _told(error, address, asked) from None
    version, number = table.version(), table.metadata().id
    return Opened(
        schema=scanned.schema.remove_metadata(),
        batches=_batches(scanned, address, asked),
        shown=f"{address.shown}, version {version}",
        pin=f"{number}@{version}",
    )


def write(batches: Iterable[pa.RecordBatch], schema: Schema, address: Address, asked: Asked, *, replace: bool = False) -> int:
    """A version of the Delta table with these rows and no others; its number. A table that is there is replaced only where that
    was said, and then its earlier versions stay. Readers see all of it or nothing."""
    deltalake = _deltalake()
    place, options = _place(address, asked)
    given = _Remembering(batches)
    reader = pa.RecordBatchReader.from_batches(to_arrow(schema), given.rows())
    mode = {"mode": "overwrite", "schema_mode": "overwrite"} if replace else {"mode": "error"}
    try:
        deltalake.write_deltalake(place, reader, storage_options=options, **mode)
        return int(deltalake.DeltaTable(place, storage_options=options).version())
    except deltalake.exceptions.DeltaError as error:
        if given.error is not None:
            raise given.error from None
        if "already exists" in str(error):
            raise Conflict(
                f"There is a Delta table at {address.shown} already. Say --replace to write its next version."
            ) from None
        raise _told(error, address, asked) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise given.error or _told(error, address, asked) from None


class _Remembering:
    """Rows on their way through a library that makes an error of its own of whatever they raise."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.error: FalajError | None = None

    def rows(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except FalajError as error:
            self.error = error
            raise


def _batches(scanned: Any, address: Address, asked: Asked) -> Iterator[pa.RecordBatch]:
    try:
        # One file and two batches ahead: the scanner's own measure is many of each.
        for batch in scanned.to_batches(batch_size=ROWS, batch_readahead=2, fragment_readahead=1):
            yield batch.replace_schema_metadata(None)
    except FileNotFoundError as error:
        raise NotFound(f"{address.shown}: a file of this version is gone, as after a vacuum: {str(error)[:300]}.") from None
    except (pa.ArrowException, OSError) as error:
        raise _told(error, address, asked) from None


def _place(address: Address, asked: Asked) -> tuple[str, dict[str, str] | None]:
    if address.scheme == "delta+s3":
        return f"s3://{address.host}{address.path}", bucket_options(address, asked)
    refuse(asked, "a folder", endpoint="--endpoint")
    if address.host or not address.path.removeprefix("/"):
        raise Invalid(
            "The address of a Delta table is delta:///folder below where you are, and delta:////folder below the root."
        )
    return str(Path(address.path.removeprefix("/")).absolute()), None


def _told(error: Exception, address: Address, asked: Asked) -> FalajError:
    said = address.without_secrets(str(error))
    at = f" at version {asked.at}" if asked.at else ""
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return SourceUnavailable(f"{address.shown}{at} does not answer, or broke off: {said}.")
    return Invalid(f"{address.shown}{at} cannot be read or written as a Delta table: {said}.")


def _deltalake() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError:
        raise LibraryMissing("Delta tables need a library that is not here: pip install 'falaj[lake]'.") from None
    return deltalake
