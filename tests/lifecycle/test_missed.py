"""What falls due while no platform is there is made up for when one comes back: on the same home, later."""

from pathlib import Path

import pytest

from falaj.app.platform import open_platform
from falaj.app.settings import DatabaseSettings, Settings
from falaj.base.clock import DAY, SECOND
from falaj.lifecycle.operations.triggers import Trigger
from tests.lifecycle.playing import Stage, home_in, keep
from tests.lifecycle.test_triggers import look, runs, set_trigger, shown
from tests.operations.conftest import MovableClock


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest) -> Settings:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    return Settings(database=DatabaseSettings(url=url))


def test_a_schedule_that_was_missed_while_no_platform_ran_is_made_up_for_once(settings: Settings, tmp_path: Path):
    home, clock = home_in(tmp_path), MovableClock()
    with open_platform(home, settings, clock=clock) as platform:
        stage = Stage(platform, clock)
        stage.apply(keep("end", 1))
        set_trigger(stage, Trigger(kind="schedule", cron="0 6 * * *", zone="Asia/Dubai"))
        look(stage)
        assert runs(stage) == []
    clock.move(5 * DAY / SECOND)
    for _ in range(2):  # and once more, for what the first one made up for
        with open_platform(home, settings, clock=clock) as platform:
            stage = Stage(platform, clock)
            look(stage)
            look(stage)
            assert [(one.trigger, one.state) for one in runs(stage)] == [("by-itself", "done")]
            following = shown(stage).next
            assert following is not None
            assert clock.now() < following <= clock.now() + DAY
