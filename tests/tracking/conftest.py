from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracking.room import Caller, Room


@pytest.fixture(params=["sqlite", "postgres"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Room]:
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    opened = Room(tmp_path, url)
    yield opened
    opened.database.close()


@pytest.fixture
def amal(room: Room) -> Caller:
    return room.caller()
