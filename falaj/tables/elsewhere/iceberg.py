"""What an Iceberg table says of itself, read inside walls: its snapshots, and which files one of them consists of.

Files with rows that are deleted in other files are refused, as is whatever a later format may ask of a reader.
"""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from falaj.base.errors import Invalid, NotFound
from falaj.tables.elsewhere.avro import Avro

T = TypeVar("T")
_NEWEST: Final = 2
_GONE: Final = 2
_WRONG: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    RecursionError,
    OverflowError,
    OSError,
    zlib.error,
)


def snapshot_of(metadata: bytes, at: str) -> dict[str, Any]:
    """Where the list of a snapshot's manifests is, and what its columns are called by their numbers. `manifests` is empty
    where the table never had a row."""
    return _read(lambda: _snapshot(json.loads(metadata), at))


def manifests_of(content: bytes) -> dict[str, Any]:
    """Of a list: where they are."""
    return _read(lambda: {"manifests": [str(record["manifest_path"]) for record in Avro(content).records()]})


def files_of(manifests: Sequence[bytes]) -> dict[str, Any]:
    """The data files that are there, each with its size."""
    return _read(lambda: {"files": [file for content in manifests for file in _files(content)]})


def _snapshot(table: Mapping[str, Any], at: str) -> dict[str, Any]:
    if int(table["format-version"]) > _NEWEST:
        raise Invalid(f"The Iceberg table is of format {int(table['format-version'])}; formats up to {_NEWEST} are read here.")
    wanted = int(at) if at else table.get("current-snapshot-id")
    snapshots = {int(one["snapshot-id"]): one for one in table.get("snapshots") or ()}
    if at and wanted not in snapshots:
        raise NotFound(f"The Iceberg table has no snapshot {at}: it never was, or has expired.")
    found = snapshots.get(wanted) if wanted is not None else None
    if found is None:
        return {"snapshot": 0, "manifests": "", "fields": {}, "needs": []}
    schemas = {one.get("schema-id", 0): one for one in [*(table.get("schemas") or ()), *filter(None, [table.get("schema")])]}
    schema = schemas[found.get("schema-id", table.get("current-schema-id", 0)) if at else table.get("current-schema-id", 0)]
    # What files are parted by may be missing in them, and is told only beside them: such files are refused as they are read.
    parted = {
        int(field["source-id"])
        for spec in table.get("partition-specs") or ()
        for field in spec["fields"]
        if field["transform"] == "identity"
    }
    fields = {int(field["id"]): str(field["name"]) for field in schema["fields"]}
    return {
        "snapshot": int(found["snapshot-id"]),
        "manifests": str(found["manifest-list"]),
        "fields": {str(number): name for number, name in fields.items()},
        "needs": sorted(parted & set(fields)),
    }


def _files(content: bytes) -> list[list[Any]]:
    found = []
    for record in Avro(content).records():
        if record["status"] == _GONE:
            continue
        file = record["data_file"]
        if file.get("content"):
            raise Invalid(
                "Rows of the Iceberg table are deleted in files of their own, which are not read here: "
                "rewrite its data files there, and register it again."
            )
        if str(file["file_format"]).upper() != "PARQUET":
            raise Invalid(f"The Iceberg table has files of {str(file['file_format'])[:20]}; only Parquet is read here.")
        found.append([str(file["file_path"]), int(file["file_size_in_bytes"])])
    return found


def _read(function: Callable[[], T]) -> T:
    try:
        return function()
    except _WRONG as error:
        raise Invalid(f"The Iceberg table cannot be read: {type(error).__name__}: {str(error)[:200]}.") from None
