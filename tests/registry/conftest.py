from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.registry.platform import Platform

Opener = Callable[[str], Platform]


@pytest.fixture(params=["sqlite", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens a platform of a profile, on either database."""
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    opened: list[Platform] = []

    def open_one(profile: str) -> Platform:
        opened.append(Platform(tmp_path, url, profile))
        return opened[-1]

    yield open_one
    for platform in opened:
        platform.database.close()


@pytest.fixture
def platform(opener: Opener) -> Platform:
    """Where one person does everything."""
    return opener("solo")


@pytest.fixture
def team(opener: Opener) -> Platform:
    return opener("team")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Platform]:
    """On SQLite alone, for what does not depend on the database."""
    opened = Platform(tmp_path, None)
    yield opened
    opened.database.close()
