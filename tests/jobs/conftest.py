from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.cluster import Cluster, HandClock
from tests.jobs.yard import Yard


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    made = Cluster(tmp_path, HandClock(), url)
    yield made
    made.database.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Cluster]:
    """On SQLite alone, for what does not depend on the database."""
    made = Cluster(tmp_path, HandClock())
    yield made
    made.database.close()


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    made = Yard(tmp_path_factory.mktemp("yard"))
    try:
        yield made
    finally:
        made.close()
