"""Watching in real workers: what is asked over HTTP is told in the plane's reports, row by row, whoever is killed meanwhile."""

import asyncio
import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

from falaj.app.serving_plane import TAPS
from falaj.serving.operations.planes import Report, WatchReport
from falaj.serving.states import State, Watch, WatchedColumn
from tests.serving.plane.test_following import signed
from tests.serving.plane.test_loading import INFER, Managed, asked, served_by
from tests.serving.plane.test_supervisor import running, workers
from tests.serving.site import body

FIRST = WatchedColumn(name="x[0]", edges=(9.5, 19.5, 29.5))
LEARNT = WatchedColumn(name="x[1]")
ANSWER = WatchedColumn(name="y[0]", edges=(100.0,))
PATIENCE = 90.0
DAY = 86_400


class Watched(Managed):
    """A platform that has its one revision watched, and keeps what was seen."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self.seen: list[WatchReport] = []

    def publish(self, serial: int, **changed: object) -> State:
        state = super().publish(serial, **changed)
        (endpoint,) = state.endpoints
        revisions = tuple(replace(one, watch=self.watch) for one in endpoint.revisions)
        state = replace(state, endpoints=(replace(endpoint, revisions=revisions),))
        self.newest = signed(state, self.signer)
        return state

    def report(self, report: Report) -> None:
        super().report(report)
        self.seen += report.watched

    async def saw(self, rows: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while sum(one.rows for one in self.seen) < rows:  # noqa: ASYNC110 - reports come in another thread
                await asyncio.sleep(0.05)


def counted(seen: list[WatchReport], name: str) -> tuple[int, ...]:
    """All reports together."""
    found: Counter[int] = Counter()
    for report in seen:
        for column in report.columns:
            found.update({place: count for place, count in enumerate(column.counts) if column.name == name})
    return tuple(found[place] for place in range(max(found, default=-1) + 1))


def test_what_is_asked_of_any_worker_is_counted_once_and_told_also_at_the_end(tmp_path: Path) -> None:
    async def play() -> None:
        platform = Watched(Watch(key="k", seconds=DAY, columns=(FIRST, LEARNT), outputs=(ANSWER,), sample=10))
        platform.publish(1)
        async with running(tmp_path, platform, least_workers=2, most_workers=2, taps=TAPS) as plane:
            await platform.told(lambda report: report.serial == 1 and report.workers == 2)
            await served_by(plane, 2)
            async with asked(plane, platform) as clients:
                for number in range(100):
                    answer = await clients[number % len(clients)].post(INFER, json=body(number % 40, number, 0, 0))
                    assert answer.status_code == 200
                await platform.saw(100)
                assert counted(platform.seen, "x[0]") == (30, 30, 20, 20, 0)
                (await clients[0].post(INFER, json=body(*[500.0] * 8))).raise_for_status()
        assert counted(platform.seen, "x[0]") == (30, 30, 20, 22, 0)
        assert counted(platform.seen, "y[0]") == (100, 2, 0)
        assert sum(one.missed for one in platform.seen) == 0
        assert {(one.endpoint, one.revision, one.plan, one.seconds) for one in platform.seen} == {("2" * 32, 1, "k", DAY)}
        assert {sketch.name for one in platform.seen for sketch in one.sketches} == {"x[1]"}
        rows = sorted((row.draw, json.loads(row.row)) for one in platform.seen for row in one.sampled)
        assert len(rows) in range(10, 21)  # of each worker
        assert all(first == answer for _, (first, _, answer) in rows)

    asyncio.run(play())


def test_a_worker_that_is_killed_loses_what_it_counted_lately_and_nothing_else(tmp_path: Path) -> None:
    async def play() -> None:
        platform = Watched(Watch(key="k", seconds=3600, columns=(FIRST,), outputs=(ANSWER,)))
        platform.publish(1)
        async with running(tmp_path, platform, taps=TAPS) as plane:
            await platform.told(lambda report: report.serial == 1)
            await served_by(plane, 1)
            async with asked(plane, platform) as clients:
                for number in range(20):
                    (await clients[0].post(INFER, json=body(number, 0, 0, 0))).raise_for_status()
                await platform.saw(20)
                (worker,) = workers(plane)
            os.kill(worker, signal.SIGKILL)
            await platform.told(lambda report: worker not in workers(plane) and workers(plane))
            await served_by(plane, 1)
            async with asked(plane, platform) as clients:
                (await clients[0].post(INFER, json=body(35, 0, 0, 0))).raise_for_status()
        assert counted(platform.seen, "x[0]") == (10, 10, 0, 1, 0)

    asyncio.run(play())
