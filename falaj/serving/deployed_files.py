"""The files of revisions, as they were signed when they were deployed, or not at all."""

from collections.abc import Sequence
from typing import Final

from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.base.operation import Download
from falaj.database.work import Context, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.registry.operations.versions import VersionFile
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.signing import verify
from falaj.registry.verifying import subject_of
from falaj.serving.revisions import signed_rung
from falaj.serving.store import endpoints as store
from falaj.serving.store import rungs as rung_store
from falaj.serving.store.tables import Found
from falaj.storage.service import BlobService

_REMEMBERED: Final = 256


class DeployedFiles:
    """Thread-safe."""

    def __init__(self, blobs: BlobService, signers: ProjectSigners) -> None:
        self._blobs = blobs
        self._signers = signers
        self._manifests: Bounded[str, dict[str, Found]] = Bounded(_REMEMBERED)

    def download(self, context: Context, endpoint: str, revision: Found, name: str) -> Download:
        """`context` is that of the revision's project; `endpoint` is how the endpoint is called."""
        file = self._signed(context.work, endpoint, revision).get(name)
        if file is None:
            raise NotFound(f"Revision {revision.number} of {endpoint!r} has no file {name!r}.")
        try:
            stored = self._blobs.show(context, file.blob)
        except NotFound:
            raise Conflict(f"The file {name!r} of {endpoint!r} was shredded.") from None
        if stored.digest != file.digest:
            raise Corrupt(f"What is stored as {name!r} is not what was deployed.")
        reader = self._blobs.open(context, file.blob)
        context.facts.update(endpoint=revision.endpoint, revision=revision.id, digest=file.digest)
        return Download(chunks=reader.read(), size=reader.size, name=file.name.rpartition("/")[2])

    def _signed(self, work: UnitOfWork, endpoint: str, revision: Found) -> dict[str, Found]:
        """Verified once and remembered: neither the list nor its signature ever changes."""
        if (known := self._manifests.get(revision.id)) is not None:
            return known
        found = self._verified(work, endpoint, revision, revision.bundle, revision.id, store.files_of(work, revision.id))
        files = rung_store.files_of(work, revision.id)
        for rung in rung_store.of_revisions(work, [revision.id]).get(revision.id, ()):
            end = signed_rung(revision.id, rung.place)
            found |= self._verified(work, endpoint, revision, rung.bundle, end, files.get(rung.place, ()))
        return self._manifests.put(revision.id, found)

    def _verified(
        self, work: UnitOfWork, endpoint: str, revision: Found, bundle: str, end: str, rows: Sequence[Found]
    ) -> dict[str, Found]:
        """What a signature is of is named by its subject, which ends so."""
        listed = [VersionFile(name=row.name, size=row.size, digest=row.digest) for row in rows]
        verdict = verify(bundle.encode(), listed, self._signers.public_keys(work, revision.project))
        if not verdict.ok or not subject_of(bundle).endswith(f"/{end}"):
            raise Corrupt(
                f"Revision {revision.number} of {endpoint!r} is not what was signed when it was deployed, and is not used: "
                f"{' '.join(verdict.reasons) or 'The signature is that of another one.'}"
            )
        return {row.name: row for row in rows}
