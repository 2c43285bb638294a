from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.migrating import migrations_as_before
from tests.serving.control.platform import Platform

Opener = Callable[[str], Platform]


@pytest.fixture(autouse=True)
def migrations_run_once() -> Iterator[None]:
    """Nearly every test has a platform of its own, and half of its time would go by in migrating."""
    with migrations_as_before():
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Platform]:
    """On either database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    opened = Platform(tmp_path, url)
    yield opened
    opened.close()


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    """Opens a platform of a profile, on SQLite."""
    opened: list[Platform] = []

    def open_one(profile: str) -> Platform:
        opened.append(Platform(tmp_path / str(len(opened)), profile=profile))
        return opened[-1]

    yield open_one
    for platform in opened:
        platform.close()


@pytest.fixture
def small(opener: Opener) -> Platform:
    """On SQLite alone, for what does not depend on the database."""
    return opener("solo")
