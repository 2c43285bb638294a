"""Kill -9 while scripts log metrics: what was acknowledged is there, nothing is there twice, and the ledger counts it."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.conftest import MakePlatform
from tests.app.mortal import MortalPlatform

BATCH = 25
WRITERS = 3
BEFORE_THE_KILL = 30  # acknowledged batches


class Script:
    """A writer that logs batch after batch to a run of its own, and after a kill sends the one again that got no answer."""

    def __init__(self, platform: MortalPlatform) -> None:
        self._platform = platform
        self.run: str = self._post("runs/create", {"experiment_id": "0"}).json()["run"]["info"]["run_id"]
        self.acknowledged = 0

    def write_until_it_breaks(self) -> None:
        try:
            while True:
                self.write_next()
        except httpx.TransportError:
            return

    def write_next(self) -> None:
        first = self.acknowledged * BATCH
        points = [
            {"key": "loss", "value": step / 7, "timestamp": 1_700_000_000_000 + step, "step": step}
            for step in range(first, first + BATCH)
        ]
        self._post("runs/log-batch", {"run_id": self.run, "metrics": points}).raise_for_status()
        self.acknowledged += 1

    def steps(self) -> list[int]:
        with self._platform.http() as http:
            found = http.get("/api/2.0/mlflow/metrics/get-history", params={"run_id": self.run, "metric_key": "loss"})
        return [point["step"] for point in found.raise_for_status().json()["metrics"]]

    def _post(self, endpoint: str, body: Any) -> httpx.Response:
        with self._platform.http() as http:
            return http.post(f"/api/2.0/mlflow/{endpoint}", json=body)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_acknowledged_metric_is_lost_and_none_is_there_twice(
    database: str, make_platform: MakePlatform, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    settings = {} if database == "sqlite" else {"FALAJ_DATABASE_URL": request.getfixturevalue("postgres_url")}
    platform = make_platform(**settings).start()
    scripts = [Script(platform) for _ in range(WRITERS)]
    for _ in range(2):  # twice, so that it also falls on a platform that has been killed before
        threads = [threading.Thread(target=script.write_until_it_breaks) for script in scripts]
        goal = sum(script.acknowledged for script in scripts) + BEFORE_THE_KILL
        for thread in threads:
            thread.start()
        while sum(script.acknowledged for script in scripts) < goal and any(thread.is_alive() for thread in threads):
            threads[0].join(0.005)
        platform.kill()
        for thread in threads:
            thread.join()
        platform.start()
        for script in scripts:
            found = script.steps()
            assert found[: script.acknowledged * BATCH] == list(range(script.acknowledged * BATCH))
            # The batch whose answer was lost is there whole or not at all, and sent again it counts once.
            assert len(found) in (script.acknowledged * BATCH, (script.acknowledged + 1) * BATCH)
            script.write_next()
            assert script.steps() == list(range(script.acknowledged * BATCH))
    verified = platform.falaj("audit", "verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
