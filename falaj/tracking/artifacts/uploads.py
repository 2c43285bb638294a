"""Large artifacts in parts: begun, put part by part in any order, joined. Nothing of them is visible before they are joined."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.caller import Identity, ProjectFacts
from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Corrupt, Invalid, NotFound
from falaj.base.ids import PrincipalId, ProjectId, new_id
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind, bind_prepared, bind_upload
from falaj.database.work import Context, Database, UnitOfWork
from falaj.storage.errors import ZoneNotAllowed
from falaj.storage.service import BlobService, Owner, Reader, Received
from falaj.tracking.artifacts import store
from falaj.tracking.artifacts.holders import require_holder
from falaj.tracking.artifacts.names import checked
from falaj.tracking.artifacts.placing import place, release_leftovers
from falaj.tracking.operations import artifacts as declared

LIFE: Final = DAY
_FORGOTTEN_AT_ONCE: Final = 20


class Uploads:
    """`database` is read where no transaction is open: before a part comes in, and while parts are joined."""

    def __init__(self, blobs: BlobService, database: Database) -> None:
        self._blobs = blobs
        self._database = database

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.BEGIN_UPLOAD, self.begin),
            bind_upload(declared.PUT_PART, self.receive_part, self.put_part),
            bind_prepared(declared.FINISH_UPLOAD, self.join, self.finish),
            bind(declared.ABORT_UPLOAD, self.abort),
        ]

    def begin(self, context: Context, request: declared.BeginUpload) -> declared.Upload:
        project = context.required_project
        require_holder(context.work, project.id, request.holder, takes_files=True)
        if not project.places:
            raise ZoneNotAllowed(f"The project {project.name!r} may not store anything in any zone.", rule="zones-of-project")
        row = {
            "id": new_id(context.now),
            "project": project.id,
            "holder": request.holder,
            "name": checked(request.name),
            "zone": project.places[0].zone,
            "expires": context.now + LIFE,
            "created_by": context.identity.principal,
        }
        store.add_upload(context.work, row)
        context.facts["upload"] = row["id"]
        return declared.Upload(id=str(row["id"]), expires=Moment(context.now + LIFE))

    def receive_part(self, context: Context, request: declared.PutPart, chunks: Iterator[bytes]) -> Received:
        upload = self._database.read(lambda work: _find(_within(context, work), request.upload))
        return self._blobs.receive(context.required_project, upload.zone, chunks)

    def put_part(self, context: Context, request: declared.PutPart, received: Received) -> declared.Part:
        """A part that was put before is replaced."""
        _find(context, request.upload, hold=True)
        earlier = store.find_part(context.work, request.upload, request.part)
        owner = Owner(kind=store.UPLOAD, id=new_id(context.now))
        blob = self._blobs.keep(context, received, owner)
        row = {"upload": request.upload, "part": request.part, "id": owner.id, "blob": blob.id}
        store.set_part(context.work, row | {"size": received.size, "digest": received.digest})
        if earlier is not None:
            self._blobs.release(context, Owner(kind=store.UPLOAD, id=earlier.id))
        return declared.Part(part=request.part, size=received.size, digest=received.digest)

    def join(self, context: Context, request: declared.FinishUpload) -> Received:
        """Read the parts one after the other and seal them as one object, which counts for nothing yet."""

        def look(work: UnitOfWork) -> tuple[str, Sequence[store.Found]]:
            within = _within(context, work)
            upload = _find(within, request.upload)
            require_holder(work, context.required_project.id, upload.holder, takes_files=True)
            return upload.zone, _named_parts(within, request)

        def read() -> Iterator[bytes]:
            for part in parts:
                yield from self._open(context, part.blob).read()

        zone, parts = self._database.read(look)
        return self._blobs.receive(context.required_project, zone, read())

    def finish(self, context: Context, request: declared.FinishUpload, joined: Received) -> declared.Artifact:
        upload = _find(context, request.upload, hold=True)
        parts = _named_parts(context, request)  # one may have been replaced while they were joined
        if joined.size != sum(part.size for part in parts):
            raise Corrupt(f"The parts of upload {request.upload} were joined to {joined.size} bytes, which is not their sum.")
        artifact = place(self._blobs, context, upload.holder, upload.name, joined)
        self._forget(context, request.upload)
        return artifact

    def abort(self, context: Context, request: declared.OneUpload) -> Nothing:
        _find(context, request.upload, hold=True)
        self._forget(context, request.upload)
        return Nothing()

    def step(self, now: Moment) -> bool:
        """One round of forgetting expired uploads and releasing what nothing names; True where more waits."""

        def forget(work: UnitOfWork) -> int:
            due = store.expired_uploads(work, now, _FORGOTTEN_AT_ONCE)
            for upload in due:
                store.drop_upload(work, upload)
            return len(due)

        def release(work: UnitOfWork) -> int:
            project = store.project_with_leftovers(work)
            return 0 if project is None else release_leftovers(self._blobs, _of_itself(work, project, now))

        forgotten = self._database.write(forget)
        released = self._database.write(release)
        return forgotten == _FORGOTTEN_AT_ONCE or released > 0

    def _open(self, context: Context, blob: str) -> Reader:
        return self._database.read(lambda work: self._blobs.open(_within(context, work), blob))

    def _forget(self, context: Context, upload: str) -> None:
        store.drop_upload(context.work, upload)
        release_leftovers(self._blobs, context)


def _find(context: Context, upload: str, *, hold: bool = False) -> store.Found:
    found = store.find_upload(context.work, context.required_project.id, upload, context.now, hold=hold)
    if found is None:
        raise NotFound(f"The project has no upload {upload} under way: it was finished, given up or is older than a day.")
    return found


def _named_parts(context: Context, request: declared.FinishUpload) -> Sequence[store.Found]:
    """The parts as they were put, in the order in which they are named; every one must be named as it is."""
    known = {part.part: part for part in store.parts_of(context.work, request.upload)}
    if len({named.part for named in request.parts}) != len(request.parts):
        raise Invalid("A part is named more than once.")
    for named in request.parts:
        if (part := known.get(named.part)) is None:
            raise Conflict(f"Part {named.part} was not put; put it before you finish.")
        if (part.size, part.digest) != (named.size, named.digest):
            raise Conflict(
                f"Part {named.part} has {part.size} bytes and the digest {part.digest}, not what was named; put it again."
            )
    if left_out := sorted(known.keys() - {named.part for named in request.parts}):
        raise Conflict(f"Part {left_out[0]} was put and is not named; name all parts, or begin another upload.")
    return [known[named.part] for named in request.parts]


def _within(context: Context, work: UnitOfWork) -> Context:
    return replace(context, work=work)


def _of_itself(work: UnitOfWork, project: str, now: Moment) -> Context:
    """The context of what the platform does by itself for a project."""
    nobody = Identity(principal=PrincipalId(""), kind="process", name="artifacts", token=None, zone="")
    facts = ProjectFacts(id=ProjectId(project), name="", places=())
    return Context(work=work, identity=nobody, project=facts, now=now, request_id="", facts={})
