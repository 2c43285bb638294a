"""Registering a version. Reading its small files comes first, outside the transaction; then it is numbered, signed, kept."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final

from falaj.base.errors import Conflict, Invalid, NotFound, TooLarge
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.lineage.graph import Node, link
from falaj.registry import sbom, servable
from falaj.registry.mlmodel import MLMODEL, Field, ModelDescription, read
from falaj.registry.operations import versions as declared
from falaj.registry.operations.words import REPLAY_OF
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.requirements import REQUIREMENTS
from falaj.registry.servable import Servable
from falaj.registry.signing import sign
from falaj.registry.sources import SourceFile, Sources
from falaj.registry.store import versions as store
from falaj.registry.verifying import VERSION, manifest_digest, signed_name
from falaj.registry.views import required_model, required_version, version_shown
from falaj.storage.service import BlobService, Owner, Reader

MOST_FILES: Final = 5000
LARGEST_READ: Final = 1 << 20


@value
class Gathered:
    """What the first step found out: the files, and what those say that describe the others."""

    files: tuple[SourceFile, ...]
    description: ModelDescription | None
    requirements: Mapping[str, bytes]
    servable: Servable


class RegistrationService:
    """`version.create`."""

    def __init__(self, database: Database, blobs: BlobService, sources: Sources, signers: ProjectSigners) -> None:
        self._database = database
        self._blobs = blobs
        self._sources = sources
        self._signers = signers

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.CREATE_VERSION, self.gather, self.create)]

    # First step

    def gather(self, context: Context, request: declared.CreateVersion) -> Gathered:
        files = self._database.read(lambda work: self._look(replace(context, work=work), request))
        content = Contents(self._database, self._blobs, context, files)
        trouble, description = "", None
        try:
            if (text := content.whole(MLMODEL)) is not None:
                description = read(text)
        except Invalid as error:
            trouble = f"{MLMODEL} cannot be read: {error}"
        found = servable.check([file.shown for file in files], description, content.part)
        if trouble:
            found = replace(found, reasons=(trouble, *found.reasons))
        wanted = ((name, content.whole(name)) for name in REQUIREMENTS)
        requirements = {name: text for name, text in wanted if text is not None}
        return Gathered(files=files, description=description, requirements=requirements, servable=found)

    def _look(self, context: Context, request: declared.CreateVersion) -> tuple[SourceFile, ...]:
        required_model(context, request.model)
        if bool(request.folder) and not request.holder:
            raise Invalid("A folder is one of a run or of a logged model: name its holder, too.")
        if not request.holder and not request.source:
            raise Invalid("Say where the version's files are: a holder (a run or a logged model), or else a source.")
        if request.run and request.holder and not request.holder.startswith("m-") and request.run != request.holder:
            raise Invalid(f"The files are those of run {request.holder}, so the version cannot come from run {request.run}.")
        if request.run and self._sources.run(context, request.run) is None:
            raise NotFound(f"There is no run {request.run} here.")
        if request.holder.startswith("m-") and request.run not in ("", own := self._sources.run_of(context, request.holder)):
            logged = f"was logged by run {own}" if own else "was logged by no run"
            raise Invalid(f"The model {request.holder} {logged}, so the version cannot come from run {request.run}.")
        return self._files(context, request)

    def _files(self, context: Context, request: declared.CreateVersion) -> tuple[SourceFile, ...]:
        files = self._sources.files(context, request.holder, request.folder) if request.holder else ()
        if not files and request.folder and self._sources.files(context, request.holder, ""):
            raise NotFound(f"{request.holder} has files, and none below {request.folder!r}: is the folder spelled right?")
        if len(files) > MOST_FILES:
            raise TooLarge(f"The folder has {len(files)} files; a version may have {MOST_FILES}.")
        return files

    # In the transaction

    def create(self, context: Context, request: declared.CreateVersion, gathered: Gathered) -> declared.Version:
        model = required_model(context, request.model, hold=True)
        if self._files(context, request) != gathered.files:
            raise Conflict("Files were changed while they were registered; register them again once they are complete.")
        number = store.next_number(context.work, model.id, request.version, context.now)
        if not number:
            raise Conflict(
                f"Model {request.model!r} has come to version {model.last_version}; {request.version} would go back."
            )
        id = new_id(context.now)
        store.add(context.work, self._row(context, request, gathered, model=model.id, id=id, number=number))
        for tag in request.tags:
            store.set_tag(context.work, id, tag.key, tag.value)
        if replayed := self._sources.replay_of(context):
            store.set_tag(context.work, id, REPLAY_OF, replayed)
        self._keep(context, request, gathered, id, number)
        _link(context, request, self._run_of(context, request), id, number)
        context.facts.update(model=model.id, version=id, number=number)
        return version_shown(context.work, required_version(context, request.model, number))

    def _run_of(self, context: Context, request: declared.CreateVersion) -> str:
        """A logged model's is the one that logged it."""
        if request.run or not request.holder.startswith("m-"):
            return request.run or request.holder
        return self._sources.run_of(context, request.holder)

    def _row(
        self, context: Context, request: declared.CreateVersion, gathered: Gathered, *, model: str, id: str, number: int
    ) -> dict[str, object]:
        described = gathered.description
        signature = described.signature if described else None
        flavors = [flavour.name for flavour in described.flavours] if described else []
        return {
            "id": id,
            "project": context.required_project.id,
            "model": model,
            "number": number,
            "description": request.description,
            "stage": "None",
            "source": request.source,
            "holder": request.holder,
            "folder": request.folder,
            "run": self._run_of(context, request),
            "files": len(gathered.files),
            "size": sum(file.size for file in gathered.files),
            "digest": manifest_digest([file.shown for file in gathered.files]),
            "servable": gathered.servable.ok,
            "runtime": gathered.servable.runtime,
            "reasons": json.dumps(gathered.servable.reasons),
            "flavors": json.dumps(flavors),
            "inputs": _fields(signature.inputs) if signature else "",
            "outputs": _fields(signature.outputs) if signature else "",
            "created": context.now,
            "created_by": context.identity.principal,
            "changed": context.now,
        }

    def _keep(self, context: Context, request: declared.CreateVersion, gathered: Gathered, id: str, number: int) -> None:
        """The list of files, a reference to each, the signature over all, and the bill of materials."""
        files = [file.shown for file in gathered.files]
        bundle = b""
        if files:
            signer = self._signers.prepare(context.work, context.required_project.id, context.now)
            bundle = sign(signed_name(request.model, number, id), files, signer)
            context.facts["digest"] = manifest_digest(files)
        rows = (
            {"name": file.name, "blob": file.blob, "size": file.size, "digest": file.digest, "token": file.token}
            for file in gathered.files
        )
        store.add_files(context.work, id, rows)
        for blob in sorted({file.blob for file in gathered.files}):  # in one order for everybody who locks them
            self._blobs.refer(context, blob, Owner(kind=VERSION, id=id))
        subject = sbom.Subject(
            id=id, name=request.model, version=str(number), created=context.now, description=request.description
        )
        document = sbom.bill(subject, files, gathered.requirements, gathered.description)
        store.add_documents(context.work, id, bundle=bundle.decode(), sbom=document.decode())


def _link(context: Context, request: declared.CreateVersion, run: str, id: str, number: int) -> None:
    """What the version came from, as far as this project has it: its run, and the logged model."""
    made_of = [Node(kind="run", id=run)] if run else []
    if request.holder.startswith("m-"):
        made_of.append(Node(kind="model", id=request.holder))
    version = Node(kind=VERSION, id=id, label=f"{request.model} v{number}")
    for source in made_of:
        link(
            context.work,
            project=context.required_project.id,
            source=source,
            target=version,
            relation="registered",
            now=context.now,
        )


def _fields(fields: tuple[Field, ...]) -> str:
    return json.dumps([asdict(field) for field in fields], ensure_ascii=False) if fields else ""


class Contents:
    """Reads what is asked for of the files that are being registered or served, each opened at its first use."""

    def __init__(self, database: Database, blobs: BlobService, context: Context, files: tuple[SourceFile, ...]) -> None:
        self._database = database
        self._blobs = blobs
        self._context = context
        self._files = {file.name: file for file in files}
        self._readers: dict[str, Reader] = {}

    def whole(self, name: str) -> bytes | None:
        """A small file; None where there is none, or it is not small."""
        file = self._files.get(name)
        if file is None or file.size > LARGEST_READ:
            return None
        return self.part(name, 0, file.size)

    def part(self, name: str, offset: int, length: int) -> bytes:
        file = self._files[name]
        if (reader := self._readers.get(file.blob)) is None:

            def open_blob(work: UnitOfWork) -> Reader:
                return self._blobs.open(replace(self._context, work=work), file.blob)

            reader = self._readers[file.blob] = self._database.read(open_blob)
        start = min(offset, reader.size)
        return b"".join(reader.read(start, min(length, reader.size - start)))
