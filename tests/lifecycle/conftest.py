from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.app.platform import open_platform
from falaj.app.settings import DatabaseSettings, PlatformSettings, Settings
from tests.lifecycle.playing import Stage, home_in
from tests.operations.conftest import MovableClock


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """On either database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    clock = MovableClock()
    with open_platform(home_in(tmp_path), Settings(database=DatabaseSettings(url=url)), clock=clock) as platform:
        yield Stage(platform, clock)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """On SQLite alone, shared by a module's tests, for what does not depend on the database."""
    clock = MovableClock()
    with open_platform(home_in(tmp_path_factory.mktemp("small")), Settings(), clock=clock) as platform:
        yield Stage(platform, clock)


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Stage]:
    """Where another person has to agree."""
    clock = MovableClock()
    settings = Settings(platform=PlatformSettings(profile="team"))
    with open_platform(home_in(tmp_path), settings, clock=clock) as platform:
        yield Stage(platform, clock)
