"""A project's key: rotating it without rewriting data, and destroying it.

An operation only says what shall happen, in its transaction; the loop's steps do it, and may be repeated after any death.
Old versions stay in the ring, so that backups stay readable.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Corrupt, Invalid, NotFound
from falaj.base.failpoints import failpoint
from falaj.base.values import value
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, Database, UnitOfWork
from falaj.keys.errors import KeyNotFound
from falaj.keys.ring import KeyRing, Wrapped, project_key
from falaj.storage import operations as declared
from falaj.storage import store
from falaj.storage.service import wrapping_context

PROJECTS, BATCH = 20, 500
log = logging.getLogger(__name__)


class Secrets(Protocol):
    """What another room keeps wrapped by projects' keys, beside the data keys of blobs: a few for each project.

    Both run inside the transaction that rotates or shreds, and are done again where it is. A secret that does not open is
    left as it is.
    """

    def rewrap(self, work: UnitOfWork, project: str) -> None:
        """Wrap the project's secrets under the newest version of its key."""
        ...

    def forget(self, work: UnitOfWork, project: str, now: Moment) -> None:
        """Keep none of them, not even wrapped."""
        ...


class ProjectKeys:
    """The handlers: what was asked is written down."""

    def __init__(self, secrets: Sequence[Secrets] = ()) -> None:
        self._secrets = secrets

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.KEY_SHOW, self.show),
            bind(declared.KEY_ROTATE, self.rotate),
            bind(declared.KEY_SHRED, self.shred),
        ]

    def show(self, context: Context, request: declared.OneProject) -> declared.ProjectKey:
        row = store.find_key(context.work, context.required_project.id)
        if row is None:
            return declared.ProjectKey(project=request.project, version=1, rotating=False, pending=0)
        asked = row.rotations_done < row.rotations_asked
        pending = store.count_behind(context.work, row.project, row.version + 1 if asked else row.version)
        return declared.ProjectKey(project=request.project, version=row.version, rotating=asked or pending > 0, pending=pending)

    def rotate(self, context: Context, request: declared.OneProject) -> declared.ProjectKey:
        row = store.hold_key(context.work, context.required_project.id)
        if row.shredded is not None:
            raise Conflict(f"The key of the project {request.project!r} was destroyed.")
        store.ask_rotation(context.work, row.project)
        return self.show(context, request)

    def shred(self, context: Context, request: declared.ShredProject) -> declared.ProjectShredded:
        if request.confirm != request.project:
            raise Invalid(f"To destroy everything in {request.project!r}, confirm with the project's name.")
        project = context.required_project.id
        blobs = shred_project(context.work, project, context.now)
        for kept in self._secrets:
            kept.forget(context.work, project, context.now)
        return declared.ProjectShredded(project=request.project, blobs=blobs)


def shred_project(work: UnitOfWork, project: str, now: Moment) -> int:
    """Remove every wrapped key of the project now and have the project's own key destroyed by the next step; how many blobs."""
    store.hold_key(work, project)
    store.mark_shredded(work, project, now)
    return store.remove_project(work, project, now)


@value
class Rotated:
    """What one step did; `more` says that another one has work."""

    rotated: int
    rewrapped: int
    destroyed: int
    failed: int
    more: bool


class KeyRotation:
    """Does what was asked, a bounded piece at a time. Every data key is readable before, during and after."""

    def __init__(self, database: Database, ring: KeyRing, *, secrets: Sequence[Secrets] = (), batch: int = BATCH) -> None:
        self._database = database
        self._ring = ring
        self._secrets = secrets
        self._batch = batch
        self._after = ""

    def step(self, now: Moment) -> Rotated:
        destroyed = self._destroy(now)
        asked = self._database.read(lambda work: store.rotations_due(work, PROJECTS))
        for row in asked:
            self._rotate(row)
        behind = self._database.read(lambda work: store.behind(work, self._after, self._batch))
        # What cannot be unwrapped must not stand in the way of the rest: the walk goes on behind it and starts over at the end.
        self._after = behind[-1].id if len(behind) == self._batch else ""
        rewrapped = [new for row in behind if (new := self._rewrapped(row)) is not None]
        if rewrapped:
            self._database.write(lambda work: [store.rewrap(work, *new) for new in rewrapped])
            failpoint("storage.keys-rewrapped")
        return Rotated(
            rotated=len(asked),
            rewrapped=len(rewrapped),
            destroyed=destroyed,
            failed=len(behind) - len(rewrapped),
            more=len(asked) == PROJECTS or len(behind) == self._batch,
        )

    def _rotate(self, row: store.Found) -> None:
        """Dying between the two leaves a version that nothing needs, and the rotation is done again."""
        name = project_key(row.project)
        self._ring.create(name)
        version = self._ring.rotate(name)
        failpoint("storage.key-rotated")
        self._database.write(lambda work: self._count(work, row, version))

    def _count(self, work: UnitOfWork, row: store.Found, version: int) -> None:
        """From here on nothing is wrapped by an older version; what was just before is seen, for who wraps holds the row."""
        store.mark_rotated(work, row.project, version, row.rotations_asked)
        for kept in self._secrets:
            kept.rewrap(work, row.project)

    def _rewrapped(self, row: store.Found) -> tuple[str, int, int, bytes] | None:
        name, bound = project_key(row.project), wrapping_context(row.project, row.object)
        try:
            key = self._ring.unwrap(name, Wrapped(version=row.key_version, data=row.wrapped), bound)
            new = self._ring.wrap(name, key, bound)
        except (Corrupt, Conflict, NotFound) as error:
            log.error("the data key of blob %s cannot be wrapped anew: %s", row.id, error)
            return None
        return row.id, row.key_version, new.version, new.data

    def _destroy(self, now: Moment) -> int:
        projects = self._database.read(lambda work: store.keys_to_destroy(work, PROJECTS))
        for project in projects:
            self._destroy_key(project, now)
        return len(projects)

    def _destroy_key(self, project: str, now: Moment) -> None:
        name = project_key(project)
        try:
            self._ring.destroy(name)
        except KeyNotFound:  # the project never stored anything; its name is not to be used either
            self._ring.create(name)
            self._ring.destroy(name)
        failpoint("storage.key-destroyed")
        self._database.write(lambda work: store.mark_destroyed(work, project, now))
