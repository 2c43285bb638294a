"""A platform with monitored endpoints, and what a monitor would see of them, said by tests."""

from typing import Any

from falaj.base.ids import new_id
from falaj.database.work import UnitOfWork
from falaj.governance.projects.store import project_by_id
from falaj.monitoring import wishers
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Told
from falaj.monitoring.sealing import inside
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.views import wishes_written
from falaj.monitoring.wishers import Wisher
from falaj.serving.store import endpoints as endpoint_store
from tests.serving.control.platform import PROJECT, Platform

AMOUNT = Told(column="amount", effect=0.31, evidence=4.0, missing=0.0, outside=0.1, drifting=True)


def drift(severity: Any = "warning", revision: int = 1, **fields: Any) -> Sighting:
    given: dict[str, Any] = {
        "key": f"drift/{revision}",
        "kind": "drift",
        "title": "1 of 3 columns drift",
        "sentences": ("Far from what they were: amount (0.31).",),
        "facts": {"revision": revision, "rows": 500},
        "columns": (AMOUNT,),
    }
    return Sighting(severity=severity, **(given | fields))


class Watched:
    """The endpoint `scores` of a platform, with a monitor that `by` set; after so many revisions more."""

    def __init__(self, platform: Platform, wishes: Wishes = Wishes(), *, revisions: int = 1, by: str = "") -> None:  # noqa: B008
        self.platform = platform
        self.endpoint = platform.deployed(revisions) if revisions else platform.show()
        found = platform.app.database.read(lambda work: endpoint_store.find_by_id(work, self.endpoint.id))
        assert found is not None
        self.project, self.id, self.by = found.project, new_id(platform.clock.now()), by or found.created_by
        platform.app.database.write(lambda work: self._add(work, wishes))

    def _add(self, work: UnitOfWork, wishes: Wishes) -> None:
        now = self.platform.clock.now()
        row = {"id": self.id, "project": self.project, "endpoint": self.endpoint.id, "wishes": wishes_written(wishes)}
        by = {"changed_by": self.by, "wisher": wishers.encode(Wisher(principal=self.by))}
        monitor_store.add(work, {**row, **by, "created": now, "changed": now})

    def wish(self, wishes: Wishes) -> None:
        self.platform.app.database.write(lambda work: monitor_store.change(work, self.id, wishes=wishes_written(wishes)))

    def forget(self) -> None:
        self.platform.app.database.write(lambda work: monitor_store.forget(work, self.id))

    def sees(self, *sightings: Sighting) -> None:
        """As whoever closes a window says so, in a transaction."""
        self.platform.app.database.write(lambda work: self.enter(work, *sightings))

    def enter(self, work: UnitOfWork, *sightings: Sighting) -> None:
        monitor, project = monitor_store.by_id(work, self.id), project_by_id(work, self.project)
        assert monitor is not None
        assert project is not None
        context = inside(work, project, "", self.platform.clock.now())
        self.platform.app.monitoring.raising.sight(context, monitor, sightings)

    def wait(self, by: int) -> None:
        """So much time goes by, and the platform notices."""
        self.platform.clock.forward(by)
        self.platform.app.monitoring.raising.pass_time(self.platform.clock.now())

    def alerts(self, token: str = "", **fields: Any) -> tuple[declared.Alert, ...]:
        request = declared.ListAlerts(**({"project": PROJECT, "which": "all"} | fields))
        return self.platform.call(declared.LIST_ALERTS, request, token).items

    def alert(self) -> declared.Alert:
        [found] = self.alerts()
        return found

    def told(self) -> list[tuple[str, str]]:
        """What is sent of the newest alert, and where to, in order."""
        return [(one.what, one.channel) for one in self.alerts()[0].sent]
