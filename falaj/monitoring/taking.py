"""Taking in what planes saw: sealed before anything of it is kept. Implements `serving.watching.Watchers`."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import pieces
from falaj.monitoring.sealing import PIECE, Documents, inside
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.counts import capped
from falaj.serving.operations.planes import WatchReport
from falaj.storage.service import Received

log = logging.getLogger(__name__)
_AHEAD: Final = MINUTE  # what begins later than this by our clock is not believed


@value
class Sealed:
    monitor: str
    revision: int
    key: str
    at: int
    until: int
    rows: int
    zone: str
    project: Project
    received: Received


@value
class Refused:
    """Rows that count in no window: of one that cannot be, for it has another length than was asked for or lies in a time to
    come; or that could not be sealed, for storage or the key ring did not answer."""

    monitor: str
    revision: int
    rows: int


class Taking:
    """Thread-safe."""

    def __init__(self, database: Database, documents: Documents) -> None:
        self._database, self._documents = database, documents

    def seal(
        self, context: Context, watched: Sequence[WatchReport], endpoints: Mapping[str, Found]
    ) -> tuple[Sealed | Refused, ...]:
        monitors = self._database.read(lambda work: store.of_endpoints(work, {one.endpoint for one in watched}))
        lengths = {endpoint: read_wishes(row.wishes).window for endpoint, row in monitors.items()}
        parted: dict[tuple[str, int, int], list[WatchReport]] = {}
        refused: list[Refused] = []
        for one in watched:
            if one.endpoint not in endpoints or one.endpoint not in monitors:
                continue
            if _is_credible(one, lengths[one.endpoint], context.now):
                parted.setdefault((one.endpoint, one.revision, one.at), []).append(one)
            else:
                refused.append(_refused(monitors[one.endpoint], [one]))
        found = [self._sealed(endpoints[endpoint], monitors[endpoint], told) for (endpoint, _, _), told in parted.items()]
        return (*(one for one in found if one is not None), *refused)

    def _sealed(self, endpoint: Found, monitor: Found, told: Sequence[WatchReport]) -> Sealed | Refused | None:
        project = self._database.read(lambda work: project_by_id(work, endpoint.project))
        if project is None or project.archived:
            return None
        try:
            received = self._documents.receive(project, endpoint.zone, pieces.encode_pieces(told))
        except FalajError as error:
            log.warning("rows of monitor %s are not kept: %s", monitor.id, error)
            return _refused(monitor, told)
        first = told[0]
        return Sealed(
            monitor=monitor.id,
            revision=first.revision,
            key=first.plan,
            at=first.at,
            until=first.at + first.seconds * SECOND,
            rows=capped(*(one.rows for one in told)),
            zone=endpoint.zone,
            project=project,
            received=received,
        )

    def keep(self, context: Context, sealed: object) -> None:
        for one in sealed if isinstance(sealed, tuple) else ():
            if isinstance(one, Refused):
                _count(context.work, one)
            else:
                self._keep(context.work, one, context.now)

    def _keep(self, work: UnitOfWork, one: Sealed, now: Moment) -> None:
        if store.by_id(work, one.monitor) is None:  # it was ended meanwhile
            return
        id = new_id(now)
        blob = self._documents.keep(inside(work, one.project, one.zone, now), one.received, PIECE, id)
        window_store.add_piece(
            work,
            {
                "id": id,
                "project": one.project.id,
                "monitor": one.monitor,
                "revision": one.revision,
                "key": one.key,
                "at": one.at,
                "until": one.until,
                "rows": one.rows,
                "blob": blob,
                "came": now,
            },
        )


def _refused(monitor: Found, told: Sequence[WatchReport]) -> Refused:
    """Of one revision."""
    return Refused(monitor=monitor.id, revision=told[0].revision, rows=capped(*(one.rows + one.missed for one in told)))


def _count(work: UnitOfWork, refused: Refused) -> None:
    row = store.reference(work, refused.monitor, refused.revision, hold=True)
    if row is not None:
        store.change_reference(work, refused.monitor, refused.revision, late=capped(row.late, refused.rows))


def _is_credible(one: WatchReport, seconds: int, now: Moment) -> bool:
    """A plane whose clock is ahead would hold up its window until then; one that has an older plan counts other windows."""
    return one.seconds == seconds and one.at % (seconds * SECOND) == 0 and one.at <= now + _AHEAD
