"""Features kept on a real Redis server, through the operations: the same promises as with the folder of a platform's home."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.base.clock import HOUR
from falaj.base.errors import Conflict, Unavailable
from falaj.datasets.online.redis import RedisStore
from falaj.datasets.workers import DataWorkers
from tests.datasets.features.stories import applied, told
from tests.datasets.features.test_auditing import audited
from tests.datasets.features.test_catching_up import NEWEST, append
from tests.datasets.features.test_deleting import deleted
from tests.datasets.features.test_serving import got, materialised
from tests.datasets.platform import Platform
from tests.servers.redis import RedisServer


@pytest.fixture
def fleet(tmp_path: Path, workers: DataWorkers, redis_url: str) -> Iterator[Platform]:
    opened = Platform(tmp_path, None, workers, RedisStore(redis_url))
    yield opened
    opened.room.close()
    opened.database.close()


def test_a_fleet_materialises_catches_up_serves_audits_and_forgets(fleet: Platform, redis_server: RedisServer) -> None:
    told(fleet)
    fleet.clock.forward(50 * HOUR)
    applied(fleet, features=NEWEST, log=1.0)
    assert materialised(fleet).read == "everything"
    append(fleet, 2, 49, 7.0)
    append(fleet, 1, 1, 9.0)  # older than what is known
    found = materialised(fleet)
    assert (found.read, found.written) == ("appended", 1)
    assert [row[0] for row in got(fleet, 1, 2, 3).rows] == [2.5, 7.0, None]
    assert audited(fleet).causes == {}
    fleet.commit(fleet.open("delete", "clicks", where="user = 2"), 0)
    assert (materialised(fleet).read, got(fleet, 2).rows[0][0]) == ("everything", None)
    with redis_server.client() as client:
        assert client.dbsize() > 0
        deleted(fleet, "by-user")
        fleet.room.step(fleet.clock.now())
        assert client.dbsize() == 0


def test_what_a_server_lost_is_said_and_made_again(fleet: Platform, redis_server: RedisServer) -> None:
    told(fleet)
    fleet.clock.forward(50 * HOUR)
    applied(fleet)
    materialised(fleet)
    with redis_server.client() as client:
        client.flushall()
    with pytest.raises(Conflict, match="has lost what it had"):
        got(fleet, 1)
    assert materialised(fleet).read == "everything"
    assert got(fleet, 1).rows == ((2.5, 2, 4.0, 0),)


def test_a_server_that_is_away_is_said_and_what_was_begun_is_made_again(fleet: Platform, redis_server: RedisServer) -> None:
    told(fleet)
    fleet.clock.forward(50 * HOUR)
    applied(fleet)
    materialised(fleet)
    append(fleet, 1, 49, 1.0)
    redis_server.stop()
    try:
        with pytest.raises(Unavailable):
            got(fleet, 1)
        with pytest.raises(Unavailable):
            materialised(fleet)
    finally:
        redis_server.start()
    assert materialised(fleet).entities == 2
    assert got(fleet, 1).rows == ((1.0, 3, 5.0, 1),)
