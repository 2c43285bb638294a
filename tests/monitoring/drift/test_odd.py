"""What is odd about one number, one document, one plane or one window holds up nothing else."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from falaj.base.clock import SECOND
from falaj.governance.projects.store import project_by_id
from falaj.governance.zones.residency import ProjectZones
from falaj.monitoring.closing import Closing
from falaj.monitoring.sealing import REFERENCE, Documents, inside
from falaj.monitoring.store import monitors as store
from falaj.monitoring.store import tables
from falaj.monitoring.store.service_tables import totals
from falaj.serving.operations.planes import SampledRow, WatchReport
from falaj.storage.service import BlobService
from tests.monitoring.drift.platform import QUICK, ROWS, Watched, rows_of

LARGEST = 1.7976931348623157e308


def lying(told: list[WatchReport], **lies: Any) -> list[WatchReport]:
    """Every report of them says so of itself, or of its columns."""
    of_columns = {name: lies.pop(name) for name in ("total", "squares") if name in lies}
    return [replace(one, columns=tuple(replace(some, **of_columns) for some in one.columns), **lies) for one in told]


@pytest.mark.parametrize("number", [-LARGEST, LARGEST])
def test_the_largest_number_there_is_in_a_reference_holds_up_neither_the_zone_nor_the_monitor(watched: Watched, number: float):
    rows = rows_of(1, 2000)
    rows[0, 0] = number
    watched.write(rows)
    watched.apply(replace(QUICK, reference="orders@1"))
    watched.platform.deploy(watched.version.version, name="other")
    assert "other" in repr(watched.plane.state())
    watched.traffic(rows_of(seed) for seed in range(3))
    assert len(watched.windows().items) == 3
    assert watched.column("amount").rows


def test_the_largest_number_there_is_may_be_learnt_from_traffic(watched: Watched):
    watched.apply(replace(QUICK, learn_rows=100))

    def columns(seed: int) -> list[np.ndarray]:
        return [rows_of(seed)[:, place].astype(np.float64) for place in range(3)]

    odd = columns(1)
    odd[0][0] = -LARGEST
    for seed, some in enumerate((odd, columns(2), columns(3))):
        watched.window(rows_of(seed), columns=some)
    assert len(watched.windows().items) == 3
    assert "amount" in repr(watched.plane.state())


def test_a_reference_that_is_none_leaves_the_zone_its_state_and_the_other_monitors_theirs(watched: Watched):
    watched.apply()
    app, now = watched.platform.app, watched.clock.now()
    documents, row = (
        Documents(app.database, BlobService(app.places, app.ring, watched.clock, ProjectZones())),
        watched.reference(),
    )
    project = app.database.read(lambda work: project_by_id(work, row.project))
    assert project is not None
    received = documents.receive(project, row.zone, b'{"key": "1.1", "source": "traffic", "columns": [null]}')

    def spoil(work: Any) -> None:
        blob = documents.keep(inside(work, project, row.zone, now), received, REFERENCE, "odd")
        store.change_reference(work, row.monitor, row.revision, blob=blob)

    app.database.write(spoil)
    watched.platform.deploy(watched.version.version, name="other")
    assert "other" in repr(watched.plane.state())


def test_a_plane_that_says_what_cannot_be_counted_does_not_hold_up_what_others_say(watched: Watched):
    watched.apply()
    for seed in range(2):
        told = watched.counted(rows_of(seed))
        odd = lying(told, total=math.nan, squares=-math.inf, sampled=(SampledRow(draw=math.nan, row="[1, 2, 3]"),))
        watched.send([*odd, *told])
        watched.over()
    assert [one.rows for one in watched.windows().items] == [2 * ROWS, 2 * ROWS]


def test_counts_beyond_all_belief_are_bounded_wherever_they_are_added_up(watched: Watched):
    watched.apply()
    for seed in range(3):
        told = watched.counted(rows_of(seed))
        huge = lying(told, rows=2**62, missed=2**62)
        watched.send([*huge, *huge, *lying(huge, seconds=61), *lying(huge, seconds=61)])
        watched.over()
        watched.clock.forward(120 * SECOND)
        watched.step()
    assert len(watched.windows().items) == 3
    assert watched.reference().late == 2**62
    watched.send(lying(told, rows=2**62))  # of a window that was closed long ago
    watched.over()
    assert (watched.reference().late, watched.rows(tables.pieces)) == (2**62, [])
    assert all(row.rows <= 2**62 and row.missed <= 2**62 for row in watched.rows(totals))


def test_a_window_that_fails_again_and_again_is_given_up_and_later_ones_are_closed(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    watched.apply()
    watched.window(rows_of(1))
    last, work_out = watched.last().at, Closing._worked_out

    def failing(self: Closing, loaded: Any, now: Any) -> Any:
        if loaded.window.at == last + 60 * SECOND:
            raise ZeroDivisionError
        return work_out(self, loaded, now)

    monkeypatch.setattr(Closing, "_worked_out", failing)
    for seed in range(6):
        watched.window(rows_of(seed))
    starts = [one.at for one in watched.windows().items]
    assert last + 60 * SECOND not in starts
    assert starts[0] >= last + 3 * 60 * SECOND
    assert watched.reference().late == ROWS
