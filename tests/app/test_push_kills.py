"""Kill -9 of the platform while rows are pushed by two and made versions of: every row that was answered is there once, and the
rows of each pusher are in the order he sent them."""

import json
import threading
import time
from typing import Any

from falaj.base.errors import TemporaryError
from falaj.datasets.operations.pushing import PUSH_ROWS, SHOW_PUSHES, AskAboutPushes, PushRows
from falaj.datasets.operations.reading import QUERY, Query
from falaj.datasets.operations.versions import LIST_VERSIONS, ListVersions
from tests.app.conftest import MakePlatform
from tests.app.effects import come_back
from tests.app.mortal import MortalPlatform

PUSHES, ROWS = 8, 3
NEVER, AT_ONCE = "86400", "1"  # when what was pushed becomes a version


def content(pusher: int, number: int) -> bytes:
    rows = ({"pusher": pusher, "number": number * ROWS + row} for row in range(ROWS))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class Pushing(threading.Thread):
    """Pushes its rows in order, each until it is answered, whatever happens to the platform meanwhile."""

    def __init__(self, platform: MortalPlatform, pusher: int) -> None:
        super().__init__(daemon=True)
        self._platform, self._pusher = platform, pusher

    def run(self) -> None:
        for number in range(PUSHES):
            request = PushRows(project="default", dataset="events", key=f"{self._pusher}-{number}", create=True)
            while not self._is_answered(request, content(self._pusher, number)):
                time.sleep(0.05)

    def _is_answered(self, request: PushRows, body: bytes) -> bool:
        try:
            with self._platform.client() as client:
                client.call(PUSH_ROWS, request, chunks=[body])
        except (TemporaryError, OSError):
            return False
        return True


def found(platform: MortalPlatform) -> list[tuple[Any, ...]]:
    sql = "SELECT pusher, number FROM events"
    return [tuple(row) for row in platform.call(QUERY, Query(project="default", sql=sql)).rows]


def test_a_platform_that_is_killed_again_and_again_has_every_pushed_row_once_and_in_order(make_platform: MakePlatform) -> None:
    platform = make_platform().start(FALAJ_DATA_PUSH_SECONDS=NEVER, FALAJ_FAILPOINT="storage.object-written@9")
    pushers = [Pushing(platform, number) for number in range(2)]
    for one in pushers:
        one.start()
    platform.wait_until_dead()  # at the door
    come_back(platform, FALAJ_DATA_PUSH_SECONDS=NEVER)
    for one in pushers:
        one.join(60)
        assert not one.is_alive()
    asked = AskAboutPushes(project="default", dataset="events")
    assert platform.call(SHOW_PUSHES, asked).waiting_rows == 2 * PUSHES * ROWS
    platform.kill()
    for death in ("storage.object-written@1", "storage.object-written@2"):  # in the loop, before its transaction
        platform.launch(FALAJ_DATA_PUSH_SECONDS=AT_ONCE, FALAJ_FAILPOINT=death)
        platform.wait_until_dead()
    come_back(platform, FALAJ_DATA_PUSH_SECONDS=AT_ONCE)
    deadline = time.monotonic() + 60
    while platform.call(SHOW_PUSHES, asked).waiting:
        assert time.monotonic() < deadline, platform.log[-2000:]
        time.sleep(0.05)
    rows = found(platform)
    for pusher in range(2):
        assert [number for whose, number in rows if whose == pusher] == list(range(PUSHES * ROWS))
    history = platform.call(LIST_VERSIONS, ListVersions(project="default", dataset="events")).items
    assert [version.rows for version in history] == [2 * PUSHES * ROWS]
