"""The files of revisions, as they were signed when they were deployed, or not at all."""

from typing import Final

from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.base.operation import Download
from falaj.database.work import Context, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.registry.operations.versions import VersionFile
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.signing import verify
from falaj.registry.verifying import subject_of
from falaj.serving.store import endpoints as store
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
        rows = store.files_of(work, revision.id)
        listed = [VersionFile(name=row.name, size=row.size, digest=row.digest) for row in rows]
        verdict = verify(revision.bundle.encode(), listed, self._signers.public_keys(work, revision.project))
        if not verdict.ok or subject_of(revision.bundle).rpartition("/")[2] != revision.id:
            raise Corrupt(
                f"Revision {revision.number} of {endpoint!r} is not what was signed when it was deployed, and is not used: "
                f"{' '.join(verdict.reasons) or 'The signature is that of another one.'}"
            )
        return self._manifests.put(revision.id, {row.name: row for row in rows})
