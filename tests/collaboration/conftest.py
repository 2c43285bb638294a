from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collaboration.team import Team


@pytest.fixture(params=["sqlite", "postgres"])
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Team]:
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    opened = Team(tmp_path, url)
    yield opened
    opened.database.close()


@pytest.fixture
def small_team(tmp_path: Path) -> Iterator[Team]:
    """On SQLite alone, for what does not depend on the database."""
    opened = Team(tmp_path)
    yield opened
    opened.database.close()
