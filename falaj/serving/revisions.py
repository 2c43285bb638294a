"""Making revisions: a row for ever, a reference to each file, a signature over them, and a place in the lineage."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.base.ids import new_id
from falaj.database.work import Context
from falaj.lineage.graph import Node, link
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.signing import sign
from falaj.registry.sources import SourceFile
from falaj.registry.verifying import VERSION, manifest_digest
from falaj.serving import looking_up
from falaj.serving.choosing import Picked
from falaj.serving.forms import Form, columns_written
from falaj.serving.looking_up import Lookups
from falaj.serving.store import endpoints as store
from falaj.serving.store import rungs as rung_store
from falaj.serving.store.tables import Found
from falaj.serving.variants import VariantForm
from falaj.storage.service import BlobService, Owner

REVISION: Final = "revision"  # the kind of owner that a revision's files have
VARIANT: Final = "variant"  # the kind of a variant in the lineage


def signed_rung(revision: str, place: int) -> str:
    """How the signature over a rung's files ends."""
    return f"{revision}/{place}"


class RevisionMaker:
    """Thread-safe."""

    def __init__(self, blobs: BlobService, signers: ProjectSigners) -> None:
        self._blobs = blobs
        self._signers = signers

    def make(
        self, context: Context, endpoint: Found, version: Found, form: Form, lookups: Lookups, picked: Picked
    ) -> tuple[int, dict[str, Any]]:
        """Its number, and what the leaf should say of it. The endpoint's row is held."""
        number, id = store.next_revision(context.work, endpoint.id), new_id(context.now)
        sources = [self._kept(context, file, form, Owner(kind=REVISION, id=id)) for file in form.files]
        if picked.variant is not None:
            self._check(context, picked.variant, sources)
        files = [file.shown for file in sources]
        signer = self._signers.prepare(context.work, context.required_project.id, context.now)
        name = f"{endpoint.name}/{number}"
        row = {
            "id": id,
            "project": context.required_project.id,
            "endpoint": endpoint.id,
            "number": number,
            "model": version.model,
            "model_name": version.model_name,
            "version": version.number,
            "version_id": version.id,
            "runtime": form.runtime,
            "file": form.file,
            "columns": columns_written(form.columns),
            "size": sum(file.size for file in files),
            "digest": manifest_digest(files),
            "bundle": sign(f"{name}/{id}", files, signer).decode(),
            "converted": form.converted,
            "quarantined": "",
            "used": False,
            "created": context.now,
            "created_by": context.identity.principal,
            **({} if picked.variant is None else _proven(picked.variant)),
        }
        store.add_revision(context.work, row, _listed(sources))
        for place, rung in enumerate(picked.rungs, 1):
            sources += self._add_rung(context, name, id, place, rung, files={file.name for file in sources})
        for blob in sorted({file.blob for file in sources}):  # in one order for everybody who locks them
            self._blobs.refer(context, blob, Owner(kind=REVISION, id=id))
        target = Node(kind="endpoint", id=endpoint.id, label=endpoint.name)
        self._link(context, target, version, picked)
        looking_up.keep(context, id, target, lookups)
        variant = {} if picked.variant is None else {key: row[key] for key in ("variant", "variant_id", "certificate")}
        ladder = {"ladder": [one.id for one in picked.rungs]} if picked.rungs else {}
        return number, {"revision": number, "version": version.id, **variant, **ladder}

    def _link(self, context: Context, target: Node, version: Found, picked: Picked) -> None:
        label = f"{version.model_name} v{version.number}"
        sources = [Node(kind=VERSION, id=version.id, label=label)]
        sources += [Node(kind=VARIANT, id=one.id, label=f"{label} {one.name}") for one in picked.variants]
        for source in sources:
            link(
                context.work,
                project=context.required_project.id,
                source=source,
                target=target,
                relation="deployed",
                now=context.now,
            )

    def _add_rung(
        self, context: Context, name: str, revision: str, place: int, rung: VariantForm, *, files: set[str]
    ) -> list[SourceFile]:
        """`files` are names that are taken. Gives the rung's own, as they are called from now on."""
        self._check(context, rung, rung.form.files)
        folder = f"ladder/{place}/"
        while any(taken.startswith(folder) for taken in files):
            folder = f"_{folder}"
        sources = [replace(file, name=folder + file.name) for file in rung.form.files]
        shown = [file.shown for file in sources]
        signer = self._signers.prepare(context.work, context.required_project.id, context.now)
        row = {
            **_proven(rung),
            "revision": revision,
            "place": place,
            "runtime": rung.form.runtime,
            "file": folder + rung.form.file,
            "size": sum(file.size for file in shown),
            "throughput": rung.throughput,
            "bundle": sign(f"{name}/{signed_rung(revision, place)}", shown, signer).decode(),
        }
        rung_store.add(context.work, row, _listed(sources))
        return sources

    def _kept(self, context: Context, file: SourceFile, form: Form, owner: Owner) -> SourceFile:
        received = form.fresh.get(file.name)
        return file if received is None else replace(file, blob=self._blobs.keep(context, received, owner, name=file.name).id)

    def _check(self, context: Context, variant: VariantForm, files: Sequence[SourceFile]) -> None:
        """Of a version's files its signature tells; of a variant's, that they are stored as they were made."""
        for file in files:
            try:
                stored = self._blobs.show(context, file.blob)
            except NotFound:
                raise Conflict(
                    f"The file {file.name!r} of the variant {variant.name!r} was shredded; have it made anew."
                ) from None
            if (stored.digest, stored.size) != (file.digest, file.size):
                raise Corrupt(
                    f"What is stored as {file.name!r} of the variant {variant.name!r} is not what was made; not used."
                )


def _proven(variant: VariantForm) -> dict[str, Any]:
    return {
        "variant": variant.name,
        "variant_id": variant.id,
        "certificate": variant.certificate if variant.certified else "",
        "settings": json.dumps(dict(variant.settings), sort_keys=True),
        "host": variant.host,
        "host_shown": variant.host_shown,
        "latency_ms": variant.latency_ms,
        "latency_limit_ms": variant.latency_limit_ms,
        "max_drop": variant.max_drop,
        "max_slice_drop": variant.max_slice_drop,
        "truth_known": variant.truth_known,
    }


def _listed(sources: Iterable[SourceFile]) -> list[dict[str, Any]]:
    return [{"name": file.name, "blob": file.blob, "size": file.size, "digest": file.digest} for file in sources]
