from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.platform import Platform


@pytest.fixture(params=["sqlite", "postgres"])
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Platform]:
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    opened = Platform(tmp_path, url)
    yield opened
    opened.database.close()
