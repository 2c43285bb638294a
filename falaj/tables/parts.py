"""A part: one Parquet file, sealed by Parquet's own modular encryption under a 256-bit key of its own.

Every page and the footer are encrypted and bound to their place in the file and to the object's id, so that what was flipped,
cut or swapped cannot be read at all. Which parts make a version is not known here.
"""

import contextlib
import io
from collections.abc import Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, Final, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables.arrow_schemas import from_arrow, to_arrow
from falaj.tables.digests import BLOCK_ROWS, ContentDigest
from falaj.tables.encodings import encodings
from falaj.tables.errors import Altered
from falaj.tables.schemas import Schema, storable
from falaj.tables.vectors import real_schema, restored, stored_schema

KEY_BYTES: Final = 32
GROUP_ROWS: Final = 8 * BLOCK_ROWS
GROUP_BYTES: Final = 128 << 20
_MAGIC: Final = b"PARE"
_LEVEL: Final = 1  # of zstd; 3 takes half again as long for some percent

Stored: TypeAlias = int | str | Path | bytes | pa.Buffer | IO[bytes] | io.RawIOBase
"""A part's bytes: a descriptor, a file's name, what is in memory, or anything that reads and seeks."""


@value
class Written:
    """What is known of a part once it is complete. `digest` is that of its content, see `digests`."""

    rows: int
    size: int
    schema: Schema
    digest: str


class PartWriter:
    """Writes one part to a file that needs no seeking. Holds one row group in memory, whatever comes. As a context it is closed
    at the end; what was left by an exception is no part and cannot be read as one."""

    def __init__(self, file: IO[bytes], schema: Schema, *, key: bytes, object_id: str) -> None:
        self.schema, self._arrow = schema, to_arrow(storable(schema))
        self._file = _Counted(file)
        self._sealing = pe.create_encryption_properties(_checked(key), aad_prefix=object_id.encode(), store_aad_prefix=False)
        self._digest = ContentDigest(schema)
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._group: list[pa.RecordBatch] = []
        self._rows = 0
        self.written: Written | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Its schema is the part's; `fitting` brings others into it."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= BLOCK_ROWS:
            self._cut(whole_blocks=True)

    def close(self) -> Written:
        """Complete the part. The file stays open."""
        if self.written is None:
            self._cut(whole_blocks=False)
            if self._group or self._writer is None:
                self._write_group()
            assert self._writer is not None  # nosec B101 - a group was written
            self._writer.close()
            self.written = Written(rows=self._rows, size=self._file.size, schema=self.schema, digest=self._digest.close())
        return self.written

    def _cut(self, *, whole_blocks: bool) -> None:
        """Blocks of one size, however the rows came: the digest is over them."""
        table = pa.Table.from_batches(self._waiting, self._arrow)
        end = table.num_rows - table.num_rows % BLOCK_ROWS if whole_blocks else table.num_rows
        for start in range(0, end, BLOCK_ROWS):
            block = _one_batch(table.slice(start, min(BLOCK_ROWS, end - start)))
            self._digest.add(block)
            self._rows += block.num_rows
            self._group.append(block)
            if len(self._group) * BLOCK_ROWS >= GROUP_ROWS or sum(one.nbytes for one in self._group) >= GROUP_BYTES:
                self._write_group()
        self._waiting = table.slice(end).to_batches()
        self._waiting_rows = table.num_rows - end

    def _write_group(self) -> None:
        stored = stored_schema(self._arrow)
        table = pa.Table.from_batches(self._group, self._arrow).cast(stored)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._file,
                stored,
                compression="zstd",
                compression_level=_LEVEL,
                encryption_properties=self._sealing,
                **encodings(table),
            )
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._group = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        self._digest.close()
        if self._writer is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()


class PartReader:
    """Reads one part; the footer at once, the rest as it is asked for. Not for several threads at a time. Raises `Altered` from
    anywhere, where the part is not what was sealed under this key and id."""

    def __init__(self, stored: Stored, *, key: bytes, object_id: str) -> None:
        self._id = object_id
        self._opening = pe.create_decryption_properties(_checked(key), aad_prefix=object_id.encode())
        self._source = _opened(stored, object_id)
        with self._watched():
            self._file = pq.ParquetFile(self._source, decryption_properties=self._opening, pre_buffer=True)
            self.arrow_schema: pa.Schema = real_schema(self._file.schema_arrow)
        self.schema: Schema = from_arrow(self.arrow_schema)
        self.rows: int = self._file.metadata.num_rows
        self.groups: int = self._file.metadata.num_row_groups
        self.group_rows = tuple(self._file.metadata.row_group(group).num_rows for group in range(self.groups))

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: pc.Expression | None = None,
        groups: Sequence[int] | None = None,
        rows: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        """In the order they were written. `where` skips what statistics exclude; `groups` are row groups, by number."""
        names = None if columns is None else list(columns)
        with self._watched():
            if where is None:
                found = self._file.iter_batches(rows, row_groups=groups, columns=names)
            else:
                fragment = self.fragment() if groups is None else self.fragment().subset(row_group_ids=list(groups))
                scanner = fragment.scanner(
                    schema=stored_schema(self.arrow_schema).remove_metadata(),
                    columns=names,
                    filter=where,
                    batch_size=rows,
                    batch_readahead=2,
                )
                found = (batch for batch in scanner.to_batches() if batch.num_rows)
            for batch in found:
                yield restored(batch, self.arrow_schema)

    def read(self, columns: Sequence[str] | None = None, *, groups: Sequence[int] | None = None) -> pa.Table:
        with self._watched():
            wanted = list(range(self.groups)) if groups is None else list(groups)
            table = self._file.read_row_groups(wanted, columns=None if columns is None else list(columns))
            return restored(table.replace_schema_metadata(None), self.arrow_schema)

    def fragment(self) -> ds.Fragment:
        """For Arrow's own scanner, which skips row groups by their statistics."""
        options = ds.ParquetFragmentScanOptions(decryption_properties=self._opening, pre_buffer=True)
        return ds.ParquetFileFormat(default_fragment_scan_options=options).make_fragment(self._source)

    def verified(self) -> Written:
        """Read all of it and compute its digest anew."""
        digest = ContentDigest(self.schema)
        with self._watched():
            if self._source.read_at(len(_MAGIC), 0) != _MAGIC:  # which no reader looks at
                raise OSError("it does not begin as one")
        for batch in self.batches(rows=BLOCK_ROWS):
            digest.add(batch)
        return Written(rows=self.rows, size=self._file.metadata.serialized_size, schema=self.schema, digest=digest.close())

    def close(self) -> None:
        """What was read stays."""
        self._source.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the place it lies at failed, not the part
            raise Altered(altered(self._id, error)) from None


def altered(object_id: str, error: object) -> str:
    return f"Part {object_id} is not what was sealed: it was changed, cut or put in another's place ({str(error)[:200]})."


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise Invalid(f"A part's key has {KEY_BYTES} bytes, not {len(key)}.")
    return key


def _opened(stored: Stored, object_id: str) -> Any:
    if isinstance(stored, bytes | pa.Buffer):
        return pa.BufferReader(stored)
    if isinstance(stored, str | Path):
        with open(stored, "rb") as file:
            return _mapped(file.fileno(), object_id)
    return _mapped(stored, object_id) if isinstance(stored, int) else pa.PythonFile(stored, mode="r")


def _mapped(descriptor: int, object_id: str) -> pa.NativeFile:
    try:
        return pa.BufferReader(pa.py_buffer(mmap(descriptor, 0, access=ACCESS_READ)))
    except ValueError:  # nothing can be mapped of an empty file
        raise Altered(altered(object_id, "it is empty")) from None


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


class _Counted:
    """A file that only goes on, and how far it went."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.size = file, 0

    def write(self, data: Any) -> int:
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
