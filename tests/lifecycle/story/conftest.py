from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lifecycle.story.told import Told
from tests.servers.migrating import migrations_as_before
from tests.serving.control.platform import Platform


@pytest.fixture(autouse=True)
def migrations_run_once() -> Iterator[None]:
    """Every test has a platform of its own, and half of its time would go by in migrating."""
    with migrations_as_before():
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Told]:
    """On either database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    opened = Platform(tmp_path, url)
    yield Told(opened)
    opened.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Told]:
    """On SQLite alone, for what does not depend on the database."""
    opened = Platform(tmp_path)
    yield Told(opened)
    opened.close()
