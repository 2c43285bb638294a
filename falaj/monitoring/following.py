"""Monitors follow their endpoints: a revision that was deployed later is held against something of its own without anybody
asking, and what nobody uses any more goes."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from falaj.base.caller import Identity
from falaj.base.clock import MINUTE, Moment
from falaj.base.errors import FalajError
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.ledger import recording
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import keeping, raising, references, wishers
from falaj.monitoring.choosing import Choosing
from falaj.monitoring.keeping import Fresh
from falaj.monitoring.monitors import wanted_of
from falaj.monitoring.operations.monitors import APPLY_MONITOR, ApplyMonitor
from falaj.monitoring.sealing import Documents, inside
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.states import PURPOSE
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import states

log = logging.getLogger(__name__)
AT_ONCE: Final = 50
_AGAIN: Final = MINUTE  # after what did not work


class Following:
    """Under a lease: one control plane at a time."""

    def __init__(self, database: Database, documents: Documents, choosing: Choosing) -> None:
        self._database, self._documents, self._choosing = database, documents, choosing
        self._later: dict[tuple[str, int], int] = {}

    def step(self, now: Moment) -> bool:
        """Whether there may be more to do at once. One revision each time: drawing a reference may take long."""
        unused = self._database.read(lambda work: store.unused(work, AT_ONCE))
        if unused:
            self._database.write(lambda work: self._drop(work, unused, now))
        self._later = {key: at for key, at in self._later.items() if at > now}
        lacking = self._database.read(store.unwatched)
        waiting = [row for row in lacking if (row.monitor, row.number) not in self._later]
        if waiting:
            self._begin(waiting[0], now)
        return len(waiting) > 1 or len(unused) == AT_ONCE

    def clean(self, now: Moment) -> bool:
        """End monitors whose endpoint is gone; whether there are more."""

        def end(work: UnitOfWork) -> bool:
            gone = store.orphans(work, AT_ONCE)
            for row in gone:
                project, held = project_by_id(work, row.project), store.by_id(work, row.id, hold=True)
                if project is None or held is None:
                    continue
                context = inside(work, project, "", now)
                if not project.archived:  # nobody is sent anything of one that is put away
                    raising.end_with(context, held)
                keeping.end(self._documents, context, held)
            return len(gone) == AT_ONCE

        return self._database.write(end)

    def _drop(self, work: UnitOfWork, rows: Sequence[Found], now: Moment) -> None:
        for row in rows:
            project = project_by_id(work, row.project)
            if project is not None:
                keeping.drop(self._documents, inside(work, project, row.zone, now), row)

    def _begin(self, row: Found, now: Moment) -> None:
        """`row` is a revision, with its monitor and what that was asked for."""
        self._later[row.monitor, row.number] = now + _AGAIN
        try:
            self._try(row, now)
        except FalajError as error:
            log.warning("revision %d of monitor %s is not watched yet: %s", row.number, row.monitor, error)
        except Exception:  # the others are to be watched all the same
            log.exception("revision %d of monitor %s is not watched yet", row.number, row.monitor)

    def _try(self, row: Found, now: Moment) -> None:
        found = self._database.read(lambda work: self._place(work, row))
        if found is None:
            return
        project, endpoint, identity = found
        wishes = read_wishes(row.wishes)
        asking = self._database.read(lambda work: replace(inside(work, project, row.zone, now), identity=identity))
        reference = self._choosing.later(asking, wishes, wanted_of(endpoint, row))
        received = self._documents.receive(project, row.zone, references.encode(reference))
        fresh = Fresh(revision=row, reference=reference, received=received)

        def enter(work: UnitOfWork) -> None:
            monitor = store.by_id(work, row.monitor, hold=True)
            if monitor is None or monitor.wishes != row.wishes or store.reference(work, row.monitor, row.number) is not None:
                return  # somebody was faster, or it is to be something else
            context = inside(work, project, row.zone, now)
            keeping.put(self._documents, context, row.monitor, row.zone, fresh)
            states.bump(work, row.zone, PURPOSE, now)
            _record(context, endpoint, row, reference.source)

        self._database.write(enter)

    def _place(self, work: UnitOfWork, row: Found) -> tuple[Project, Found, Identity] | None:
        """Where it is, and who asked for it: data is read by that one's right, as it is now, and with what their token could
        do."""
        project, endpoint = project_by_id(work, row.project), endpoint_store.find_by_id(work, row.endpoint)
        if project is None or project.archived or endpoint is None:
            return None
        return project, endpoint, wishers.identity_of(work, wishers.decode(row.wisher), row.zone)


def _record(context: Context, endpoint: Found, row: Found, source: str) -> None:
    recording.append(
        context.work,
        operation=APPLY_MONITOR,
        request=ApplyMonitor(project=context.required_project.name, endpoint=endpoint.name, wishes=read_wishes(row.wishes)),
        identity=None,
        project=context.required_project.id,
        now=context.now,
        request_id="",
        facts={"monitor": row.monitor, "endpoint": endpoint.id, "references": {str(row.number): source}},
    )
