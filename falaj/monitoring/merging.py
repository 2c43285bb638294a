"""Small batches of labels become large ones: who sends labels one by one must not make it far dearer to read them.

Only what everybody has read who goes through the batches in order: a place in the middle of a batch would be lost.
"""

from collections.abc import Sequence
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import FalajError
from falaj.base.ids import new_id
from falaj.database.work import Database, UnitOfWork
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import joined
from falaj.monitoring.joined import Joined
from falaj.monitoring.labels import LABELS, LabelService
from falaj.monitoring.sealing import Documents, inside
from falaj.monitoring.store import labels as store
from falaj.monitoring.store.tables import Found
from falaj.serving.store import endpoints as endpoint_store
from falaj.storage.service import Received

SMALL: Final = 500  # rows; fewer are worth to be put together
MANY: Final = 50  # so many small ones, before it is done
AT_ONCE: Final = 200  # batches
MOST_ROWS: Final = 2000
ENDPOINTS_AT_ONCE: Final = 20


class Merging:
    """Under a lease."""

    def __init__(self, database: Database, documents: Documents, labels: LabelService) -> None:
        self._database, self._documents, self._labels = database, documents, labels

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once."""
        crowded = self._database.read(lambda work: store.crowded(work, SMALL, MANY, ENDPOINTS_AT_ONCE))
        more = False
        for endpoint in crowded:
            more |= self._merge(endpoint, now)
        return more

    def _merge(self, id: str, now: Moment) -> bool:
        """1. read; 2. seal together; 3. put in the place of those that it was made of, if nobody is among them."""
        endpoint = self._database.read(lambda work: endpoint_store.find_by_id(work, id))
        project = None if endpoint is None else self._database.read(lambda work: project_by_id(work, endpoint.project))
        if endpoint is None or project is None:
            return False
        try:
            batches, rows = self._database.read(lambda work: self._read(work, endpoint, project, now))
            received = self._documents.receive(project, endpoint.zone, joined.encode(rows))
        except FalajError:  # storage or the key ring does not answer, or takes nothing any more: later
            return False
        return self._database.write(lambda work: self._enter(work, endpoint, project, batches, rows, received, now))

    def _read(
        self, work: UnitOfWork, endpoint: Found, project: Project, now: Moment
    ) -> tuple[Sequence[Found], Sequence[Joined]]:
        batches, whole = [], 0
        for batch in store.small_and_judged(work, endpoint.id, SMALL, AT_ONCE):
            whole += batch.rows
            if whole > MOST_ROWS:
                break
            batches.append(batch)
        return batches, self._labels.rows(inside(work, project, endpoint.zone, now), endpoint, batches)

    def _enter(
        self,
        work: UnitOfWork,
        endpoint: Found,
        project: Project,
        batches: Sequence[Found],
        rows: Sequence[Joined],
        received: Received,
        now: Moment,
    ) -> bool:
        held, ids = store.labelling(work, endpoint.id, hold=True), [one.id for one in batches]
        if held is None or not rows or store.there(work, ids) != len(ids):
            return False  # somebody else did it, or there is nothing in them any more
        last = batches[-1].place
        if store.is_read_within(work, endpoint.id, batches[0].place, last):
            return False
        context, id = inside(work, project, endpoint.zone, now), new_id(now)
        moments = [row.at for row in rows]
        merged = {
            "id": id,
            "project": endpoint.project,
            "endpoint": endpoint.id,
            "place": last,
            "rows": len(rows),
            "first": min(moments),
            "last": max(moments),
            "at": max(one.at for one in batches),
            "blob": self._documents.keep(context, received, LABELS, id),
        }
        for one in batches:
            self._documents.drop(context, LABELS, one.id)
        store.replace_batches(work, ids, merged)
        return True
