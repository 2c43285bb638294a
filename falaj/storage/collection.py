"""Garbage collection: objects that nothing names go, objects that something names stay.

First an object is condemned, in a transaction that fails to do so where an upload kept it; only then it is removed.
"""

import logging
from collections.abc import Mapping

from falaj.base.clock import DAY, Moment
from falaj.base.errors import FalajError
from falaj.base.failpoints import failpoint
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.storage import store
from falaj.storage.blobs import Blobs

GRACE = DAY
# Far longer than an upload may wait to be kept, so that a removed object is never taken for a stored one.
REMEMBERED = 7 * DAY
BATCH = 500
log = logging.getLogger(__name__)


@value
class Collected:
    """What one step did; `more` says that another one has work."""

    condemned: int
    removed: int
    failed: int
    more: bool


class GarbageCollector:
    """Walks the storages a batch at a time. At most one runs at once for the sake of economy, not of safety.

    An object that no row names is left alone for `grace`: it may belong to an upload that is about to be kept.
    """

    def __init__(self, database: Database, places: Mapping[str, Blobs], *, grace: int = GRACE, batch: int = BATCH) -> None:
        self._database = database
        self._places = places
        self._grace = grace
        self._batch = batch
        self._after: dict[str, str] = {}

    def step(self, now: Moment) -> Collected:
        condemned, failed, more = 0, 0, False
        for storage, blobs in self._places.items():
            try:
                found, further = self._condemn(storage, blobs, now)
            except FalajError as error:
                log.warning("storage %s could not be looked through: %s", storage, error)
                failed += 1
            else:
                condemned, more = condemned + found, more or further
        removed, not_removed, further = self._remove(now)
        self._database.write(lambda work: store.forget_removed(work, Moment(now - REMEMBERED)))
        return Collected(condemned=condemned, removed=removed, failed=failed + not_removed, more=more or further)

    def _condemn(self, storage: str, blobs: Blobs, now: Moment) -> tuple[int, bool]:
        listed = blobs.list(self._after.get(storage, ""), self._batch)
        further = len(listed) == self._batch
        self._after[storage] = listed[-1].id if further else ""
        old = [stored.id for stored in listed if stored.modified < now - self._grace]
        known = self._database.read(lambda work: store.known_objects(work, old))
        orphans = [object_id for object_id in old if object_id not in known]

        def condemn(work: UnitOfWork) -> int:
            return sum(store.enter_object(work, object_id, storage, store.CONDEMNED, now) for object_id in orphans)

        return (self._database.write(condemn) if orphans else 0), further

    def _remove(self, now: Moment) -> tuple[int, int, bool]:
        due = self._database.read(lambda work: store.to_remove(work, tuple(self._places), self._batch))
        removed: list[str] = []
        for row in due:
            try:
                self._places[row.storage].delete(row.id)
            except FalajError as error:
                log.warning("object %s could not be removed from storage %s: %s", row.id, row.storage, error)
            else:
                removed.append(row.id)
        failpoint("storage.objects-removed")
        if removed:
            self._database.write(lambda work: store.mark_removed(work, removed, now))
        return len(removed), len(due) - len(removed), len(due) == self._batch
