"""Logged calls are kept by age and by size, however many reports brought them, and lie in few blobs."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import Unavailable
from falaj.base.ids import new_id
from falaj.serving import log_keeping
from falaj.serving.log_keeping import LogKeeping
from falaj.serving.logs import LOG
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations.endpoints import Endpoint, LoggedCall
from falaj.serving.store.tables import logs
from falaj.storage.operations import BLOB_SHRED, OneBlob
from falaj.storage.service import BlobService
from falaj.storage.store import references
from tests.serving.control.platform import PROJECT, Plane, Platform, called


def steady(platform: Platform, plane: Plane, endpoint: Endpoint, reports: int, start: int = 0) -> list[str]:
    """Reports with two calls each, five seconds apart; the calls' ids, newest first."""
    ids = []
    for number in range(start, start + reports):
        two = [f"{number}-{place}" for place in range(2)]
        plane.report(calls=[called(endpoint, id, Moment(platform.clock.now() + at)) for at, id in enumerate(two)])
        platform.clock.forward(5 * SECOND)
        ids += two
    return ids[::-1]


def read(platform: Platform, limit: int = 7) -> list[LoggedCall]:
    """All of them, page by page."""
    seen, cursor = list[LoggedCall](), ""
    while True:
        request = declared.ReadLogs(project=PROJECT, endpoint="scores", limit=limit, cursor=cursor)
        page = platform.call(declared.READ_LOGS, request)
        seen += page.items
        if not (cursor := page.next):
            return seen


def blobs(platform: Platform) -> list[str]:
    """Those that are kept for logged calls."""
    kept = select(references.c.blob).where(references.c.kind == LOG)
    return list(platform.app.database.read(lambda work: work.execute(kept).scalars().all()))


def rows(platform: Platform) -> int:
    count = select(func.count()).select_from(logs)
    return int(platform.app.database.read(lambda work: work.execute(count).scalar_one()))


def clean(platform: Platform) -> None:
    while platform.app.serving.clean(platform.clock.now()):
        pass


def after_the_hour(platform: Platform) -> None:
    platform.clock.forward(HOUR + 6 * MINUTE)
    clean(platform)


def test_calls_are_kept_for_their_time_however_many_reports_brought_them(small: Platform) -> None:
    endpoint, plane = small.deployed(), small.plane()
    plane.report(calls=[called(endpoint, "first", small.clock.now())])
    (first,) = small.app.database.read(lambda work: work.execute(select(logs)).all())
    more = [{**first._mapping, "id": (id := new_id(small.clock.now())), "holder": id, "settled": True} for _ in range(6000)]
    small.app.database.write(lambda work: work.execute(insert(logs), more))
    small.clock.forward(29 * DAY)
    plane.report(calls=[called(endpoint, "last", small.clock.now())])
    clean(small)
    assert rows(small) == 6002
    small.clock.forward(DAY + HOUR)
    clean(small)
    assert [one.id for one in read(small)] == ["last"]


def test_batches_of_an_hour_lie_together_and_are_read_as_before(platform: Platform) -> None:
    endpoint, plane = platform.deployed(), platform.plane()
    ids = steady(platform, plane, endpoint, 12)
    before = read(platform)
    assert ([one.id for one in before], len(blobs(platform))) == (ids, 12)
    clean(platform)
    assert len(blobs(platform)) == 12  # the hour is not over
    after_the_hour(platform)
    assert len(blobs(platform)) == 1
    assert read(platform) == before
    assert read(platform, limit=1) == before
    ids = [*steady(platform, plane, endpoint, 3, start=12), *ids]
    assert [one.id for one in read(platform)] == ids
    after_the_hour(platform)
    assert ([one.id for one in read(platform)], len(blobs(platform))) == (ids, 2)
    clean(platform)
    assert len(blobs(platform)) == 2
    platform.call(declared.DELETE_ENDPOINT, declared.OneEndpoint(project=PROJECT, endpoint="scores"))
    assert (blobs(platform), rows(platform)) == ([], 0)


def test_hours_of_many_batches_are_gone_through_piece_by_piece(small: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_keeping, "BATCHES_AT_ONCE", 5)
    endpoint, plane = small.deployed(), small.plane()
    ids = steady(small, plane, endpoint, 12)
    small.clock.forward(HOUR + 6 * MINUTE)
    assert small.app.serving._log_keeping.step(small.clock.now())
    assert len(blobs(small)) == 8
    clean(small)
    assert len(blobs(small)) == 3
    assert [one.id for one in read(small)] == ids


def test_a_blob_is_no_larger_than_a_label_is_to_read(small: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_keeping, "LARGEST", 1000)
    endpoint, plane = small.deployed(), small.plane()
    ids = steady(small, plane, endpoint, 12)
    after_the_hour(small)
    sizes = small.app.database.read(
        lambda work: work.execute(select(func.sum(logs.c.size)).group_by(logs.c.blob)).scalars().all()
    )
    assert 3 < len(sizes) < 8
    assert max(sizes) <= 1000
    assert [one.id for one in read(small)] == ids


def test_of_more_bytes_than_are_kept_the_oldest_go(small: Platform) -> None:
    endpoint, plane = small.deployed(), small.plane()
    ids = steady(small, plane, endpoint, 10)
    whole = small.app.database.read(lambda work: work.execute(select(func.sum(logs.c.size))).scalar_one())
    service = BlobService
    assert isinstance(small.app.serving._log_keeping._blobs, service)
    keeping = LogKeeping(small.app.database, small.app.serving._log_keeping._blobs, kept=DAY, most=whole * 55 // 100)
    while keeping.step(small.clock.now()):
        pass
    assert [one.id for one in read(small)] == ids[:10]
    assert len(blobs(small)) == 5


def test_whoever_is_killed_while_calls_are_put_together_loses_none_and_none_is_there_twice(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, plane = platform.deployed(), platform.plane()
    ids = steady(platform, plane, endpoint, 5)

    def dies(*_: Any, **__: Any) -> None:
        raise Unavailable("The platform goes down.")

    with monkeypatch.context() as patch:
        patch.setattr(BlobService, "keep", dies)  # sealed, and the old ones are let go of, in a transaction that never ends
        after_the_hour(platform)
    assert ([one.id for one in read(platform)], len(blobs(platform))) == (ids, 5)
    clean(platform)
    assert ([one.id for one in read(platform)], len(blobs(platform))) == (ids, 1)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_was_shredded_does_not_come_back(small: Platform, monkeypatch: pytest.MonkeyPatch, meanwhile: bool) -> None:
    endpoint, plane = small.deployed(), small.plane()
    ids = steady(small, plane, endpoint, 4)
    third = small.app.database.read(lambda work: work.execute(select(logs.c.blob).order_by(logs.c.id)).scalars().all())[2]

    def shred() -> None:
        small.call(BLOB_SHRED, OneBlob(project=PROJECT, blob=third))

    if meanwhile:
        receive = BlobService.receive
        once: list[Callable[[], None]] = [shred]

        def received(*given: Any) -> Any:
            if once:
                once.pop()()
            return receive(*given)

        monkeypatch.setattr(BlobService, "receive", received)
    else:
        shred()
    after_the_hour(small)
    clean(small)
    assert [one.id for one in read(small)] == [id for id in ids if not id.startswith("2-")]
    assert len(blobs(small)) == 1
