"""Every place that rows can be read from, by the scheme of its address."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from falaj.base.errors import Invalid
from falaj.tables.connectors import delta, duckdb_files, folders, iceberg, postgres, sqlite
from falaj.tables.connectors.addresses import Address, is_address, parsed
from falaj.tables.connectors.asking import Asked
from falaj.tables.connectors.opened import Opened, checked

_PLACES: Final[Mapping[str, Callable[[Address, Asked], Opened]]] = {
    "delta": delta.opened,
    "delta+s3": delta.opened,
    "duckdb": duckdb_files.opened,
    "iceberg": iceberg.opened,
    "postgres": postgres.opened,
    "postgresql": postgres.opened,
    "s3": folders.in_bucket,
    "sqlite": sqlite.opened,
}


def opened(source: str, asked: Asked) -> Opened:
    """The rows at an address, or in a folder here, read as they are asked for. Raises `Invalid`, `NotFound`, `LibraryMissing`
    and `SourceUnavailable`, here and from the batches; no message has a password in it."""
    if not is_address(source):
        return checked(_on_disk(Path(source), asked))
    address = parsed(source)
    if address.scheme not in _PLACES:
        raise Invalid(f"Rows are read from {', '.join(_PLACES)}; {address.scheme}:// is none of them.")
    return checked(_PLACES[address.scheme](address, asked))


def _on_disk(folder: Path, asked: Asked) -> Opened:
    if (folder / "_delta_log").is_dir():
        return delta.opened(parsed(f"delta:///{folder.absolute()}"), asked)
    return folders.on_disk(folder, asked)
