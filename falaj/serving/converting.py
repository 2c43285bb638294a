"""From what `autolog` left behind to what is served: converted in a sandbox, compared with the original, and looked into like
any other upload before it counts."""

import io
import json
import tarfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import falaj.runtimes.sandboxed as sandboxed
from falaj.base.errors import Conflict
from falaj.database.work import Context, Database, UnitOfWork
from falaj.registry import servable
from falaj.registry.mlmodel import MLMODEL, ModelDescription, read
from falaj.registry.operations.versions import VersionFile
from falaj.registry.registering import Contents
from falaj.registry.sources import SourceFile
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.runtimes.sandbox import Bounds, Sandbox
from falaj.serving.forms import Form, columns_of, not_servable
from falaj.serving.permitting import Permits
from falaj.serving.store import endpoints as store
from falaj.storage.service import BlobService, Reader

PROGRAM: Final = Path(sandboxed.__file__).with_name("convert.py")
LARGEST: Final = 2 << 30  # of all files that go in
_AT_ONCE: Final = 1
_BLOCK: Final = 512


class SandboxConverter:
    """Thread-safe; one conversion at a time, because each takes a core. What was converted once is not converted again."""

    def __init__(self, database: Database, blobs: BlobService, permits: Permits, sandbox: Sandbox) -> None:
        self._database, self._blobs, self._permits, self._sandbox = database, blobs, permits, sandbox
        self._turn = threading.Semaphore(_AT_ONCE)

    def convert(self, context: Context, version: Found, *, allow_python: bool) -> Form:
        rows = self._database.read(lambda work: version_store.files_of(work, version.id))
        files = tuple(SourceFile(name=row.name, blob=row.blob, size=row.size, digest=row.digest) for row in rows)
        description = self._description(context, files)
        if description is None or not description.flavours or sum(file.size for file in files) > LARGEST:
            raise not_servable(version, json.loads(version.reasons))
        if (known := self._database.read(lambda work: _converted_before(work, context, version))) is not None:
            return known
        self._database.read(lambda work: self._permits.check_code(replace(context, work=work), version))
        with self._turn:
            told = self._sandbox.run(PROGRAM, self._packed(context, files, description, version), Bounds())
        return self._form(context, version, *_unpacked(told))

    def _description(self, context: Context, files: tuple[SourceFile, ...]) -> ModelDescription | None:
        text = Contents(self._database, self._blobs, context, files).whole(MLMODEL)
        return None if text is None else read(text)

    def _packed(
        self, context: Context, files: Sequence[SourceFile], description: ModelDescription, version: Found
    ) -> Iterator[bytes]:
        """A tar of the version's files and of what the program must know; nothing of it touches a disk in clear."""
        fields = json.loads(version.inputs) if version.inputs else []
        named = {
            flavour.name: dict.fromkeys(("pickled_model", "data", "model_data"), flavour.files[0])
            for flavour in description.flavours
            if flavour.files
        }
        request = {
            "flavours": named,
            "columns": [field for field in fields if "type" in field],
            "tensors": [field for field in fields if "dtype" in field],
        }
        yield from _entry("falaj-request.json", len(body := json.dumps(request).encode()), iter((body,)))
        for file in files:
            yield from _entry(file.name, file.size, self._reader(context, file).read())
        yield bytes(2 * _BLOCK)

    def _reader(self, context: Context, file: SourceFile) -> Reader:
        return self._database.read(lambda work: self._blobs.open(replace(context, work=work), file.blob))

    def _form(self, context: Context, version: Found, report: dict[str, Any], made: dict[str, bytes]) -> Form:
        if "error" in report:
            raise Conflict(
                f"Version {version.number} of model {version.model_name!r} could not be converted for serving: "
                f"{str(report['error'])[:1500]}."
            )
        shown = [VersionFile(name=name, size=len(content), digest="") for name, content in made.items()]
        found = servable.check(shown, None, lambda name, offset, length: made[name][offset : offset + length])
        if not found.ok:
            raise not_servable(version, found.reasons)
        received = {name: self._blobs.receive(context.required_project, "", iter((content,))) for name, content in made.items()}
        apart, rows = float(report.get("apart", 0)), int(report.get("rows", 0))
        made_from = str(report.get("made_from", "the original"))[:200]
        return Form(
            runtime=found.runtime,
            file=found.file,
            files=tuple(
                SourceFile(name=name, blob="", size=one.size, digest=one.digest) for name, one in sorted(received.items())
            ),
            fresh=received,
            columns=columns_of(version.inputs),
            converted=made_from,
            remarks=(f"Converted from {made_from}; on {rows} sample rows the two differ by {apart:.2g} at most.",),
        )


def _converted_before(work: UnitOfWork, context: Context, version: Found) -> Form | None:
    row = store.converted_before(work, context.required_project.id, version.id)
    if row is None:
        return None
    files = store.files_of(work, row.id)
    return Form(
        runtime=row.runtime,
        file=row.file,
        files=tuple(SourceFile(name=file.name, blob=file.blob, size=file.size, digest=file.digest) for file in files),
        columns=columns_of(version.inputs),
        converted=row.converted,
        remarks=(f"Converted before, from {row.converted}.",),
    )


def _entry(name: str, size: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    entry = tarfile.TarInfo(name)
    entry.size = size
    yield entry.tobuf(tarfile.PAX_FORMAT)
    yield from chunks
    yield bytes(-size % _BLOCK)


def _unpacked(told: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the program wrote is not trusted: names and sizes are looked at, nothing is written anywhere."""
    try:
        with tarfile.open(fileobj=io.BytesIO(told), mode="r:") as tar:
            found: dict[str, bytes] = {}
            for entry in tar:
                content = tar.extractfile(entry)
                if content is None or "/" in entry.name or len(found) > 10:
                    raise ValueError(entry.name)
                found[entry.name] = content.read()
        report = json.loads(found.pop("report.json"))
        if not isinstance(report, dict):
            raise TypeError("report")
    except (tarfile.TarError, ValueError, TypeError, KeyError) as error:
        raise Conflict(f"The conversion gave no answer that can be read ({error}); is the model doing something odd?") from None
    return report, found
