"""What the room above watches: its plans reach planes with the state, and what planes saw reaches it, sealed and once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from falaj.base.clock import MINUTE, Moment
from falaj.database.work import Context, UnitOfWork
from falaj.serving.operations import endpoints
from falaj.serving.operations.planes import ColumnReport, WatchReport
from falaj.serving.reporting import ReportService
from falaj.serving.states import Watch, WatchedColumn
from falaj.serving.store.tables import Found
from tests.serving.control.platform import Platform, said

AGE = WatchedColumn(name="age", edges=(1.0, 2.0))


class Room:
    """As the room above is seen from serving."""

    def __init__(self, platform: Platform) -> None:
        self.watches: dict[str, Watch] = {}
        self.sealed: list[list[WatchReport]] = []
        self.kept: list[WatchReport] = []
        self.fault: Exception | None = None
        serving: Any = platform.app.serving
        serving._publisher._plans = self
        (reports,) = [one for one in serving._services if isinstance(one, ReportService)]
        reports._watchers = self

    def of_zone(self, work: UnitOfWork, zone: str) -> Mapping[str, Watch]:
        return self.watches

    def seal(self, context: Context, watched: Sequence[WatchReport], endpoints: Mapping[str, Found]) -> object:
        assert {one.endpoint for one in watched} <= endpoints.keys()
        self.sealed.append(list(watched))
        return tuple(watched)

    def keep(self, context: Context, sealed: object) -> None:
        if self.fault is not None:
            raise self.fault
        assert isinstance(sealed, tuple)
        self.kept += sealed


def seen(endpoint: endpoints.Endpoint, revision: int = 1, **told: Any) -> WatchReport:
    columns = (ColumnReport(name="age", counts=(1, 2, 3, 0)),)
    given = {"endpoint": endpoint.id, "plan": "k", "at": Moment(0), "seconds": 60, "rows": 6, "columns": columns}
    return WatchReport(**(given | {"revision": revision} | told))


def test_a_revision_is_watched_as_the_plan_says_and_others_are_not(small: Platform) -> None:
    room = Room(small)
    small.deployed(2)
    first, second = small.plane().state().endpoints[0].revisions
    assert (first.watch, second.watch) == (None, None)
    watch = Watch(key="k", seconds=60, columns=(AGE,), outputs=(WatchedColumn(name="y", kinds=("a", "b")),), sample=10)
    room.watches[second.id] = watch
    small.clock.forward(MINUTE)
    small.step()  # a plan that changed is found within a minute, whoever forgot to say so
    before, after = small.plane("other").state().endpoints[0].revisions
    assert (before.watch, after.watch) == (None, watch)


def test_what_a_plane_saw_counts_once_however_often_it_is_sent(platform: Platform) -> None:
    room, endpoint, plane = Room(platform), platform.deployed(), platform.plane()
    told = seen(endpoint)
    report = plane.report(said(endpoint, 1), watched=(told,))
    plane.number -= 1
    plane.report(said(endpoint, 1), run=report.run, number=report.number, watched=(told,))
    assert room.kept == [told]


def test_a_plane_can_tell_nothing_of_endpoints_elsewhere_or_revisions_that_never_were(small: Platform) -> None:
    room, endpoint = Room(small), small.deployed()
    small.project("far", "north")
    elsewhere = small.plane("north", zone="north")
    elsewhere.report(watched=(seen(endpoint),), serial=1)
    small.plane().report(
        said(endpoint, 1), watched=(seen(endpoint, 2), replace(seen(endpoint), endpoint="0" * 32), seen(endpoint, rows=7))
    )
    assert [one.rows for one in room.kept] == [7]
    assert room.sealed == [room.kept]


def test_what_was_sealed_counts_only_with_its_report(small: Platform) -> None:
    room, endpoint, plane = Room(small), small.deployed(), small.plane()
    room.fault = RuntimeError("the disk is full")
    with pytest.raises(RuntimeError):
        plane.report(said(endpoint, 1, requests=5), watched=(seen(endpoint),))
    assert small.show().ready == 0
    room.fault = None
    plane.report(said(endpoint, 1, requests=5), watched=(seen(endpoint),))
    assert len(room.sealed) == 2
    assert len(room.kept) == 1


def test_without_a_room_above_reports_of_what_was_seen_are_passed_by(small: Platform) -> None:
    endpoint = small.deployed()
    small.plane().report(said(endpoint, 1), watched=(seen(endpoint),))
    assert small.show().ready == 1
