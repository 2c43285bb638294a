"""A real plane under real load: it falls to a certified variant, says so, and comes back."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256

import httpx

from falaj.serving.operations.planes import Report
from falaj.serving.states import File, Rung, State
from tests.serving.graphs import layers, times
from tests.serving.plane.test_following import signed
from tests.serving.plane.test_loading import INFER, Managed
from tests.serving.plane.test_supervisor import running

VARIANT = times(2.0)  # tells by its answers that it answered
ROWS = 16


class Laddered(Managed):
    """Its endpoint's revision takes long for a row, and has a variant that does not, certified on another kind of host."""

    def __init__(self) -> None:
        super().__init__(layers(3))
        self.files = {"model.onnx": self.content, "ladder/1/fast.onnx": VARIANT}

    def publish(self, serial: int, **changed: object) -> State:
        state = super().publish(serial, **changed)
        file = File(name="ladder/1/fast.onnx", size=len(VARIANT), digest=sha256(VARIANT).hexdigest())
        rung = Rung(name="fast", runtime="onnx", file=file.name, files=(file,), host="another", latency_ms=0.4)
        (endpoint,) = state.endpoints
        (revision,) = endpoint.revisions
        endpoint = replace(endpoint, revisions=(replace(revision, ladder=(rung,)),))
        state = replace(state, endpoints=(endpoint,))
        self.newest = signed(state, self.signer)
        return state

    def file(self, revision: str, file: str) -> Iterator[bytes]:
        yield self.files[file]


def standing(report: Report, *, measured: bool = False) -> set[str]:
    """The forms by which the worker answers, or those that it measured anew."""
    rungs = report.revisions[0].rungs if report.revisions else ()
    return {one.name for one in rungs if (one.latency if measured else one.workers)}


class Callers:
    """Ask for a few rows again and again; every answer must be that of the variant that it names."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.answers: Counter[str] = Counter()
        data = [float(number) for number in range(4 * ROWS)]
        self._body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [ROWS, 4], "data": data}]}
        self._right = {"original": data, "fast": [2 * number for number in data]}

    async def ask(self) -> None:
        response = await self._client.post(INFER, json=self._body)
        if response.status_code == 503:
            await asyncio.sleep(0.05)
            return
        said, variant = response.json(), response.headers["x-falaj-variant"]
        assert said["parameters"]["variant"] == variant
        assert (said["model_version"], said["outputs"][0]["data"]) == ("1", self._right[variant])
        self.answers[variant] += 1

    @asynccontextmanager
    async def asking(self, count: int):
        async def go_on() -> None:
            while True:
                await self.ask()

        tasks = [asyncio.create_task(go_on()) for _ in range(count)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * count


def test_under_load_a_plane_falls_to_the_variant_and_returns_when_it_has_passed(tmp_path):
    async def play():
        platform = Laddered()
        platform.publish(1, latency_ms=20)
        async with running(tmp_path, platform) as plane:
            told = await platform.told(lambda report: "fast" in standing(report, measured=True))
            assert told.revisions[0].ready
            assert [(one.name, one.remark) for one in told.revisions[0].rungs] == [("original", ""), ("fast", "")]
            headers = {"authorization": f"Bearer {platform.token()}"}
            async with httpx.AsyncClient(base_url=plane._url, headers=headers, trust_env=False, timeout=30) as client:
                callers = Callers(client)
                async with callers.asking(16):
                    fallen = await platform.told(lambda report: standing(report) == {"fast"})
                    metrics = (await client.get("/metrics")).text
                assert (fallen.revisions[0].quarantined, fallen.revisions[0].problem) == (False, "")
                assert set(callers.answers) == {"original", "fast"}
                named = 'project="p",endpoint="e",revision="1",variant="fast"'
                assert f"falaj_serving_rung_workers{{{named}}} 1\n" in metrics
                assert f"falaj_serving_rung_falls_total{{{named}}} 1\n" in metrics
                await platform.told(lambda report: standing(report) == {"original"})
                before = callers.answers["original"]
                await callers.ask()
                assert callers.answers["original"] == before + 1
            told_of = [one for report in platform.reports for revision in report.revisions for one in revision.rungs]
            assert sum(one.falls for one in told_of) == 1

    asyncio.run(play())
