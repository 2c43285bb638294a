"""Artifacts as callers see them: put, read, listed and deleted under names; `uploads` takes large ones in parts."""

from collections.abc import Iterator
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, NotFound
from falaj.base.operation import Download
from falaj.base.values import value
from falaj.database.binding import Bound, bind, bind_upload
from falaj.database.work import Context, Database
from falaj.storage.service import BlobService, Received
from falaj.tracking.artifacts import names, store
from falaj.tracking.artifacts.holders import require_holder
from falaj.tracking.artifacts.placing import place, release_leftovers
from falaj.tracking.artifacts.uploads import Uploads
from falaj.tracking.operations import artifacts as declared

_LOOK_AHEAD: Final = 200


@value
class ArtifactFile:
    """A file below a folder, for those who take a snapshot of it; `name` is relative to the folder, `token` brought it."""

    name: str
    blob: str
    size: int
    digest: str
    token: str


class ArtifactService:
    """`database` is read before bytes come in, so that they are not taken for a run that does not exist."""

    def __init__(self, blobs: BlobService, database: Database) -> None:
        self._blobs = blobs
        self._database = database
        self._uploads = Uploads(blobs, database)

    def bindings(self) -> list[Bound]:
        return [
            bind_upload(declared.PUT_ARTIFACT, self.receive, self.put),
            bind(declared.GET_ARTIFACT, self.get),
            bind(declared.LIST_ARTIFACTS, self.list),
            bind(declared.DELETE_ARTIFACTS, self.delete),
            *self._uploads.bindings(),
        ]

    def step(self, now: Moment) -> bool:
        """One round of forgetting uploads that were never finished and content that was deleted; True where more waits."""
        return self._uploads.step(now)

    # For other rooms

    def files(self, context: Context, holder: str, folder: str) -> tuple[ArtifactFile, ...]:
        """Every file below a folder, at any depth; empty is the top. A file of that very name stands for itself."""
        project = context.required_project.id
        require_holder(context.work, project, holder)
        if names.checked_folder(folder) and (row := store.find_artifact(context.work, project, holder, folder)) is not None:
            return (_file(row, folder.rpartition("/")[2]),)
        skipped = len(folder) + 1 if folder else 0
        return tuple(_file(row, row.name[skipped:]) for row in store.files_below(context.work, project, holder, folder))

    # Handlers

    def receive(self, context: Context, request: declared.PutArtifact, chunks: Iterator[bytes]) -> Received:
        names.checked(request.name)
        project = context.required_project
        self._database.read(lambda work: require_holder(work, project.id, request.holder, takes_files=True))
        return self._blobs.receive(project, request.zone, chunks)

    def put(self, context: Context, request: declared.PutArtifact, received: Received) -> declared.Artifact:
        return place(self._blobs, context, request.holder, request.name, received)

    def get(self, context: Context, request: declared.GetArtifact) -> Download:
        project = context.required_project.id
        require_holder(context.work, project, request.holder)
        row = store.find_artifact(context.work, project, request.holder, names.checked(request.name))
        if row is None:
            raise NotFound(f"{request.holder} has no file {request.name!r}.")
        if request.offset > row.size:
            raise Invalid(f"The offset {request.offset} lies behind the end of the file, which has {row.size} bytes.")
        try:
            reader = self._blobs.open(context, row.blob)
        except NotFound:
            raise NotFound(f"The content of {request.name!r} was shredded; only its name is left.") from None
        size = min(request.length or row.size, row.size - request.offset)
        context.facts.update(blob=row.blob, digest=row.digest)
        # Always octets: what a browser is not told to be a page or a picture it does not run.
        return Download(chunks=reader.read(request.offset, size), size=size, name=names.saved_as(row.name))

    def list(self, context: Context, request: declared.ListArtifacts) -> declared.Artifacts:
        require_holder(context.work, context.required_project.id, request.holder)
        names.checked_folder(request.folder)
        least, until = names.below(request.folder)
        if behind := names.read_cursor(request.cursor):
            least = max(least, names.right_behind(behind))
        items: list[declared.Entry] = []
        for entry in self._entries(context, request, least, until):
            if len(items) == request.limit:
                last = items[-1]
                return declared.Artifacts(items=tuple(items), next=names.cursor_behind(last.name + "/" * last.folder))
            items.append(entry)
        return declared.Artifacts(items=tuple(items))

    def delete(self, context: Context, request: declared.DeleteArtifacts) -> declared.ArtifactsDeleted:
        """The names go now. So does the content of the first files; that of the many others goes in the background."""
        project = context.required_project.id
        require_holder(context.work, project, request.holder)
        store.hold_names(context.work, request.holder)
        count = store.drop_artifacts(context.work, project, request.holder, names.checked_folder(request.name))
        if not count and request.name:
            raise NotFound(f"{request.holder} has no file and no folder {request.name!r}.")
        release_leftovers(self._blobs, context)
        context.facts["count"] = count
        return declared.ArtifactsDeleted(count=count)

    # Steps

    def _entries(self, context: Context, request: declared.ListArtifacts, least: str, until: str) -> Iterator[declared.Entry]:
        """Files and, unless the listing is deep, folders in their place; what lies in a folder is skipped, not read through."""
        project, skipped = context.required_project.id, len(request.folder) + 1 if request.folder else 0
        ahead = min(request.limit + 1, _LOOK_AHEAD)
        while rows := store.files_between(context.work, project, request.holder, least, until, ahead):
            for row in rows:
                if row.name < least:
                    continue
                part, slash, _ = row.name[skipped:].partition("/")
                if slash and not request.deep:
                    folder = row.name[:skipped] + part
                    least = names.right_behind(f"{folder}/")
                    yield declared.Entry(name=folder, folder=True)
                else:
                    least = names.right_behind(row.name)
                    yield declared.Entry(name=row.name, folder=False, size=row.size, digest=row.digest)
            if len(rows) < ahead:
                return


def _file(row: store.Found, name: str) -> ArtifactFile:
    return ArtifactFile(name=name, blob=row.blob, size=row.size, digest=row.digest, token=row.token)
