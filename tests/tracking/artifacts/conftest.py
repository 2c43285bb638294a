from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracking.artifacts.shelf import Shelf


@pytest.fixture(params=["sqlite", "postgres"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    opened = Shelf(tmp_path, url)
    yield opened
    opened.database.close()
