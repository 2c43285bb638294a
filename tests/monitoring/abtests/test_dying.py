"""Whoever dies on the way to a verdict, and whoever else looks at the same time: it is given once, and acted on once."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from falaj.base.clock import DAY
from falaj.monitoring.abtests.entering import MOST_POINTS, Drawn, _keep_points, enter
from falaj.monitoring.abtests.standing import begun
from falaj.monitoring.operations import abtests as declared
from falaj.monitoring.operations import alerts
from falaj.monitoring.store import abtests as store
from tests.monitoring.abtests.contested import Contested
from tests.serving.control.platform import PROJECT, Platform


def about_to_win(tested: Contested) -> None:
    tested.begun(on_win="promote")
    for _ in range(4):
        tested.round({1: (50, 100), 2: (80, 100)})


def check_won_once(platform: Platform) -> None:
    found = platform.call(declared.SHOW_ABTEST, declared.OneAbtest(project=PROJECT, abtest="trial"))
    assert found.state == "won"
    assert {arm.revision: arm.share for arm in platform.show().arms} == {2: 10_000}
    assert [change.kind for change in platform.history()][-2:] == ["split", "promote"]
    assert [leaf.facts["verdict"] for leaf in platform.leaves("abtest.stop")] == ["won"]
    told = platform.call(alerts.LIST_ALERTS, alerts.ListAlerts(project=PROJECT, which="all")).items
    assert [one.title for one in told] == ["A/B test 'trial': revision 2 wins"]
    assert found.units == sum(arm.units for arm in found.arms) <= 800
    points = platform.call(declared.READ_POINTS, declared.OneAbtest(project=PROJECT, abtest="trial"))
    assert [point.units for point in points.items] == sorted({point.units for point in points.items})


@pytest.mark.parametrize("where", ["decided", "acted", "done"])
def test_a_verdict_is_given_once_wherever_the_platform_dies(where: str, tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    about_to_win(Contested(platform))
    platform.close()
    died = subprocess.run(
        [sys.executable, "-m", "tests.monitoring.abtests.dying", str(tmp_path), where], timeout=60, capture_output=True
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    again = Platform(tmp_path)
    again.clock.forward(2 * DAY)
    try:
        state = again.call(declared.SHOW_ABTEST, declared.OneAbtest(project=PROJECT, abtest="trial")).state
        assert state == ("won" if where == "done" else "running")
        again.app.monitoring._abtests.step(again.clock.now())
        check_won_once(again)
    finally:
        again.close()


def test_what_was_looked_at_before_somebody_else_entered_it_counts_for_nothing(tested: Contested) -> None:
    about_to_win(tested)
    running, database, now = tested.platform.app.monitoring._abtests, tested.platform.app.database, tested.clock.now()
    (row,) = database.read(lambda work: store.running(work, "", 10))
    mine = database.read(lambda work: running._stepped(work, row, now))
    theirs = database.read(lambda work: running._stepped(work, row, now))
    assert mine is not None
    assert theirs is not None
    assert database.write(lambda work: enter(work, row, mine, running._permits, now))
    assert not database.write(lambda work: enter(work, row, theirs, running._permits, now))
    check_won_once(tested.platform)


def test_control_planes_that_look_at_once_give_one_verdict(tested: Contested) -> None:
    about_to_win(tested)
    step, now = tested.platform.app.monitoring._abtests.step, tested.clock.now()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(step, [now] * 4))
    tested.step()
    check_won_once(tested.platform)


def test_units_are_forgotten_once_a_test_is_over(small: Contested) -> None:
    about_to_win(small)
    small.step()
    running, database = small.platform.app.monitoring._abtests, small.platform.app.database
    known = {f"{place}" for place in range(10)}
    database.write(lambda work: store.count(work, small.show().id, 0, known))
    assert not running.clean(small.clock.now())
    assert database.read(lambda work: store.counted(work, small.show().id, 0, known)) == set()


def test_the_chart_stays_small_however_long_a_test_goes_and_keeps_its_last_point(small: Contested) -> None:
    made, database = small.begun(), small.platform.app.database
    drawn = [Drawn(units=place, told="[[0.0, -1.0, 1.0]]") for place in range(1000)]
    after = database.write(lambda work: _keep_points(work, made.id, begun(1), drawn, small.clock.now()))
    points = small.points().items
    assert len(points) <= MOST_POINTS + 1
    assert points[-1].units == 999
    assert after.stride > 1
