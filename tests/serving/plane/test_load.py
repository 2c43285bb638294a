"""How busy a real plane says it is while it is called, and which of these calls it is judged by."""

import asyncio
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from falaj.serving.operations.loads import CardLoad
from falaj.serving.operations.planes import Report
from falaj.serving.plane import cards
from falaj.serving.plane import supervisor as supervisors
from tests.serving.graphs import layers
from tests.serving.plane.test_loading import INFER, Managed
from tests.serving.plane.test_supervisor import running
from tests.serving.site import body

SAID = (
    "GPU-a, 71, 250.10, 1024, 81920\nGPU-b, [N/A], 90.00, 0, 40960\n"  # as nvidia-smi does of a card, and of one that is cut up
)


def test_under_load_a_plane_tells_how_busy_it_is_and_how_much_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisors, "_DECIDES", 0.5)

    async def play():
        platform = Managed(layers(3))
        platform.publish(1, latency_ms=60_000)
        async with running(tmp_path, platform) as plane:
            quiet = await platform.told(lambda report: report.serial == 1 and report.revisions[0].ready)
            assert (quiet.load.calls, quiet.load.rows) == (0, 0)
            headers = {"authorization": f"Bearer {platform.token()}"}
            async with httpx.AsyncClient(base_url=plane._url, headers=headers, trust_env=False, timeout=90) as client:
                asking = [asyncio.create_task(ask_again_and_again(client)) for _ in range(8)]
                told = await platform.told(lambda report: report.load.busy and report.load.rows)
                shown = await busy_figures(client)
                for task in asking:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
            assert told.load.busy > 0
            assert 0 < told.load.calls <= 8
            assert 0 < told.load.rows <= 8 * 16
            assert shown["falaj_plane_calls_in_hand"][0].value > 0
            (waiting,) = shown["falaj_serving_rows_waiting"]
            assert waiting.labels == {"project": "p", "endpoint": "e", "revision": "1"}
            assert waiting.value == shown["falaj_plane_rows_waiting"][0].value > 0
            await platform.told(lambda report: (report.load.calls, report.load.rows) == (0, 0))

    asyncio.run(play())


async def busy_figures(client: httpx.AsyncClient) -> dict[str, list[Sample]]:
    """As they are at a moment in which something waits: between two batches there may be none."""
    async with asyncio.timeout(60):
        while True:
            families = list(text_string_to_metric_families((await client.get("/metrics")).text))
            shown = {family.name: family.samples for family in families}
            if shown["falaj_plane_busy_share"][0].value and shown["falaj_plane_rows_waiting"][0].value:
                return shown


async def ask_again_and_again(client: httpx.AsyncClient) -> None:
    while True:
        assert (await client.post(INFER, json=body(*map(float, range(4 * 16))))).status_code == 200


def test_gpus_are_told_of_where_the_driver_says_something(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<END\n{SAID}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(cards, "_DRIVER", program)

    async def play():
        platform = Managed()
        platform.publish(1)
        async with running(tmp_path, platform):
            told = await platform.told(lambda report: report.load.cards)
            assert told.load.cards == (
                CardLoad(busy=0.71, memory_mib=81_920, memory_used_mib=1024),
                CardLoad(busy=None, memory_mib=40_960, memory_used_mib=0),
            )

    asyncio.run(play())


def test_where_there_is_no_driver_nothing_is_said_of_gpus(monkeypatch):
    monkeypatch.setattr(cards, "_DRIVER", Path("/nowhere/nvidiactl"))
    nothing = cards.Cards()
    assert nothing.loads() == ()
    nothing.close()


def test_a_real_plane_reports_calls_apart_whose_caller_chose_the_revision(tmp_path):
    async def play():
        platform = Managed()
        platform.publish(1)
        async with running(tmp_path, platform) as plane:
            await platform.told(lambda report: report.serial == 1 and report.revisions[0].ready)
            headers = {"authorization": f"Bearer {platform.token()}"}
            async with httpx.AsyncClient(base_url=plane._url, headers=headers, trust_env=False, timeout=90) as client:
                for _ in range(5):
                    assert (await client.post(INFER, json=body())).status_code == 200
                for _ in range(2):
                    named = await client.post(INFER, json=body(), headers={"x-falaj-revision": "1"})
                    by_version = await client.post("/v2/models/e/versions/1/infer", json=body())
                    assert (named.status_code, by_version.status_code) == (200, 200)
                text = (await client.get("/metrics")).text
            assert 'falaj_serving_requests_total{project="p",endpoint="e",revision="1"} 9\n' in text
            assert 'falaj_serving_pinned_total{project="p",endpoint="e",revision="1"} 4\n' in text
            async with asyncio.timeout(60):
                while counted(platform.reports) != (5, 4):  # noqa: ASYNC110 - reports are only kept
                    await asyncio.sleep(0.05)

    asyncio.run(play())


def counted(reports: list[Report]) -> tuple[int, int]:
    """Calls that the split gave, and the others."""
    did = [one for report in reports for one in report.revisions]
    return sum(one.requests for one in did), sum(one.pinned.requests for one in did if one.pinned is not None)
