"""From what `autolog` left behind to what is served: converted in a sandbox, compared with the original, and looked into like
any other upload before it counts. What cannot be converted may run as it is, isolated, for whoever asks for that."""

import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.registry import servable
from falaj.registry.formats.content import Content
from falaj.registry.formats.onnx import read_onnx
from falaj.registry.mlmodel import MLMODEL, ModelDescription, read
from falaj.registry.operations.versions import VersionFile
from falaj.registry.registering import Contents
from falaj.registry.sources import SourceFile
from falaj.registry.store import versions as version_store
from falaj.registry.store.tables import Found
from falaj.runtimes import lightgbm_files, xgboost_files
from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.sandbox import END_OF_FILES, Sandbox, packed
from falaj.runtimes.walls import Bounds
from falaj.serving.forms import MOST_COLUMNS, Form, Rows, columns_of, not_servable, read_columns
from falaj.serving.permitting import ISOLATED, Permits
from falaj.serving.states import Column
from falaj.serving.store import endpoints as store
from falaj.storage.service import BlobService, Reader

REQUEST: Final = "falaj-model.json"  # what the programs in the sandbox must know, among the model's files
ROWS: Final = "falaj-rows.json"  # and rows to compare on; they are not kept
MOST_ROWS: Final = 256
LARGEST: Final = 2 << 30  # of all files that go in
_AT_ONCE: Final = 1
_LONGEST_NAME: Final = 1000
_LONGEST_SAID, _LONGEST_REASON = 200, 1500  # letters of what is said where the model's own code runs
_ITS_WORD: Final = "as its own code says"  # which ran in that process, and may have said so itself
_NAMED, _SHORT = 6, 60  # operators in a remark, and letters of each
# What the engines will say of a file, said before anybody depends on it.
_CHECKS: Final[Mapping[str, Callable[[bytes], object]]] = {
    "lightgbm": lambda content: lightgbm_files.checked(content.decode()),
    "xgboost": xgboost_files.checked,
}


@value
class Logged:
    """A version as it was logged: its files, and what the programs in the sandbox are told about them."""

    version: Found
    files: tuple[SourceFile, ...]
    request: bytes


class NotConverted(Exception):
    """Why; told to whoever deploys, with what can be done."""


class SandboxConverter:
    """Thread-safe; one conversion at a time, because each takes a core. What was converted once is not converted again, unless
    there are rows to compare it on."""

    def __init__(self, database: Database, blobs: BlobService, permits: Permits, sandbox: Sandbox) -> None:
        self._database, self._blobs, self._permits, self._sandbox = database, blobs, permits, sandbox
        self._turn = threading.Semaphore(_AT_ONCE)

    def convert(self, context: Context, version: Found, *, allow_python: bool, rows: Rows | None = None) -> Form:
        logged = self._logged(context, version)
        compared = () if rows is None else rows()
        known = self._database.read(lambda work: _converted_before(work, context, version))
        if known is not None and not compared:  # otherwise nobody knows what it would say to these
            return known
        self._database.read(lambda work: self._permits.check_code(replace(context, work=work), version))
        try:
            return self._converted(context, logged, compared)
        except NotConverted as error:
            if not allow_python:
                raise Conflict(
                    f"Version {version.number} of model {version.model_name!r} could not be converted for serving: {error}. "
                    "It can run as it is, by its own Python code in a sandbox, where the serving plane allows that ([serving] "
                    "python = true): deploy it with --allow-python."
                ) from None
            return self._as_it_is(context, logged, str(error))

    def _logged(self, context: Context, version: Found) -> Logged:
        """Raises `Conflict` for what nobody could even try to convert."""
        rows = self._database.read(lambda work: version_store.files_of(work, version.id))
        files = tuple(SourceFile(name=row.name, blob=row.blob, size=row.size, digest=row.digest) for row in rows)
        description = self._description(context, files)
        if description is None or not description.flavours:
            raise not_servable(version, json.loads(version.reasons))
        if (size := sum(file.size for file in files)) > LARGEST:
            too_large = f"Its files have {size >> 20} MiB; up to {LARGEST >> 20} MiB are converted."
            raise not_servable(version, [*json.loads(version.reasons), too_large])
        own = tuple(file for file in files if file.name not in (REQUEST, ROWS))
        return Logged(version=version, files=own, request=_request(version, description))

    def _description(self, context: Context, files: tuple[SourceFile, ...]) -> ModelDescription | None:
        text = Contents(self._database, self._blobs, context, files).whole(MLMODEL)
        try:
            return None if text is None else read(text)
        except Invalid:
            return None  # it was registered with that as a warning

    # Converting

    def _converted(self, context: Context, logged: Logged, rows: Sequence[Mapping[str, Any]]) -> Form:
        with self._turn:
            try:
                told = self._sandbox.run("convert", self._packed(context, logged, rows), Bounds())
            except Conflict as error:
                raise NotConverted(str(error).rstrip(".")) from None
        report, made = _unpacked(told)
        if "error" in report:
            raise NotConverted(_reason(report))
        return self._form(context, logged.version, report, made)

    def _packed(self, context: Context, logged: Logged, rows: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
        compared = json.dumps([dict(row) for row in rows[:MOST_ROWS]]).encode()
        for name, content in ((REQUEST, logged.request), (ROWS, compared)):
            yield from packed(name, len(content), (content,))
        for file in logged.files:
            yield from packed(file.name, file.size, self._reader(context, file).read())
        yield END_OF_FILES

    def _reader(self, context: Context, file: SourceFile) -> Reader:
        return self._database.read(lambda work: self._blobs.open(replace(context, work=work), file.blob))

    def _form(self, context: Context, version: Found, report: dict[str, Any], made: dict[str, bytes]) -> Form:
        def read_part(name: str, offset: int, length: int) -> bytes:
            return made[name][offset : offset + length]

        shown = [VersionFile(name=name, size=len(content), digest="") for name, content in made.items()]
        found = servable.check(shown, None, read_part)
        if not found.ok:
            raise NotConverted(" ".join(found.reasons).rstrip("."))
        try:
            _CHECKS.get(found.runtime, len)(made[found.file])
        except (NotLoadable, UnicodeDecodeError) as error:
            raise NotConverted(f"what it was converted to cannot be served: {error}") from None
        received = {name: self._blobs.receive(context.required_project, "", iter((content,))) for name, content in made.items()}
        made_from = _made_from(report)
        operators = _operators(Content(read_part, found.file, len(made[found.file]))) if found.runtime == "onnx" else []
        return Form(
            runtime=found.runtime,
            file=found.file,
            files=tuple(
                SourceFile(name=name, blob="", size=one.size, digest=one.digest) for name, one in sorted(received.items())
            ),
            fresh=received,
            columns=columns_of(version.inputs) or _columns(report),
            converted=made_from,
            remarks=(f"Converted from {made_from}.", *_remarks(report), *operators),
        )

    # As it is

    def _as_it_is(self, context: Context, logged: Logged, why: str) -> Form:
        request = self._blobs.receive(context.required_project, "", iter((logged.request,)))
        told = SourceFile(name=REQUEST, blob="", size=request.size, digest=request.digest)
        return Form(
            runtime=ISOLATED,
            file=REQUEST,
            files=(*logged.files, told),
            fresh={REQUEST: request},
            columns=columns_of(logged.version.inputs),
            remarks=(f"It could not be converted: {why}. So it runs by its own Python code, in a sandbox, and more slowly.",),
        )


def _request(version: Found, description: ModelDescription) -> bytes:
    fields = json.loads(version.inputs) if version.inputs else []
    request = {
        "flavours": {flavour.name: flavour.files[0] if flavour.files else "" for flavour in description.flavours},
        "columns": [field for field in fields if "type" in field],
        "tensors": [field for field in fields if "dtype" in field],
    }
    return json.dumps(request).encode()


def _reason(report: dict[str, Any]) -> str:
    why = _said(report["error"], _LONGEST_REASON).rstrip(".")
    if report.get("missing"):
        return f"{why}. An operator can add it there, or name another Python by [serving] converter"
    return why


def _made_from(report: dict[str, Any]) -> str:
    """And how far what was made is from that, by the word of whose process it is."""
    try:
        apart, allowed, rows = float(report["apart"]), float(report["allowed"]), int(report["rows"])
    except (KeyError, TypeError, ValueError):
        apart, allowed, rows = float("nan"), float("nan"), 0
    kind = "real" if report.get("real") is True else "sample"
    differ = f"on {rows} {kind} rows the two differ by {apart:.2g} at most, {allowed:g} is allowed"
    return f"{_said(report.get('made_from', 'the original'))}, {_ITS_WORD}; {differ}"


def _remarks(report: dict[str, Any]) -> Iterator[str]:
    if unfit := _said(report.get("unfit", "")):
        yield f"They are made up, and not those of the dataset: {unfit}, {_ITS_WORD}."
    if answers := _said(report.get("answers", "")):
        yield f"It answers with {answers}, {_ITS_WORD}."


def _said(told: Any, longest: int = _LONGEST_SAID) -> str:
    """Text from where a model's own code ran, in one line of letters that can be shown, and no longer than people read."""
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in str(told)[: 4 * longest]).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 3]}..."


def _operators(content: Content) -> list[str]:
    """What the converted model is made of, by the file itself."""
    model = read_onnx(content)
    domain, version = model.opsets[0]
    opset = f"{'ONNX' if domain in ('', 'ai.onnx') else _said(domain, _SHORT)} opset {version}"
    total, more = (sum(count for _, count in model.operators[start:]) for start in (0, _NAMED))
    named = ", ".join(f"{_said(name, _SHORT)} {count}" for name, count in model.operators[:_NAMED])
    others = f" and {more} others" if more > 1 else " and another" if more else ""
    return [f"{opset}, {total} operator{'s' if total != 1 else ''}: {named}{others}."]


def _columns(report: dict[str, Any]) -> tuple[Column, ...]:
    """What the model calls its columns, where its signature does not."""
    names = report.get("columns")
    if not isinstance(names, list) or len(names) > MOST_COLUMNS or len(set(map(str, names))) != len(names):
        return ()
    if not all(isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME for name in names):
        return ()
    return tuple(Column(name=name) for name in names)


def _converted_before(work: UnitOfWork, context: Context, version: Found) -> Form | None:
    row = store.converted_before(work, context.required_project.id, version.id)
    if row is None:
        return None
    files = store.files_of(work, row.id)
    return Form(
        runtime=row.runtime,
        file=row.file,
        files=tuple(SourceFile(name=file.name, blob=file.blob, size=file.size, digest=file.digest) for file in files),
        columns=read_columns(row.columns),
        converted=row.converted,
        remarks=(f"Converted before, from {row.converted}.",),
    )


def _unpacked(told: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the program wrote is not trusted: names and sizes are looked at, nothing is written anywhere."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(told), mode="r:") as tar:
            for entry in tar:
                content = tar.extractfile(entry)
                if content is None or "/" in entry.name or len(found) > 10:
                    raise ValueError(entry.name)
                found[entry.name] = content.read()
        report = json.loads(found.pop("report.json"))
        if not isinstance(report, dict):
            raise TypeError("report")
    except (tarfile.TarError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotConverted(
            f"the conversion gave no answer that can be read ({error}); is the model doing something odd?"
        ) from None
    return report, found
