from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.datasets.workers import DataWorkers
from tests.datasets.platform import Platform


@pytest.fixture(scope="package")
def workers() -> Iterator[DataWorkers]:
    """Real ones, behind walls, for all tests together: starting one takes a second."""
    opened = DataWorkers(workers=2, memory_bytes=2 << 30, threads=1)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
def platform(request: pytest.FixtureRequest, tmp_path: Path, workers: DataWorkers) -> Iterator[Platform]:
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    opened = Platform(tmp_path, url, workers)
    yield opened
    opened.database.close()


@pytest.fixture
def small(tmp_path: Path, workers: DataWorkers) -> Iterator[Platform]:
    """On SQLite alone, for what does not depend on the database."""
    opened = Platform(tmp_path, None, workers)
    yield opened
    opened.database.close()
