"""Giving received bytes a name among the files of a run or model, and taking names away again, in the caller's transaction."""

from typing import Final

from falaj.base.errors import Conflict
from falaj.base.ids import new_id
from falaj.database.work import Context
from falaj.storage.service import BlobService, Owner, Received
from falaj.tracking.artifacts import store
from falaj.tracking.artifacts.holders import require_holder
from falaj.tracking.artifacts.names import below, folders_above
from falaj.tracking.operations.artifacts import Artifact

# Releasing one takes several statements, and everybody waits for the one writer of SQLite: the rest is left to `step`.
RELEASED_AT_ONCE: Final = 100


def place(blobs: BlobService, context: Context, holder: str, name: str, received: Received) -> Artifact:
    """Keep the bytes as the file of that name, in the place of one that had it."""
    project = context.required_project.id
    require_holder(context.work, project, holder, takes_files=True)
    store.hold_names(context.work, holder)
    _refuse_file_as_folder(context, holder, name)
    owner = Owner(kind=store.ARTIFACT, id=new_id(context.now))
    replaced = store.find_artifact(context.work, project, holder, name)
    # The new reference comes before the old one goes, so that the same content sent again is never without one.
    blob = blobs.keep(context, received, owner)
    artifact = Artifact(
        name=name,
        size=received.size,
        digest=received.digest,
        blob=blob.id,
        created=context.now,
        created_by=context.identity.principal,
    )
    token, before = context.identity.token or "", replaced.id if replaced else ""
    store.set_artifact(context.work, project, holder, artifact, id=owner.id, token=token, replaced=before)
    if replaced is not None:
        blobs.release(context, Owner(kind=store.ARTIFACT, id=replaced.id))
    context.facts["digest"] = artifact.digest
    return artifact


def release_leftovers(blobs: BlobService, context: Context) -> int:
    """Release some of the project's references that nothing names any more; how many."""
    taken = store.take_leftovers(context.work, context.required_project.id, RELEASED_AT_ONCE)
    for row in taken:
        blobs.release(context, Owner(kind=row.kind, id=row.owner))
    return len(taken)


def _refuse_file_as_folder(context: Context, holder: str, name: str) -> None:
    project = context.required_project.id
    if (file := store.first_file_named(context.work, project, holder, folders_above(name))) is not None:
        raise Conflict(f"{file!r} is a file, so {name!r} cannot lie below it; delete the file or choose another name.")
    if store.files_between(context.work, project, holder, *below(name), limit=1):
        raise Conflict(f"{name!r} is a folder with files in it; delete them or choose another name.")
