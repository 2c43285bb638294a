"""Folders of Parquet, CSV or JSON lines files, here or in a bucket, as one table: file by file in the order of their names.

The first file decides the columns. What folders named `day=2026-11-16` say of all files in them is a column as well.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from falaj.base.errors import FalajError, Invalid, NotFound
from falaj.base.values import value
from falaj.tables import sources
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked, refuse, refuse_types
from falaj.tables.connectors.opened import ROWS, Opened, SourceUnavailable
from falaj.tables.connectors.places import bucket_files

_ENDINGS: Final = {"parquet": "parquet", "pq": "parquet", "csv": "csv", "tsv": "csv", "jsonl": "jsonl", "ndjson": "jsonl"}
_DELTA: Final = "_delta_log"


def in_bucket(address: Address, asked: Asked) -> Opened:
    files, folder = bucket_files(address, asked)
    return _opened(files, folder, address.shown, asked)


def on_disk(folder: Path, asked: Asked) -> Opened:
    refuse(asked, "a folder", endpoint="--endpoint")
    return _opened(pafs.LocalFileSystem(), str(folder.absolute()), folder.name, asked)


@value
class _File:
    path: str
    says: dict[str, str]


def _opened(files: pafs.FileSystem, folder: str, shown: str, asked: Asked) -> Opened:
    refuse(asked, "a folder of files", table="--table", query="--query", at="--at")
    try:
        listed = _listed(files, folder, shown)
        format = _format(listed, asked, shown)
        chosen = [_File(path=info.path, says=_said(info.path[len(folder) :])) for info in listed]
        reading = _Reading(files, chosen, format, asked, shown)
    except (OSError, pa.ArrowException) as error:
        raise _told(error, shown) from None
    about = [(info.path, info.size, info.mtime_ns) for info in listed]
    pin = hashlib.sha256(json.dumps([about, format]).encode()).hexdigest()
    return Opened(schema=reading.schema, batches=reading.batches(), shown=shown, pin=pin)


class _Reading:
    def __init__(self, files: pafs.FileSystem, chosen: Sequence[_File], format: str, asked: Asked, shown: str) -> None:
        self._files, self._chosen, self._shown = files, chosen, shown
        self._format, self._asked = format, asked
        self._says = _columns_said(chosen)
        first = self._batches_of(chosen[0], None)
        if twice := [name for name in self._says if name in first[0].names]:
            raise Invalid(f"{shown}: column {twice[0]!r} is in the files and in the names of their folders.")
        self._inner, self._first = first
        self.schema = pa.schema([*self._inner, *(pa.field(name, kind) for name, kind in self._says.items())])

    def batches(self) -> Iterator[pa.RecordBatch]:
        for number, file in enumerate(self._chosen):
            try:
                given, batches = (self._inner, self._first) if number == 0 else self._batches_of(file, self._inner)
                self._compare(given, file)
                for batch in batches:
                    yield self._with_said(batch.select(self._inner.names).cast(self._inner), file)
            except FalajError as error:
                raise type(error)(f"{self._name(file)}: {error}") from None
            except (OSError, pa.ArrowException) as error:
                raise _told(error, self._name(file)) from None

    def _batches_of(self, file: _File, wanted: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        if self._format == "parquet":
            refuse_types(self._asked, "Parquet files")
            opened = pq.ParquetFile(self._files.open_input_file(file.path), page_checksum_verification=True)
            return opened.schema_arrow.remove_metadata(), _plain(opened.iter_batches(ROWS))
        stream: Any = self._files.open_input_stream(file.path, compression=None)
        form = replace(self._asked.form, format=self._format)
        found = sources.opened(stream, form, None if wanted is None else from_arrow(wanted))
        return found.schema, found.batches

    def _compare(self, given: pa.Schema, file: _File) -> None:
        if set(given.names) != set(self._inner.names) or len(given.names) != len(self._inner.names):
            raise Invalid(
                f"its columns are {', '.join(given.names)}, and those of {self._name(self._chosen[0])} are "
                f"{', '.join(self._inner.names)}. All files of a folder have the same."
            )

    def _with_said(self, batch: pa.RecordBatch, file: _File) -> pa.RecordBatch:
        said = [pa.repeat(_as(file.says.get(name), kind), batch.num_rows) for name, kind in self._says.items()]
        return pa.RecordBatch.from_arrays([*batch.columns, *said], schema=self.schema)

    def _name(self, file: _File) -> str:
        return f"{self._shown}: {file.path.rpartition('/')[2]}"


def _listed(files: pafs.FileSystem, folder: str, shown: str) -> list[pafs.FileInfo]:
    """Files whose names begin with a dot or an underscore belong to the programs that wrote the others."""
    alone = files.get_file_info(folder)
    if alone.type == pafs.FileType.File:
        return [alone]
    found = files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True))
    if any(info.path[len(folder) :].strip("/").startswith(_DELTA) for info in found):
        scheme = "delta+s3" if shown.startswith("s3://") else "delta"
        raise Invalid(f"{shown} is a Delta table, whose files are not all of one version: read it as {scheme}://.")
    plain = [info for info in found if info.type == pafs.FileType.File and info.size and not _hidden(info.path[len(folder) :])]
    if not plain:
        raise NotFound(f"There are no files in {shown}.")
    return sorted(plain, key=lambda info: info.path)


def _hidden(path: str) -> bool:
    return any(name.startswith((".", "_")) for name in path.split("/"))


def _format(listed: Sequence[pafs.FileInfo], asked: Asked, shown: str) -> str:
    if asked.form.format:
        return asked.form.format
    endings = {info.path.lower().removesuffix(".gz").removesuffix(".zst").rpartition(".")[2] for info in listed}
    formats = {_ENDINGS.get(ending, "") for ending in endings}
    if len(formats) != 1 or "" in formats:
        raise Invalid(f"{shown} has files that end in {', '.join(sorted(endings))}: say what all of them are (--format).")
    return formats.pop()


def _said(path: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in path.split("/")[:-1]]
    return {unquote(name): unquote(text) for name, equals, text in pairs if equals and name}


def _columns_said(chosen: Sequence[_File]) -> dict[str, pa.DataType]:
    names = list(dict.fromkeys(name for file in chosen for name in file.says))
    return {name: pa.int64() if all(_is_number(file.says.get(name)) for file in chosen) else pa.string() for name in names}


def _is_number(text: str | None) -> bool:
    """Whether nothing of it is lost in a number: a zip code that begins with a zero is none."""
    return text is None or (text.isdecimal() and text.isascii() and len(text) < 19 and str(int(text)) == text)


def _as(text: str | None, kind: pa.DataType) -> pa.Scalar:
    none = text is None or text == "__HIVE_DEFAULT_PARTITION__"
    return pa.scalar(None if none else int(str(text)) if pa.types.is_integer(kind) else text, kind)


def _plain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        batch.validate(full=True)
        yield batch.replace_schema_metadata(None)


def _told(error: Exception, shown: str) -> FalajError:
    said = " ".join(str(error).split())[:300].rstrip(".")
    if isinstance(error, FileNotFoundError) or "NoSuchBucket" in said:
        return NotFound(f"There is no {shown}: {said}.")
    if any(word in said for word in ("ACCESS_DENIED", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied")):
        return Invalid(f"{shown} lets nobody in with these keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY): {said}.")
    if isinstance(error, pa.ArrowInvalid) or not isinstance(error, OSError):
        return Invalid(f"{shown} cannot be read: {said}.")
    return SourceUnavailable(f"{shown} does not answer, or broke off: {said}. No version was made.")
