"""Loading and unloading on purpose: all workers of a host do it, those that are born later too, for as long as was said."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import tritonclient.grpc.aio

from falaj.base.clock import HOUR, Moment, SystemClock
from falaj.serving.plane import crew as crews
from falaj.serving.plane import scaling
from falaj.serving.plane import supervisor as supervisors
from falaj.serving.plane.supervisor import Supervisor
from falaj.serving.states import Arm, State
from falaj.serving.tokens import Claims, issue
from tests.serving.graphs import layers
from tests.serving.plane.core.worker import Signer as TokenSigner
from tests.serving.plane.test_crew import PATIENCE, clients_of, until
from tests.serving.plane.test_following import signed, state_of
from tests.serving.plane.test_supervisor import MODEL, Platform, running, workers
from tests.serving.site import body

INFER, INDEX = "/v2/models/e/infer", "/v2/repository/index"
UNLOAD, LOAD = "/v2/repository/models/e/unload", "/v2/repository/models/e/load"


class Managed(Platform):
    """A platform whose endpoint may be asked and managed with its tokens."""

    def __init__(self, content: bytes = MODEL) -> None:
        super().__init__()
        self.content, self.tokens = content, TokenSigner()

    def publish(self, serial: int, **changed: object) -> State:
        state = replace(state_of(serial, content=self.content), token_keys={self.tokens.key_id: self.tokens.public})
        state = replace(state, endpoints=tuple(replace(one, **changed) for one in state.endpoints))  # type: ignore[arg-type]
        self.newest = signed(state, self.signer)
        return state

    def token(self, *, manage: bool = False) -> str:
        now = SystemClock().now()
        claims = Claims(
            principal="1" * 32,
            id="2" * 32,
            project="3" * 32,
            endpoints=frozenset(),
            manage=manage,
            not_before=now,
            expires=Moment(now + HOUR),
        )
        return issue(self.tokens, claims, issuer="falaj", now=now)


@asynccontextmanager
async def asked(plane: Supervisor, platform: Managed) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Connected clients that may manage, as many as it takes for every worker to have one."""
    clients: list[httpx.AsyncClient] = []
    headers = {"authorization": f"Bearer {platform.token(manage=True)}"}
    try:
        async with asyncio.timeout(PATIENCE):
            while not clients or any(clients_of(one) < 1 for one in workers(plane)):
                clients.append(httpx.AsyncClient(base_url=plane._url, headers=headers, trust_env=False, timeout=30))
                assert (await clients[-1].get("/v2/health/live")).status_code == 200
        yield clients
    finally:
        for client in clients:
            await client.aclose()


async def statuses(clients: list[httpx.AsyncClient]) -> set[int]:
    return {(await client.post(INFER, json=body())).status_code for client in clients}


async def states(clients: list[httpx.AsyncClient]) -> set[str]:
    return {entry["state"] for client in clients for entry in (await client.post(INDEX)).json()}


async def put_out(clients: list[httpx.AsyncClient]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await states(clients) != {"UNAVAILABLE"}:  # noqa: ASYNC110 - a worker tells nobody
            await asyncio.sleep(0.05)


async def served_by(plane: Supervisor, count: int) -> None:
    await until(lambda: len([one for one in plane._crew.present() if one.serial is not None]) == count)


def test_an_unload_is_over_when_every_worker_has_done_it_and_lasts_until_a_load(tmp_path):
    async def play():
        platform = Managed()
        platform.publish(1)
        async with running(tmp_path, platform, least_workers=2, most_workers=2) as plane:
            await platform.told(lambda report: report.serial == 1 and report.workers == 2)
            await served_by(plane, 2)
            async with asked(plane, platform) as clients:
                assert await statuses(clients) == {200}
                assert (await clients[0].post(UNLOAD)).status_code == 200
                assert await states(clients) == {"UNAVAILABLE"}
                refused = await clients[-1].post(INFER, json=body())
                assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
                assert "was unloaded here" in refused.json()["error"]
                assert await statuses(clients) == {503}
                told = await platform.told(lambda report: not report.revisions[0].ready)
                assert "until somebody loads it" in told.revisions[0].problem
                assert (await clients[-1].post(LOAD)).status_code == 200
                assert await states(clients) == {"READY"}
                assert await statuses(clients) == {200}
                await platform.told(lambda report: report.revisions[0].ready)

    asyncio.run(play())


def test_workers_that_are_born_later_hold_to_it_and_so_does_the_plane_after_a_restart(tmp_path):
    async def play():
        platform = Managed()
        platform.publish(1)
        async with running(tmp_path, platform) as plane:
            await platform.told(lambda report: report.serial == 1)
            await served_by(plane, 1)
            address = plane._url.removeprefix("http://")
            async with tritonclient.grpc.aio.InferenceServerClient(address) as client:
                headers = {"authorization": f"Bearer {platform.token(manage=True)}"}
                await client.unload_model("e", headers=headers)
                assert not await client.is_model_ready("e", headers=headers)
            (before,) = workers(plane)
            os.kill(before, signal.SIGKILL)
            await until(lambda: workers(plane) not in ([], [before]))
            await served_by(plane, 1)
            async with asked(plane, platform) as clients:
                assert await statuses(clients) == {503}
        async with running(tmp_path, platform) as plane:
            await served_by(plane, 1)
            async with asked(plane, platform) as clients:
                assert await statuses(clients) == {503}
                assert (await clients[0].post(LOAD)).status_code == 200
                assert await statuses(clients) == {200}

    asyncio.run(play())


def test_an_unload_ends_when_another_revision_gets_a_part_and_not_when_an_option_changes(tmp_path):
    async def play():
        platform = Managed()
        state = platform.publish(1)
        async with running(tmp_path, platform) as plane:
            await platform.told(lambda report: report.serial == 1)
            await served_by(plane, 1)
            async with asked(plane, platform) as clients:
                await clients[0].post(UNLOAD)
                platform.publish(2, latency_ms=50)
                await platform.told(lambda report: report.serial == 2)
                assert await statuses(clients) == {503}
                first = state.endpoints[0].revisions[0]
                second = replace(first, id="9" * 32, number=2)
                platform.publish(3, revisions=(first, second), arms=(Arm(revision=2, share=10_000),))
                await platform.told(lambda report: report.serial == 3 and all(one.ready for one in report.revisions))
                assert await statuses(clients) == {200}

    asyncio.run(play())


def test_a_worker_that_does_not_come_round_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(crews, "SETS_WITHIN", 1.0)

    async def play():
        platform = Managed()
        platform.publish(1)
        async with running(tmp_path, platform, least_workers=2, most_workers=2, hang_seconds=60.0) as plane:
            await platform.told(lambda report: report.serial == 1 and report.workers == 2)
            await served_by(plane, 2)
            async with asked(plane, platform) as clients:
                stuck = workers(plane)[0]
                os.kill(stuck, signal.SIGSTOP)
                try:
                    answers = await asyncio.gather(*(_managed(client, UNLOAD) for client in clients))
                    (slow,) = {(one.status_code, one.json()["error"]) for one in answers if one is not None}
                    assert slow == (503, "1 of 2 workers have not unloaded it within 1 seconds, and go on with it.")
                finally:
                    os.kill(stuck, signal.SIGCONT)
                await put_out(clients)

    asyncio.run(play())


async def _managed(client: httpx.AsyncClient, path: str) -> httpx.Response | None:
    """None of the worker that stands still."""
    try:
        return await client.post(path, timeout=3)
    except httpx.ReadTimeout:
        return None


def test_an_idle_model_leaves_memory_and_the_time_to_have_it_back_is_measured_and_shown(tmp_path):
    async def play():
        platform = Managed(layers(4))
        platform.publish(1, idle_seconds=1)
        async with running(tmp_path, platform) as plane:
            first = await platform.told(lambda report: report.serial == 1 and report.revisions[0].cold_start_ms)
            await served_by(plane, 1)
            (worker,) = plane._crew.present()
            async with asked(plane, platform) as clients:
                assert await statuses(clients) == {200}
                full = worker.memory_bytes()
                await put_out(clients)
                await until(lambda: full - worker.memory_bytes() > 48 << 20)
                telling = asyncio.create_task(platform.told(lambda report: report.revisions[0].cold_start_ms))
                assert await statuses(clients) == {200}
                again = await telling
                assert again.number > first.number
                shown = (await clients[0].get("/metrics")).text
                assert "falaj_serving_cold_start_seconds{" in shown

    asyncio.run(play())


def test_calls_under_way_beyond_what_a_worker_should_have_bring_more_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisors, "_DECIDES", 0.5)
    monkeypatch.setattr(scaling, "BUSY", 100.0)  # it is not for the cores that are used

    async def play():
        platform = Managed(layers(4))
        platform.publish(1, latency_ms=60_000)
        settings = {"least_workers": 1, "most_workers": 2, "calls_per_worker": 2}
        async with running(tmp_path, platform, **settings) as plane:
            await platform.told(lambda report: report.serial == 1)
            await served_by(plane, 1)
            headers, ending = {"authorization": f"Bearer {platform.token()}"}, asyncio.Event()
            said: set[int] = set()

            async def ask():
                async with httpx.AsyncClient(base_url=plane._url, headers=headers, trust_env=False, timeout=30) as client:
                    while not ending.is_set():
                        said.add((await client.post(INFER, json=body())).status_code)

            asking = [asyncio.create_task(ask()) for _ in range(12)]
            await served_by(plane, 2)
            ending.set()
            await asyncio.gather(*asking)
            assert said == {200}

    asyncio.run(play())
