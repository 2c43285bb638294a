"""A plane as a whole, with real workers, under a control plane that says what it is told to say."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from falaj.app.planes import listen_for_predictions
from falaj.base.clock import Moment, SystemClock
from falaj.base.errors import FalajError, TooLarge
from falaj.serving.operations.planes import CallReport, Report, SignedState
from falaj.serving.plane import supervisor as supervisors
from falaj.serving.plane.channel import Did
from falaj.serving.plane.joining import Join, write_join
from falaj.serving.plane.places import PlaneHome
from falaj.serving.plane.supervisor import PlaneSettings, Supervisor, held, is_held
from falaj.serving.states import State
from tests.serving.graphs import times
from tests.serving.plane.test_following import Control, Signer, signed, state_of

PATIENCE = 90.0
MODEL = times(1.0)


class Platform(Control):
    """Keeps the reports, and fails as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.signer = Signer("a" * 32)
        self.content = MODEL
        self.reports: list[Report] = []
        self.fault: Exception | None = None

    def publish(self, serial: int, **changed: object) -> State:
        state = state_of(serial, content=MODEL)
        state = replace(state, endpoints=tuple(replace(one, **changed) for one in state.endpoints))  # type: ignore[arg-type]
        self.newest = signed(state, self.signer)
        return state

    def state(self, after: int) -> SignedState:
        self._fail()
        return super().state(after)

    def report(self, report: Report) -> None:
        self._fail()
        self.reports.append(report)

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault

    async def told(self, what: Callable[[Report], object]) -> Report:
        """The first report from now on of which this is true."""
        seen = len(self.reports)
        async with asyncio.timeout(PATIENCE):
            while True:
                for report in self.reports[seen:]:
                    if what(report):
                        return report
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running(folder: Path, platform: Platform, **settings: object) -> AsyncIterator[Supervisor]:
    home = PlaneHome(path=folder / "plane", keys=folder / "plane.keys")
    home.prepare()
    keys = {platform.signer.id: platform.signer.public.hex()}
    join = Join(name="p", zone="home", url="http://127.0.0.1:1", token="", keys=keys)
    write_join(home.join, join)
    listener = listen_for_predictions(str(settings.pop("host", "127.0.0.1")), 0)
    chosen = PlaneSettings(**({"least_workers": 1, "most_workers": 1} | settings))  # type: ignore[arg-type]
    plane = Supervisor(home, join, chosen, platform, listener, SystemClock())
    with patch.object(supervisors, "_REPORTS", 0.5):
        task = asyncio.create_task(plane.run(lambda url: None))
        try:
            yield plane
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def workers(plane: Supervisor) -> list[int]:
    return [worker.process.pid for worker in plane._crew.present()]


def test_reporting_ends_when_it_is_told_to_also_at_the_moment_of_news(tmp_path):
    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform) as plane:
            await platform.told(lambda report: report.serial == 1)
            for turns in range(6):
                reporting = asyncio.create_task(plane._report())
                await asyncio.sleep(0)
                plane._news.set()
                for _ in range(turns):
                    await asyncio.sleep(0)
                reporting.cancel()
                done, _ = await asyncio.wait([reporting], timeout=PATIENCE)
                assert done

    asyncio.run(play())


def test_a_fault_that_nobody_expected_does_not_end_following_and_reporting(tmp_path):
    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform):
            await platform.told(lambda report: report.serial == 1 and report.revisions[0].ready)
            for fault in (RuntimeError("odd"), OSError("odd"), FalajError("odd")):
                platform.fault = fault
                await asyncio.sleep(1.5)
                platform.fault = None
                serial = platform.publish(platform.newest.serial + 1).serial
                await platform.told(lambda report, serial=serial: report.serial == serial)

    asyncio.run(play())


def test_a_report_that_cannot_be_taken_does_not_hold_up_the_next(tmp_path):
    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform):
            first = await platform.told(lambda report: report.serial == 1)
            taken, refused, loop = platform.report, asyncio.Event(), asyncio.get_running_loop()

            def refuse(report):
                loop.call_soon_threadsafe(refused.set)
                raise TooLarge("too large")

            platform.report = refuse
            await refused.wait()
            platform.report = taken
            assert (await platform.told(lambda report: True)).number > first.number + 1

    asyncio.run(play())


def test_logged_calls_that_no_report_has_room_for_follow_at_once_in_their_order(tmp_path):
    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform) as plane:
            await platform.told(lambda report: report.serial == 1)
            calls = [call(number) for number in range(3000)]
            plane._did(Did(revisions=(), calls=tuple(calls), problems={}, connections=0))
            await platform.told(lambda report: any(one.id == "2999" for one in report.calls))
        told = [one.id for report in platform.reports for one in report.calls]
        assert told == [one.id for one in calls]
        assert max(len(report.calls) for report in platform.reports) < 500

    def call(number: int) -> CallReport:
        return CallReport(
            endpoint="e", revision=1, id=str(number), at=Moment(1), caller="", status="ok", ms=1.0, inputs="{}", outputs="{}"
        )

    asyncio.run(play())


def test_while_a_new_state_is_on_its_way_what_answered_before_is_ready_still(tmp_path):
    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform, hang_seconds=60.0) as plane:
            await platform.told(lambda report: report.serial == 1 and report.revisions[0].ready)
            (worker,) = workers(plane)
            os.kill(worker, signal.SIGSTOP)  # as if it loaded a large model
            platform.publish(2)
            await asyncio.sleep(1.0)
            late = await platform.told(lambda report: True)
            assert (late.serial, late.revisions[0].ready) == (1, True)
            os.kill(worker, signal.SIGCONT)
            await platform.told(lambda report: report.serial == 2 and report.revisions[0].ready)

    asyncio.run(play())


def test_a_worker_that_died_without_a_model_at_work_is_told_of(tmp_path):
    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform) as plane:
            await platform.told(lambda report: report.serial == 1)
            os.kill(workers(plane)[0], signal.SIGKILL)
            report = await platform.told(lambda report: report.problems and report.serial == 1)
            assert report.problems == ("A worker was ended by SIGKILL.",)
            assert report.revisions[0].problem == ""

    asyncio.run(play())


def test_a_worker_that_grows_beyond_its_memory_is_replaced_and_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisors, "_DECIDES", 0.5)
    monkeypatch.setattr(supervisors, "_SETTLED", 0.0)

    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform) as plane:
            await platform.told(lambda report: report.serial == 1 and report.revisions[0].ready)
            (leaking,) = workers(plane)
            plane._memory = 1 << 20  # less than any worker has
            report = await platform.told(lambda report: report.problems)
            assert report.problems[0] == "A worker grew beyond 1 MiB of memory and was replaced; does a model leak?"
            async with asyncio.timeout(PATIENCE):
                while leaking in workers(plane):  # noqa: ASYNC110 - the operating system tells nobody
                    await asyncio.sleep(0.02)

    asyncio.run(play())


def test_a_plane_that_listens_everywhere_names_the_address_by_which_it_reaches_its_platform(tmp_path):
    async def play():
        platform = Platform()
        platform.publish(1)
        async with running(tmp_path, platform, host="0.0.0.0"):
            told = await platform.told(lambda report: True)
            assert told.url.startswith("http://127.0.0.1:")

    asyncio.run(play())


def test_a_plane_that_was_killed_leaves_no_process_id_for_the_next(tmp_path):
    home = PlaneHome(path=tmp_path / "plane", keys=tmp_path / "keys")
    home.prepare()
    home.running.write_text('{"pid": 1, "url": "http://127.0.0.1:1"}')
    with held(home):
        assert is_held(home)
        assert not home.running.exists()
    assert not is_held(home)
