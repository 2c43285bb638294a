"""What of a version is served: the model's own files, in which runtime; nothing of it is ever loaded here.

Models that no runtime takes as they are may be converted by somebody else, who is known here as `Converter`.
"""

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.work import Context, Database
from falaj.registry import servable
from falaj.registry.formats.content import Content, Read
from falaj.registry.formats.onnx import read_onnx
from falaj.registry.mlmodel import MLMODEL, ModelDescription, read
from falaj.registry.registering import Contents
from falaj.registry.sources import SourceFile
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.serving.states import Column
from falaj.storage.service import BlobService, Received

MOST_COLUMNS: Final = 10_000
Rows: TypeAlias = Callable[[], Sequence[Mapping[str, Any]]]
"""Real rows by the names of their columns, as JSON has them; none where there are none to be seen."""


@value
class Form:
    """A version as it is served. `file` is the model among `files`, which are stored and sealed; `converted` says from what
    it was made, where it is not the version's own, and how far apart the two are by whose word; `fresh` are those of its files
    that are received and not kept yet, by name; `remarks` are for whoever deploys."""

    runtime: str
    file: str
    files: tuple[SourceFile, ...]
    columns: tuple[Column, ...] = ()
    converted: str = ""
    fresh: Mapping[str, Received] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


class Converter(Protocol):
    """Makes a servable form of a version that has none. Called outside any transaction; may take long.

    The files of the form are kept for the project, or received for it. `rows` are asked for where it is really converted, and
    are what the two are compared on. Raises `Conflict` with the reasons where it cannot be done, and with what to do instead.
    """

    def convert(self, context: Context, version: Found, *, allow_python: bool, rows: Rows | None = None) -> Form: ...


class Forms:
    """Thread-safe. Used outside transactions: it reads files."""

    def __init__(self, database: Database, blobs: BlobService, converter: Converter | None = None) -> None:
        self._database = database
        self._blobs = blobs
        self._converter = converter

    def of(self, context: Context, version: Found, *, allow_python: bool, rows: Rows | None = None) -> Form:
        """`rows` are for a conversion, see `Converter`. Raises `Conflict` with the precise reasons where the version cannot be
        served."""
        stored = self._database.read(lambda work: version_store.files_of(work, version.id))
        files = tuple(SourceFile(name=row.name, blob=row.blob, size=row.size, digest=row.digest) for row in stored)
        contents = Contents(self._database, self._blobs, context, files)
        found = self._look(version, files, contents)
        if found is not None:
            return found
        if self._converter is None:
            raise not_servable(version, json.loads(version.reasons))
        form = self._converter.convert(context, version, allow_python=allow_python, rows=rows)
        return form if form.columns else replace(form, columns=columns_of(version.inputs))

    def _look(self, version: Found, files: tuple[SourceFile, ...], contents: Contents) -> Form | None:
        if not version.servable:
            return None
        found = servable.check([file.shown for file in files], _description(contents), contents.part)
        if not found.ok:
            raise not_servable(version, found.reasons)
        sizes = {file.name: file.size for file in files}
        needed = needed_files(found.runtime, found.file, sizes[found.file], contents.part)
        return Form(
            runtime=found.runtime,
            file=found.file,
            files=tuple(file for file in files if file.name in needed),
            columns=columns_of(version.inputs),
            remarks=found.reasons,
        )


def _description(contents: Contents) -> ModelDescription | None:
    """What the model says of itself; one that says it in a way nobody can read was registered with a warning."""
    text = contents.whole(MLMODEL)
    try:
        return None if text is None else read(text)
    except Invalid:
        return None


def needed_files(runtime: str, file: str, size: int, part: Read) -> set[str]:
    """The model and what it cannot be loaded without."""
    if runtime == "onnx":
        folder = posixpath.dirname(file)
        weights = read_onnx(Content(part, file, size)).external
        return {file, *(posixpath.normpath(posixpath.join(folder, location)) for location in weights)}
    if runtime == "openvino":
        return {file, file.removesuffix(".xml") + ".bin"}
    return {file}


def columns_of(inputs: str) -> tuple[Column, ...]:
    """The columns that a signature names, or none where it is one of tensors or leaves a name out."""
    fields: Sequence[dict[str, Any]] = json.loads(inputs) if inputs else ()
    if len(fields) > MOST_COLUMNS or not all(one.get("name") and "type" in one for one in fields):
        return ()
    return tuple(Column(name=one["name"], type=one["type"], required=one.get("required") is not False) for one in fields)


def columns_written(columns: tuple[Column, ...]) -> str:
    return msgspec.json.encode(columns).decode()


def read_columns(text: str) -> tuple[Column, ...]:
    return msgspec.json.decode(text, type=tuple[Column, ...])


def not_servable(version: Found, reasons: Sequence[str]) -> Conflict:
    told = " ".join(reasons) or "Its files are of no format that is served."
    return Conflict(f"Version {version.number} of model {version.model_name!r} cannot be served as it is: {told}")
