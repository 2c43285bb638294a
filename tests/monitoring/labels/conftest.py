from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.monitoring.labels.labelled import Labelled
from tests.servers.migrating import migrations_as_before
from tests.serving.control.platform import Platform


@pytest.fixture(autouse=True)
def migrations_run_once() -> Iterator[None]:
    with migrations_as_before():
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def labelled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Labelled]:
    """On either database."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    platform = Platform(tmp_path, url)
    yield Labelled(platform)
    platform.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Labelled]:
    """On SQLite alone, for what does not depend on the database."""
    platform = Platform(tmp_path)
    yield Labelled(platform)
    platform.close()
