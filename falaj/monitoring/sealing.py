"""Documents of a monitor as sealed blobs of its project, in the endpoint's zone: they hold values of the data."""

import logging
from typing import Final

from falaj.base.caller import Identity
from falaj.base.clock import Moment
from falaj.base.errors import FalajError
from falaj.base.ids import PrincipalId
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import Project, project_by_id
from falaj.monitoring import references
from falaj.monitoring.references import Reference
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.serving.states import Watch
from falaj.storage.service import BlobService, Owner, Received

log = logging.getLogger(__name__)
REFERENCE: Final = "monitor-reference"  # kinds of owners
PIECE: Final = "monitor-piece"
WINDOW: Final = "monitor-window"
CHANNEL: Final = "alert-channel"
SAMPLE: Final = 100  # rows of a window that are kept whole
_REMEMBERED: Final = 32  # each may have a hundred thousand values
_PLANS: Final = 2048


def inside(work: UnitOfWork, project: Project, zone: str, now: Moment) -> Context:
    """Of what the platform does by itself."""
    identity = Identity(principal=PrincipalId(""), kind="process", name="monitoring", token=None, zone=zone)
    return Context(work=work, identity=identity, project=project_facts(project), now=now, request_id="", facts={})


class Documents:
    """Thread-safe. A blob never changes, so what was read once is remembered."""

    def __init__(self, database: Database, blobs: BlobService) -> None:
        self._database, self._blobs = database, blobs
        self._known: Bounded[str, Reference] = Bounded(_REMEMBERED)

    def receive(self, project: Project, zone: str, content: bytes) -> Received:
        """Outside any transaction."""
        return self._blobs.receive(project_facts(project), zone, iter((content,)))

    def keep(self, context: Context, received: Received, kind: str, id: str) -> str:
        return self._blobs.keep(context, received, Owner(kind=kind, id=id), media_type="application/json").id

    def drop(self, context: Context, kind: str, id: str) -> None:
        self._blobs.release(context, Owner(kind=kind, id=id))

    def read(self, context: Context, blob: str) -> bytes:
        return b"".join(self._blobs.open(context, blob).read())

    def reference(self, context: Context, blob: str) -> Reference:
        known = self._known.get(blob)
        return known if known is not None else self._known.put(blob, references.decode(self.read(context, blob)))


class MonitorPlans:
    """What planes are to count; implements `serving.watching.Plans`."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: Bounded[tuple[str, int], Watch] = Bounded(_PLANS)

    def of_zone(self, work: UnitOfWork, zone: str) -> dict[str, Watch]:
        rows = store.references_in(work, zone)
        projects = {id: project_by_id(work, id) for id in {row.project for row in rows}}
        found = {row.revision_id: self._drawn(work, row, projects[row.project]) for row in rows}
        return {id: watch for id, watch in found.items() if watch is not None}

    def _drawn(self, work: UnitOfWork, row: Found, project: Project | None) -> Watch | None:
        """None of what cannot be read: its key was shredded, the key ring does not answer, or it is odd. The zone's state has
        all that planes serve by, and never waits for what one monitor is held against."""
        if project is None:
            return None
        try:
            seconds = read_wishes(row.wishes).window
            if (known := self._known.get((row.blob, seconds))) is not None:
                return known
            reference = self._documents.reference(inside(work, project, row.zone, Moment(0)), row.blob)
            return self._known.put((row.blob, seconds), reference.watch(seconds, SAMPLE))
        except FalajError:
            return None
        except Exception:
            log.exception("planes are not told what to count for monitor %s", row.monitor)
            return None
