"""The log of a Delta table, read inside walls: which files a version of it consists of.

Read here and not by a library, because a library would want the network and the credentials together with what others wrote.
What the log may ask of a reader and this one does not do is refused: https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from falaj.base.errors import Invalid

# Of readers; what only writers must do is not asked of us.
_KNOWN: Final = frozenset(
    {"timestampNtz", "vacuumProtocolCheck", "typeWidening", "v2Checkpoint", "deletionVectors", "columnMapping"}
)
_READ: Final = ("add.path", "add.size", "add.partitionValues", "add.deletionVector", "metaData", "protocol", "sidecar")
_TYPES: Final = {
    "string": "text", "byte": "int8", "short": "int16", "integer": "int32", "long": "int64", "float": "float32",
    "double": "float64", "boolean": "bool", "date": "date", "timestamp": "moment",
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_ZONED: Final = re.compile(r"(Z|[+-]\d\d:?\d\d)$")


def files_of(commits: IO[bytes], checkpoints: Iterable[Any]) -> dict[str, Any]:
    """`commits` are the lines of those behind the checkpoint, in their order. Raises `Invalid`."""
    try:
        state = _State()
        for checkpoint in checkpoints:
            for action in _actions(checkpoint):
                state.apply(action)
        for line in commits:
            if line.strip():
                state.apply(json.loads(line))
        return state.answer()
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid(f"The log of the Delta table cannot be read: {type(error).__name__}: {str(error)[:200]}.") from None


class _State:
    def __init__(self) -> None:
        self._files: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._about: Mapping[str, Any] = {}
        self._protocol: Mapping[str, Any] = {}

    def apply(self, action: Mapping[str, Any]) -> None:
        if add := action.get("add"):
            self._files[_key(add)] = add
        if remove := action.get("remove"):
            self._files.pop(_key(remove), None)
        if action.get("sidecar"):
            raise Invalid("The checkpoint of the Delta table has its files listed beside it (v2), which is not read here.")
        self._about = action.get("metaData") or self._about
        self._protocol = action.get("protocol") or self._protocol

    def answer(self) -> dict[str, Any]:
        if not self._about or not self._protocol:
            raise Invalid("The log of the Delta table does not say what the table is: it lacks its beginning.")
        self._refuse_unknown()
        columns = self._about.get("partitionColumns") or ()
        types = _types(self._about["schemaString"], columns)
        files = [self._file(path, add, types) for (path, _), add in sorted(self._files.items())]
        return {"files": files, "id": str(self._about.get("id", ""))}

    def _file(self, path: str, add: Mapping[str, Any], types: Mapping[str, str]) -> list[Any]:
        if add.get("deletionVector"):
            raise Invalid(
                "Rows of the Delta table are deleted by deletion vectors, which are not read here: "
                "purge it there (REORG TABLE ... APPLY (PURGE)), and register it again."
            )
        values = dict(add.get("partitionValues") or {})
        return [path, int(add["size"]), [[name, word, _text(values.get(name), word)] for name, word in types.items()]]

    def _refuse_unknown(self) -> None:
        least = int(self._protocol.get("minReaderVersion") or 1)
        asked = {str(name) for name in self._protocol.get("readerFeatures") or ()}
        if least > 3 or asked - _KNOWN:
            raise Invalid(f"The Delta table asks more of its readers than is done here: {', '.join(sorted(asked - _KNOWN))}.")
        mode = dict(self._about.get("configuration") or {}).get("delta.columnMapping.mode", "none")
        if mode != "none":
            raise Invalid(
                "The columns of the Delta table have other names in its files (column mapping), which is not read here."
            )


def _key(action: Mapping[str, Any]) -> tuple[str, str]:
    """A file, with what is deleted of it: the same file with more deleted is another, and replaces it."""
    return str(action["path"]), json.dumps(action.get("deletionVector") or None, sort_keys=True, default=str)


def _actions(checkpoint: Any) -> Iterator[Mapping[str, Any]]:
    file = pq.ParquetFile(checkpoint)
    there = {column.path for column in map(file.schema.column, range(len(file.schema)))}
    wanted = [name for name in _READ if any(path == name or path.startswith(f"{name}.") for path in there)]
    for batch in file.iter_batches(4096, columns=wanted):
        yield from batch.to_pylist()


def _types(schema: str, columns: Iterable[str]) -> dict[str, str]:
    fields = {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
    found = {}
    for name in columns:
        kind = fields[name]
        decimal = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
        if decimal:
            found[name] = f"decimal({decimal[1]}, {decimal[2]})"
        elif kind in _TYPES:
            found[name] = _TYPES[kind]
        else:
            raise Invalid(f"The Delta table is partitioned by {name!r}, which is {kind}: such is not read here.")
    return found


def _text(text: str | None, word: str) -> str | None:
    """An empty text is none; times without an offset are UTC's."""
    if not text:
        return None
    if word == "moment" and not _ZONED.search(text):
        return text.replace(" ", "T") + "Z"
    return str(text)
