"""Holding versions against their signatures: whenever one is used, the list of its files; when asked, every byte of them."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.errors import Conflict, Corrupt, NotFound
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.registry.operations import versions as declared
from falaj.registry.operations.versions import VersionFile
from falaj.registry.project_keys import ProjectSigners
from falaj.registry.signing import Verdict, verify
from falaj.registry.store import versions as store
from falaj.registry.store.tables import Found
from falaj.registry.views import required_version
from falaj.storage.service import BlobService, Owner

VERSION: Final = "version"  # the kind of owner that a registered file has, and of a node in the lineage
_REMEMBERED: Final = 64  # few, because the list of a large version's files may take a megabyte


def manifest_digest(files: Sequence[VersionFile]) -> str:
    """One digest for all files: of their names and digests, in the order of the names."""
    listed = sorted((file.name, file.digest) for file in files)
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest() if files else ""


def signed_name(model: str, number: int, id: str) -> str:
    """What the signature calls a version. The id at its end ties the two together, also when the model is renamed."""
    return f"{model}/{number}/{id}"


@value
class Checked:
    """A version's files as the table has them, and what the signature says to that."""

    version: Found
    files: tuple[Found, ...]
    verdict: Verdict
    public_key: str = ""

    @property
    def is_signed(self) -> bool:
        return bool(self.verdict.key)


class Verifier:
    """Thread-safe. A version without files has nothing that could be signed, and passes as such."""

    def __init__(self, signers: ProjectSigners, blobs: BlobService) -> None:
        self._signers = signers
        self._blobs = blobs
        self._manifests: Bounded[str, Mapping[str, str]] = Bounded(_REMEMBERED)

    def look(self, work: UnitOfWork, version: Found) -> Checked:
        """Decide, without raising for what is found."""
        rows = tuple(store.files_of(work, version.id))
        bundle = store.documents_of(work, version.id).bundle
        if not rows and not bundle and not version.digest:
            return Checked(version=version, files=(), verdict=Verdict(ok=True))
        keys = self._signers.public_keys(work, version.project)
        verdict = verify(bundle.encode(), [_file(row) for row in rows], keys)
        if verdict.ok and subject_of(bundle).rpartition("/")[2] != version.id:
            verdict = replace(verdict, ok=False, reasons=("The signature is that of another version.",))
        public = next((key.pem for key in keys if key.id == verdict.key), "")
        return Checked(version=version, files=rows, verdict=verdict, public_key=public)

    def check(self, work: UnitOfWork, version: Found) -> Checked:
        """Raises `Corrupt` where the version's files are not those that were signed."""
        checked = self.look(work, version)
        if not checked.verdict.ok:
            raise _not_what_was_signed(version, checked.verdict.reasons)
        self._manifests.put(version.id, {row.name: row.digest for row in checked.files})
        return checked

    def check_whole(self, context: Context, version: Found) -> Checked:
        """The same, and raises `Conflict` where a file was shredded: the signature still holds, but there is nothing to use."""
        checked = self.check(context.work, version)
        held = self._blobs.held(context, Owner(kind=VERSION, id=version.id)) if checked.files else frozenset()
        gone = [row.name for row in checked.files if row.blob not in held]
        if gone:
            raise files_gone(version, gone)
        return checked

    def check_file(self, work: UnitOfWork, version: Found, file: Found) -> None:
        """The same for one file of it: the whole list is verified on its first use and remembered, for it never changes."""
        signed = self._manifests.get(version.id)
        if signed is None:
            signed = {row.name: row.digest for row in self.check(work, version).files}
        if signed.get(file.name) != file.digest:
            raise _not_what_was_signed(version, (f"The file {file.name!r} differs from what was signed.",))


class VerificationService:
    """`version.verify`: the first step reads every byte, outside any transaction."""

    def __init__(self, database: Database, blobs: BlobService, verifier: Verifier) -> None:
        self._database = database
        self._blobs = blobs
        self._verifier = verifier

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.VERIFY_VERSION, self.examine, self.report)]

    def examine(self, context: Context, request: declared.OneVersion) -> declared.Verification:
        def look(work: UnitOfWork) -> Checked:
            version = required_version(replace(context, work=work), request.model, request.version)
            return self._verifier.look(work, version)

        checked = self._database.read(look)
        wrong = [problem for row in checked.files if (problem := self._examine_file(context, row))]
        problems = (*checked.verdict.reasons, *wrong)
        return declared.Verification(
            model=request.model,
            version=request.version,
            ok=not problems,
            signed=checked.is_signed,
            problems=problems,
            files=len(checked.files),
            size=sum(row.size for row in checked.files),
            key=checked.verdict.key,
            public_key=checked.public_key,
        )

    def report(self, context: Context, _request: declared.OneVersion, found: declared.Verification) -> declared.Verification:
        context.facts["ok"] = found.ok
        return found

    def _examine_file(self, context: Context, row: Found) -> str:
        """What is wrong with a file's bytes, or nothing."""
        digest, size = hashlib.sha256(), 0
        try:
            reader = self._database.read(lambda work: self._blobs.open(replace(context, work=work), row.blob))
            for chunk in reader.read():
                digest.update(chunk)
                size += len(chunk)
        except (Corrupt, NotFound) as error:
            return f"The file {row.name!r} cannot be read: {error}"
        if (digest.hexdigest(), size) != (row.digest, row.size):
            return f"The file {row.name!r} holds other bytes than were registered."
        return ""


def _file(row: Found) -> VersionFile:
    return VersionFile(name=row.name, size=row.size, digest=row.digest)


def subject_of(bundle: str) -> str:
    """What a signature that holds calls its model."""
    statement = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))
    return str(statement["subject"][0].get("name", ""))


def files_gone(version: Found, names: Sequence[str]) -> Conflict:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Conflict(
        f"The file {names[0]!r}{more} of version {version.number} of model {version.model_name!r} is gone from storage, and "
        "the version is not used without it; register another from a run that still has its files."
    )


def _not_what_was_signed(version: Found, reasons: Sequence[str]) -> Corrupt:
    return Corrupt(
        f"Version {version.number} of model {version.model_name!r} is not what was signed when it was registered, and is not "
        f"used: {' '.join(reasons)}"
    )
