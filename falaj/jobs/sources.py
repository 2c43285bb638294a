"""The files a job runs with: a tar, checked when it comes in, kept sealed, named by its digest."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from falaj.base.errors import Invalid, NotFound, TooLarge
from falaj.base.operation import Download
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_upload
from falaj.database.work import Context
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Source
from falaj.jobs.store import sources as store
from falaj.jobs.views import read_spec, required_job
from falaj.storage.service import BlobService, Owner, Received

SOURCE: Final = "job-source"  # the kind of owner that a source's blob has
MOST_BYTES: Final = 64 << 20
MOST_FILES: Final = 20_000
MOST_UNPACKED: Final = 1 << 30


@value
class Checked:
    digest: str
    size: int
    files: int
    received: Received | None  # None where the project has it already


class SourceService:
    def __init__(self, blobs: BlobService) -> None:
        self._blobs = blobs

    def bindings(self) -> list[Bound]:
        return [bind_upload(declared.UPLOAD_SOURCE, self.receive, self.keep), bind(declared.READ_SOURCE, self.read)]

    def receive(self, context: Context, request: declared.UploadSource, chunks: Iterator[bytes]) -> Checked:
        content = whole(chunks)
        files = count_files(content)
        received = self._blobs.receive(context.required_project, request.zone, iter((content,)))
        return Checked(digest=hashlib.sha256(content).hexdigest(), size=len(content), files=files, received=received)

    def keep(self, context: Context, request: declared.UploadSource, checked: Checked) -> Source:
        project = context.required_project.id
        if checked.received is not None and store.find(context.work, project, checked.digest) is None:
            owner = Owner(kind=SOURCE, id=f"{project}{checked.digest}")
            blob = self._blobs.keep(context, checked.received, owner, media_type="application/x-tar")
            row = {
                "project": project,
                "digest": checked.digest,
                "blob": blob.id,
                "size": checked.size,
                "files": checked.files,
                "created": context.now,
            }
            store.add(context.work, row)
        context.facts["source"] = checked.digest
        return Source(digest=checked.digest, size=checked.size, files=checked.files)

    def read(self, context: Context, request: declared.OneJob) -> Download:
        """For engines whose hosts are far from here: they get a job's files with the job's own token."""
        digest = read_spec(required_job(context, request.job).spec).source
        found = store.find(context.work, context.required_project.id, digest) if digest else None
        if found is None:
            raise NotFound(f"The job {request.job} has no files, or they are not there any more.")
        reader = self._blobs.open(context, found.blob)
        return Download(chunks=reader.read(), size=found.size, name=f"{digest[:12]}.tar", media_type="application/x-tar")


def whole(chunks: Iterator[bytes]) -> bytes:
    gathered = bytearray()
    for chunk in chunks:
        gathered += chunk
        if len(gathered) > MOST_BYTES:
            raise TooLarge(
                f"A job's source may have {MOST_BYTES >> 20} MiB; leave data, models and environments out of it (.falajignore)."
            )
    return bytes(gathered)


def count_files(content: bytes) -> int:
    """How many files it has. Raises `Invalid` for what would not unpack into a folder of its own, as it should."""
    entries = files = unpacked = 0
    try:
        # Not compressed: so nothing in it is larger than itself, however it is written.
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            for entry in tar:
                _check_entry(entry)
                entries += 1
                files += entry.isfile()
                unpacked += entry.size
                if entries > MOST_FILES or unpacked > MOST_UNPACKED:
                    raise TooLarge(f"A job's source may have {MOST_FILES} files and {MOST_UNPACKED >> 20} MiB unpacked.")
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Invalid(f"The source is no plain tar that can be read: {error}. Pack it without compression.") from None
    return files


def _check_entry(entry: tarfile.TarInfo) -> None:
    path = PurePosixPath(entry.name)
    if path.is_absolute() or ".." in path.parts or any(sign in entry.name for sign in "\\\0"):
        raise Invalid(f"The source has an entry {entry.name!r}: its names must stay within its own folder.")
    if not (entry.isfile() or entry.isdir()) or entry.issparse():
        raise Invalid(f"The source has an entry {entry.name!r} that is neither a file nor a folder; leave links out.")
    if entry.size < 0:  # whoever went on reading would turn in circles
        raise Invalid(f"The source has an entry {entry.name!r} of {entry.size} bytes; pack it again.")
