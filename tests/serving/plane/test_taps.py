"""Taps in a real worker process, named by whoever puts the plane together."""

import asyncio
import json
import time

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
            took = []
            async with asked(plane, platform) as clients:
                for number in range(200):
                    began = time.monotonic()
                    answer = await clients[0].post(INFER, json=body(number, 0, 0, 0))
                    took.append(time.monotonic() - began)
                    assert answer.json()["outputs"][0]["data"] == [number, 0, 0, 0]
                await asyncio.sleep(1.5)
                shown = (await clients[0].get("/metrics")).text
            file = tmp_path / f"plane/watched/{worker.process.pid}.jsonl"
            seen = [json.loads(line) for line in file.read_text().splitlines()]
            rows = sorted(row[0] for _, _, inputs, _ in seen for row in inputs[0])
            assert rows == list(range(200))
            assert {(endpoint, revision, inputs == outputs) for endpoint, revision, inputs, outputs in seen} == {
                ("2" * 32, 1, True)
            }
            assert sorted(took)[100] < 0.05
            assert worker in plane._crew.present()
            assert 'falaj_plane_tap_seen_total{tap="Writing"} 200\n' in shown
            assert 'falaj_plane_tap_failed_total{tap="Raising"} 1\n' in shown
        assert '"closed"' in file.read_text().splitlines()

    asyncio.run(play())
