"""Taps in a real worker process, named by whoever puts the plane together."""

import asyncio
import json

from tests.serving.plane.test_crew import PATIENCE
from tests.serving.plane.test_loading import INFER, Managed, asked, served_by
from tests.serving.plane.test_supervisor import running
from tests.serving.site import body

MAKERS = "tests.serving.plane.watching"


def test_a_tap_that_is_named_sees_every_batch_and_bad_ones_beside_it_harm_no_answer(tmp_path):
    names = ("Raising", "Sleeping", "Spinning", "Writing", "unmakeable", "not_there")

    async def play():
        platform = Managed()
        platform.publish(1)
        async with running(tmp_path, platform, taps=tuple(f"{MAKERS}:{name}" for name in names)) as plane:
            await platform.told(lambda report: report.serial == 1)
            await served_by(plane, 1)
            (worker,) = plane._crew.present()
            async with asked(plane, platform) as clients:
                for number in range(200):
                    answer = await clients[0].post(INFER, json=body(number, 0, 0, 0))
                    assert answer.json()["outputs"][0]["data"] == [number, 0, 0, 0]

                async def told(line: str) -> None:
                    async with asyncio.timeout(PATIENCE):
                        while line not in (await clients[0].get("/metrics")).text:  # noqa: ASYNC110 - taps tell nobody
                            await asyncio.sleep(0.1)

                await told('falaj_plane_tap_seen_total{tap="Writing"} 200\n')
                await told('falaj_plane_tap_failed_total{tap="Raising"} 1\n')
            file = tmp_path / f"plane/watched/{worker.process.pid}.jsonl"
            seen = [json.loads(line) for line in file.read_text().splitlines()]
            rows = sorted(row[0] for _, _, inputs, _ in seen for row in inputs[0])
            assert rows == list(range(200))
            assert {(endpoint, revision, inputs == outputs) for endpoint, revision, inputs, outputs in seen} == {
                ("2" * 32, 1, True)
            }
            assert worker in plane._crew.present()
        assert '"closed"' in file.read_text().splitlines()

    asyncio.run(play())
