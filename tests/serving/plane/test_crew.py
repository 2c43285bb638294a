"""Workers as processes: born, killed, replaced, let go, while somebody asks."""

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import httpx
import psutil
import tritonclient.grpc.aio

from falaj.app.certificates import self_signed
from falaj.app.planes import listen_for_predictions
from falaj.base.errors import Conflict
from falaj.keys.sealing import new_key
from falaj.serving.plane.channel import Adopt, Setup
from falaj.serving.plane.crew import Crew
from falaj.serving.states import FORMAT, State, encode

PATIENCE = 90.0


def state(serial: int) -> Adopt:
    return Adopt(
        body=encode(State(format=FORMAT, serial=serial, issued=serial, issuer="", zone="z", endpoints=(), token_keys={}))
    )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.01)


class Host:
    """A crew over a free port. Its metrics are a new number each time somebody asks for them."""

    def __init__(self, folder: Path, files: tuple[Path, Path] | None = None) -> None:
        self.listener = listen_for_predictions("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        numbers = count()
        for name in ("models", "answers"):
            (folder / name).mkdir()
        self.crew = Crew(
            self.listener,
            Setup(
                key=new_key(),
                models=str(folder / "models"),
                answers=str(folder / "answers"),
                certificate=str(files[0]) if files else "",
                private_key=str(files[1]) if files else "",
                body_bytes=1 << 20,
                memory_bytes=0,
                threads=1,
            ),
            hangs_after=10,
            numbers=dict,
            on_broken=lambda revision, why: None,
            on_did=lambda did: None,
            on_adopted=lambda: None,
            figures=lambda project, only: f"{next(numbers)}\n",
            on_wish=lambda endpoint, loaded: asyncio.sleep(0, ""),
        )

    def processes(self) -> list[int]:
        return [worker.process.pid for worker in self.crew.present()]

    async def served_by(self, workers: int) -> None:
        await until(lambda: len([one for one in self.crew.present() if one.serial is not None]) == workers)


@asynccontextmanager
async def hosted(folder: Path, workers: int, files: tuple[Path, Path] | None = None) -> AsyncIterator[Host]:
    host = Host(folder, files)
    host.crew.adopt(state(1))
    await host.crew.grow(workers)
    try:
        await host.served_by(workers)
        yield host
    finally:
        await host.crew.end()
        host.listener.close()


def test_workers_that_die_in_one_moment_are_all_replaced_and_all_hear_the_news(tmp_path):
    async def play():
        async with hosted(tmp_path, 3) as host:
            for _ in range(3):
                before = host.processes()
                for process in before:
                    os.kill(process, signal.SIGKILL)
                await until(lambda before=before: not set(before) & set(host.processes()))
                await host.served_by(3)
            host.crew.adopt(state(2))
            await until(lambda: [one.serial for one in host.crew.present()] == [2, 2, 2])

    asyncio.run(play())


def test_a_worker_that_is_being_born_does_not_make_the_host_unready(tmp_path):
    async def play():
        async with hosted(tmp_path, 1) as host:
            await host.crew.grow(2)
            assert [one.serial for one in host.crew.present()] == [1, None]
            assert host.crew.served() == 1
            await host.served_by(2)

    asyncio.run(play())


def test_clients_that_do_not_end_tls_first_words_take_little_and_keep_nobody_out(tmp_path):
    files = self_signed(tmp_path / "certificate", ["localhost"])
    trusting = ssl.create_default_context(cafile=str(files[0]))

    async def play():
        async with hosted(tmp_path, 1, files) as host:
            (pid,) = host.processes()
            worker, port = psutil.Process(pid), host.listener.getsockname()[1]
            slow = []
            for number in range(1500):
                slow.append(socket.create_connection(("127.0.0.1", port)))
                slow[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" if number % 2 else b"")
            async with httpx.AsyncClient(base_url=f"https://localhost:{port}", verify=trusting, trust_env=False) as client:
                for _ in range(5):
                    assert (await client.get("/v2/health/live")).status_code == 200
            await until(lambda: worker.num_fds() < 600)
            for one in slow:
                one.close()

    asyncio.run(play())


def test_everybody_gets_the_metrics_that_they_asked_for(tmp_path):
    async def play():
        async with hosted(tmp_path, 1) as host, httpx.AsyncClient(base_url=host.url, trust_env=False) as client:
            refused = await client.get("/metrics", headers={"authorization": "Bearer nonsense"})
            assert refused.status_code == 401
            answers = await asyncio.gather(*(client.get("/metrics") for _ in range(20)))
            assert len({answer.text for answer in answers}) == 20

    asyncio.run(play())


def test_a_replaced_worker_goes_when_the_fresh_one_serves_and_nobody_is_refused(tmp_path):
    async def play():
        async with hosted(tmp_path, 1) as host, httpx.AsyncClient(base_url=host.url, trust_env=False) as client:
            old, statuses, ending = host.crew.present()[0], set(), asyncio.Event()

            async def ask():
                while not ending.is_set():
                    statuses.add((await client.get("/v2/health/ready")).status_code)

            asking = [asyncio.create_task(ask()) for _ in range(4)]
            await host.crew.replace(old)
            assert [one.serial for one in host.crew.present()] == [1]
            await until(lambda: old not in host.crew.workers.values())
            ending.set()
            await asyncio.gather(*asking)
            assert statuses == {200}

    asyncio.run(play())


def test_a_worker_more_gets_its_part_of_the_clients_that_are_connected_already_and_fails_none(tmp_path):
    async def play():
        async with hosted(tmp_path, 1) as host:
            statuses, ending = set(), asyncio.Event()

            async def ask():
                async with httpx.AsyncClient(base_url=host.url, trust_env=False) as client:
                    while not ending.is_set():
                        statuses.add((await client.get("/v2/health/ready")).status_code)
                        await asyncio.sleep(0.01)

            asking = [asyncio.create_task(ask()) for _ in range(12)]
            await asyncio.sleep(0.5)
            await host.crew.grow(2)
            await until(lambda: len(host.processes()) == 2 and all(clients_of(one) >= 2 for one in host.processes()))
            await host.crew.grow(1)
            await until(lambda: len(host.crew.workers) == 1)
            ending.set()
            await asyncio.gather(*asking)
            assert statuses == {200}

    asyncio.run(play())


def test_workers_come_and_go_without_a_failed_call_over_grpc(tmp_path):
    async def play():
        async with hosted(tmp_path, 1) as host:
            said, ending = set(), asyncio.Event()

            async def ask():
                async with tritonclient.grpc.aio.InferenceServerClient(host.url.removeprefix("http://")) as client:
                    while not ending.is_set():
                        said.add(await client.is_server_ready())

            asking = [asyncio.create_task(ask()) for _ in range(6)]
            for _ in range(2):
                await host.crew.grow(2)
                await host.served_by(2)
                await asyncio.sleep(0.5)
                await host.crew.replace(host.crew.present()[0])
                await host.crew.grow(1)
                await until(lambda: len(host.crew.workers) == 1)
            ending.set()
            await asyncio.gather(*asking)
            assert said == {True}

    asyncio.run(play())


def clients_of(process: int) -> int:
    return len([one for one in psutil.Process(process).net_connections("tcp") if one.status == psutil.CONN_ESTABLISHED])


def is_free(port: int) -> bool:
    try:
        listen_for_predictions("127.0.0.1", port).close()
    except Conflict:
        return False
    return True


def test_the_port_is_free_as_soon_as_the_plane_is_told_to_end(tmp_path):
    """Those who come late are refused at once and can go elsewhere; who restarts the plane finds its port."""

    async def play():
        async with hosted(tmp_path, 2) as host, httpx.AsyncClient(base_url=host.url, trust_env=False) as client:
            assert (await client.get("/v2/health/live")).status_code == 200  # and stays connected, which is waited for
            port = host.listener.getsockname()[1]
            host.listener.close()
            ending = asyncio.create_task(host.crew.end())
            await until(lambda: is_free(port))
            assert not ending.done()  # the one that is connected is still waited for
            await ending

    asyncio.run(play())
