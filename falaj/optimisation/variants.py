"""Variants: taken by a job, brought file by file, measured, judged; then shown, fetched and deleted by people."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Corrupt, Invalid, NotFound
from falaj.base.operation import Download
from falaj.base.pages import page_of, read_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind, bind_upload
from falaj.database.work import Context, Database
from falaj.governance.gate import Gatekeeper
from falaj.lineage.graph import Node, link
from falaj.operations.messages import adapter
from falaj.optimisation import attesting
from falaj.optimisation.certifying import Certifier
from falaj.optimisation.operations import variants as declared
from falaj.optimisation.operations.variants import Certificate, RecordVariant, Variant
from falaj.optimisation.operations.words import FileSeen, Measures
from falaj.optimisation.store import variants as store
from falaj.optimisation.store.tables import Found
from falaj.optimisation.views import (
    required_candidate,
    required_variant,
    variants_shown,
    version_of,
)
from falaj.registry import servable
from falaj.registry.operations.versions import GET_VERSION_FILE, GetVersionFile, VersionFile
from falaj.registry.verifying import VERSION
from falaj.registry.views import required_model, required_version
from falaj.storage.service import BlobService, Owner, Received

OWNER: Final = "variant"  # the kind of owner that its files have
MOST_TRIES: Final = 3
# Those whose files the platform looks into before it keeps them; torch's programs are looked into when they are loaded.
_UNREAD: Final = frozenset({"torch"})


class VariantService:
    """Thread-safe."""

    def __init__(self, *, database: Database, blobs: BlobService, certifier: Certifier, gate: Gatekeeper) -> None:
        self._database, self._blobs, self._certifier, self._gate = database, blobs, certifier, gate

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.LIST_VARIANTS, self.list),
            bind(declared.SHOW_CERTIFICATE, self.certificate),
            bind(declared.READ_VARIANT_FILE, self.file),
            bind(declared.DELETE_VARIANT, self.delete),
            bind(declared.BEGIN_VARIANT, self.begin),
            bind_upload(declared.PUT_VARIANT_FILE, self.receive, self.put_file),
            bind(declared.RECORD_VARIANT, self.record),
            bind(declared.CERTIFY_VARIANT, self.certify),
        ]

    # For people

    def list(self, context: Context, request: declared.ListVariants) -> declared.Variants:
        model = required_model(context, request.model).id
        version = required_version(context, request.model, request.version).id if request.version else ""
        after = read_cursor(request.cursor, str, int, str) if request.cursor else None
        rows = store.page(context.work, context.required_project.id, model, version, after, request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.optimisation, row.place, row.id))
        # What nothing beats is said of whole searches, and which is the best of whole versions, wherever a page ends.
        versions = dict.fromkeys(row.version_id for row in page)
        whole = [row for id in versions for row in store.of_version(context.work, id)]
        shown = {one.id: one for one in variants_shown(context, whole, of_versions=True)}
        return declared.Variants(items=tuple(shown[row.id] for row in page), next=following)

    def certificate(self, context: Context, request: declared.OneVariant) -> Certificate:
        row = required_variant(context, request.model, request.version, request.variant)
        kept = store.certificate_of(context.work, row.id)
        if kept is None:
            raise NotFound(
                f"{request.variant!r} of version {request.version} of {request.model!r} was never certified: it is one of the "
                "candidates that were made and not chosen. `falaj optimise --certify` has more of them judged."
            )
        version = required_version(context, request.model, request.version)
        examined = self._certifier.examine(context, row, kept, version)
        return Certificate(
            variant=next(one for one in self._of(context, row.optimisation) if one.id == row.id),
            fit=kept.fit,
            task=kept.task,
            reasons=tuple(json.loads(kept.reasons)),
            document=examined.document,
            bundle=kept.bundle,
            digest=kept.digest,
            key=examined.key,
            valid=kept.fit and not examined.problems,
            problems=examined.problems,
            issued=Moment(kept.issued),
        )

    def file(self, context: Context, request: declared.ReadVariantFile) -> Download:
        row = required_variant(context, request.model, request.version, request.variant)
        # Who may not read a version's files does not get another form of them.
        read = GetVersionFile(
            project=context.required_project.name, model=request.model, version=request.version, name=request.file
        )
        self._gate.authorise(context.work, context.identity, GET_VERSION_FILE, read)
        found = next((one for one in store.files_of(context.work, [row.id]).get(row.id, ()) if one.name == request.file), None)
        if found is None:
            raise NotFound(f"Variant {request.variant!r} has no file {request.file!r}.")
        if self._blobs.show(context, found.blob).digest != found.digest:
            raise Corrupt(f"What is stored as {request.file!r} is not what was made.")
        reader = self._blobs.open(context, found.blob)
        context.facts.update(variant=row.id, digest=found.digest)
        return Download(chunks=reader.read(), size=reader.size, name=request.file)

    def delete(self, context: Context, request: declared.OneVariant) -> Nothing:
        row = required_variant(context, request.model, request.version, request.variant)
        store.remove(context.work, row.id)
        store.change(context.work, row.id, state="dropped", reason="It was deleted.", settled=context.now)
        self._blobs.release(context, Owner(kind=OWNER, id=row.id))
        context.facts.update(variant=row.id, name=row.name)
        return Nothing()

    # For the job

    def begin(self, context: Context, request: declared.BeginVariant) -> declared.Begun:
        optimisation = attesting.told_by_job(context, request.optimisation, request.job)
        row = required_candidate(context, optimisation, request.variant)
        if row.state not in ("planned", "begun"):
            return declared.Begun(granted=False, state=row.state)
        context.facts.update(variant=row.id, tries=row.tries + 1)
        if row.tries >= MOST_TRIES:
            why = (
                f"It was begun {MOST_TRIES} times, and each time its job ended before it was made: for want of memory, or "
                "because the job was killed, preempted or ran out of time."
            )
            store.change(context.work, row.id, state="dropped", reason=why, settled=context.now)
            return declared.Begun(granted=False, state="dropped")
        store.change(context.work, row.id, state="begun", job=request.job, tries=row.tries + 1)
        return declared.Begun(granted=True, state="begun")

    def receive(self, context: Context, request: declared.PutVariantFile, chunks: Iterator[bytes]) -> Received:
        """Whoever may not bring files is refused before a byte is taken."""
        optimisation, _ = self._database.read(
            lambda work: self._taken(
                replace(context, work=work), request.optimisation, request.job, request.variant, hold=False
            )
        )
        return self._blobs.receive(context.required_project, json.loads(optimisation.pinned)["zone"], chunks)

    def put_file(self, context: Context, request: declared.PutVariantFile, received: Received) -> FileSeen:
        _, row = self._taken(context, request.optimisation, request.job, request.variant)
        blob = self._blobs.keep(context, received, Owner(kind=OWNER, id=row.id), name=request.file)
        file = {"name": request.file, "blob": blob.id, "size": received.size, "digest": received.digest}
        store.put_file(context.work, {"variant": row.id, **file})
        context.facts.update(variant=row.id, digest=received.digest)
        return FileSeen(name=request.file, size=received.size, digest=received.digest)

    def record(self, context: Context, request: RecordVariant) -> Variant:
        dropped = request.outcome == "dropped"
        optimisation, row = self._taken(context, request.optimisation, request.job, request.variant, made_too=dropped)
        context.facts.update(variant=row.id, outcome=request.outcome)
        if dropped:
            self._drop(context, row, request)
        else:
            self._make(context, optimisation, row, request)
        return self._shown(context, optimisation, request.variant)

    def _drop(self, context: Context, row: Found, request: RecordVariant) -> None:
        if not request.reason:
            raise Invalid("A candidate is dropped for a reason.")
        store.remove(context.work, row.id)
        self._blobs.release(context, Owner(kind=OWNER, id=row.id))
        measures = _written(request.measures) if request.measures else ""
        made = json.dumps({"notes": list(request.notes)})
        store.change(
            context.work, row.id, state="dropped", reason=request.reason, measures=measures, made=made, settled=context.now
        )

    def _make(self, context: Context, optimisation: Found, row: Found, request: RecordVariant) -> None:
        store.drop_files(context.work, row.id, but=request.files)
        there = store.files_of(context.work, [row.id]).get(row.id, [])
        if request.measures is None or request.file not in {one.name for one in there}:
            raise Invalid(f"A variant that is made has its file {request.file!r} and its measures.")
        if {one.name for one in there} != set(request.files):
            raise Invalid(f"Not all of {', '.join(request.files)} were brought.")
        # A try that was killed may have brought others.
        self._blobs.release(context, Owner(kind=OWNER, id=row.id), but={one.blob for one in there})
        made = {
            "runtime": request.runtime,
            "file": request.file,
            "settings": {one.name: one.value for one in request.settings},
            "notes": list(request.notes),
        }
        store.change(
            context.work,
            row.id,
            state="made",
            reason="",
            made=json.dumps(made),
            measures=_written(request.measures),
            settled=context.now,
        )
        link(
            context.work,
            project=row.project,
            source=Node(kind=VERSION, id=row.version_id, label=f"{optimisation.model_name} v{optimisation.version}"),
            target=Node(kind="variant", id=row.id, label=f"{optimisation.model_name} v{optimisation.version} {row.name}"),
            relation="optimised",
            now=context.now,
        )

    def certify(self, context: Context, request: declared.CertifyVariant) -> Variant:
        optimisation = attesting.told_by_job(context, request.optimisation, request.job)
        row = required_candidate(context, optimisation, request.variant)
        if row.state in ("certified", "refused"):  # said again after a kill: what was decided stays
            return self._shown(context, optimisation, request.variant)
        if row.state != "made":
            raise Conflict(f"{request.variant!r} is {row.state}, and what is judged was made before.")
        version = version_of(context, optimisation)
        self._check_form(context, row)
        state, reason = self._certifier.certify(context, optimisation, row, version, request)
        store.change(context.work, row.id, state=state, reason=reason, measures=_written(request.measures), settled=context.now)
        return self._shown(context, optimisation, request.variant)

    def _check_form(self, context: Context, row: Found) -> None:
        """What is certified is of a kind that the platform serves, looked into as any upload is."""
        made, files = json.loads(row.made), {one.name: one for one in store.files_of(context.work, [row.id]).get(row.id, ())}
        if made["runtime"] in _UNREAD:
            return
        shown = [VersionFile(name=one.name, size=one.size, digest=one.digest) for one in files.values()]

        def part(name: str, offset: int, length: int) -> bytes:
            return b"".join(self._blobs.open(context, files[name].blob).read(offset, length))

        found = servable.check(shown, None, part)
        if not found.ok or (found.runtime, found.file) != (made["runtime"], made["file"]):
            told = " ".join(found.reasons) if not found.ok else f"It is {found.runtime}, not {made['runtime']}."
            raise Conflict(f"{row.name!r} cannot be served: {told}")

    def _taken(
        self, context: Context, optimisation: str, job: str, variant: str, *, made_too: bool = False, hold: bool = True
    ) -> tuple[Found, Found]:
        """The candidate, if this job has it, or, by `made_too`, if it was made."""
        found = attesting.told_by_job(context, optimisation, job, hold=hold)
        row = store.find(context.work, found.id, variant)
        if row is None:
            raise NotFound(f"Optimisation {optimisation} has no candidate {variant!r}.")
        if not (row.state == "begun" and row.job == job) and not (made_too and row.state == "made"):
            raise Conflict(f"This job has not taken {variant!r}, which is {row.state}.")
        return found, row

    def _shown(self, context: Context, optimisation: Found, name: str) -> Variant:
        return next(one for one in self._of(context, optimisation.id) if one.name == name)

    def _of(self, context: Context, optimisation: str) -> tuple[Variant, ...]:
        """All together: which is the best, and what nothing beats, is said of all."""
        return variants_shown(context, store.of_optimisations(context.work, [optimisation]))


def _written(measures: Measures) -> str:
    return adapter(Measures).dump_json(measures).decode()
