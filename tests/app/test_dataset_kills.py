"""Kill -9 of the platform while a dataset is written: the version before stays current, or the new one is complete; and whoever
comes back with the same key goes on, and writes nothing twice."""

import random
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from falaj.base.errors import Unavailable
from falaj.client import dataset_writes
from falaj.client.dataset_pieces import PieceToSend
from falaj.datasets.operations.checks import SET_CHECKS, Check, SetChecks
from falaj.datasets.operations.datasets import SHOW_DATASET, OneDataset
from falaj.datasets.operations.reading import QUERY, Query
from falaj.datasets.operations.writing import Mode, OpenWrite
from tests.app.conftest import MakePlatform
from tests.app.effects import come_back
from tests.app.mortal import MortalPlatform

ROWS, PIECES = 500, 4
BEFORE = ROWS  # one piece
AFTER: dict[Mode, int] = {"append": BEFORE + PIECES * ROWS, "overwrite": PIECES * ROWS, "merge": PIECES * ROWS}


def piece(number: int) -> PieceToSend:
    """The first has the keys that are there already."""
    rows = "".join(f"{(number - 1) * ROWS + row},{number}\n" for row in range(ROWS))
    return PieceToSend(number=number, content=f"id,piece\n{rows}".encode())


def pieces() -> Iterator[PieceToSend]:
    return (piece(number) for number in range(1, PIECES + 1))


def opening(mode: Mode, key: str) -> OpenWrite:
    keys = ("id",) if mode == "merge" else ()
    return OpenWrite(project="default", dataset="flights", mode=mode, keys=keys, create=True, key=key)


def counted(platform: MortalPlatform) -> tuple[int, ...]:
    sql = "SELECT count(*), count(DISTINCT id) FROM flights"
    return tuple(platform.call(QUERY, Query(project="default", sql=sql)).rows[0])


def write_and_kill(platform: MortalPlatform, mode: Mode, after: int) -> None:
    """Killed when so many pieces are there; after the last of them, somewhere in the commit."""
    arrived = 0

    def watching(_piece: PieceToSend, _known: bool) -> None:
        nonlocal arrived
        arrived += 1
        if arrived == after < PIECES:
            platform.kill()
        elif arrived == after:
            threading.Timer(random.uniform(0, 0.15), platform.kill).start()

    with platform.client() as client, suppress(Unavailable):  # it may be committed before the kill comes
        dataset_writes.write(client, opening(mode, "killed"), pieces(), watching=watching)
    platform.wait_until_dead()


@pytest.mark.parametrize("mode", AFTER)
def test_a_platform_that_is_killed_in_a_write_has_the_version_before_or_the_whole_new_one(
    mode: Mode, make_platform: MakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_writes, "ATTEMPTS", 1)
    platform = make_platform().start()
    with platform.client() as client:
        dataset_writes.write(client, opening("append", "first"), [piece(1)])
    for after in (2, PIECES):
        write_and_kill(platform, mode, after)
        come_back(platform)
        assert counted(platform) in ((BEFORE, ROWS), (AFTER[mode], PIECES * ROWS))
    with platform.client() as client:
        written = dataset_writes.write(client, opening(mode, "killed"), pieces())
    assert written.version.version == 2
    assert written.again or written.skipped >= 2
    assert counted(platform) == (AFTER[mode], PIECES * ROWS)


def test_a_platform_that_is_killed_while_it_checks_a_write_has_it_in_quarantine_or_not_at_all(
    make_platform: MakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_writes, "ATTEMPTS", 1)
    platform = make_platform().start()
    with platform.client() as client:
        dataset_writes.write(client, opening("append", "first"), [piece(1)])
    rule = Check(name="one-piece", kind="range", columns=("piece",), most=1)
    platform.call(SET_CHECKS, SetChecks(project="default", dataset="flights", checks=(rule,)))
    write_and_kill(platform, "append", PIECES)
    come_back(platform)
    for _ in range(2):
        with platform.client() as client:
            version = dataset_writes.write(client, opening("append", "killed"), pieces()).version
        assert (version.version, version.quarantined, version.rows) == (2, True, AFTER["append"])
        assert [found.rows for found in version.findings] == [(PIECES - 1) * ROWS]
        assert counted(platform) == (BEFORE, ROWS)
        assert platform.call(SHOW_DATASET, OneDataset(project="default", dataset="flights")).current == 1
