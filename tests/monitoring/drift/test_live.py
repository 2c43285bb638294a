"""The whole way, with real processes: drift in a live load through a real plane becomes an alert that names the column, what
was wished for is done about it, and the ledger has both."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from falaj.datasets.operations import writing
from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.monitoring.operations import alerts, monitors
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.datasets.platform import arrow
from tests.serving.control.platform import MLMODEL
from tests.serving.graphs import times
from tests.serving.site import PROJECT, Site, body, until

NAMES = ("amount", "age", "items", "hour")
ROWS = 50  # of a call
_TENSOR = rb"""[{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 3]}}]"""
_COLUMNS = b", ".join(b'{"type": "float", "name": "%s"}' % name.encode() for name in NAMES)
WISHES = Wishes(reference="orders", window=2, learn_rows=200, actions=(Act(do="roll-back"),))


class Asking:
    """A caller that never stops; `shift` is what it adds to the column `age`."""

    def __init__(self, site: Site) -> None:
        self.shift, self.failures, self.calls = 0.0, 0, 0
        self._site, self._ending = site, threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _ask(self) -> None:
        random = np.random.default_rng(11)
        with self._site.http(self._site.token("scores")) as http:
            while not self._ending.wait(0.05):
                rows = random.normal(size=(ROWS, 4)) + np.array([0.0, self.shift, 0.0, 0.0])
                answer = http.post("/v2/models/scores/infer", json=body(*rows.ravel().tolist()))
                self.failures += answer.status_code != 200
                self.calls += 1


def register(site: Site, factor: float) -> int:
    call = site.platform.call
    run = call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    signed = MLMODEL.replace(_TENSOR, b"[%s]" % _COLUMNS)
    for name, content in (("model.onnx", times(factor)), ("MLmodel", signed)):
        call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name=f"model/{name}"), chunks=iter((content,)))
    return int(call(CREATE_VERSION, CreateVersion(project=PROJECT, model="times", holder=run, folder="model")).version)


def write(site: Site) -> None:
    call, rows = site.platform.call, np.random.default_rng(1).normal(size=(5000, 4))
    opened = call(writing.OPEN_WRITE, writing.OpenWrite(project=PROJECT, dataset="orders", mode="append", create=True))
    part = writing.WritePart(project=PROJECT, dataset="orders", write=opened.id, piece=1)
    content = arrow(**{name: rows[:, place] for place, name in enumerate(NAMES)})
    call(writing.WRITE_PART, part, chunks=iter((content,)))
    call(writing.COMMIT_WRITE, writing.CommitWrite(project=PROJECT, dataset="orders", write=opened.id, pieces=1))


def leaves(site: Site, operation: str) -> list[Any]:
    return list(site.platform.call(LOG, ReadLog(operation=operation)).items)


def test_drift_in_a_live_load_is_told_by_its_name_acted_on_and_in_the_ledger(tmp_path: Path):
    site = Site(tmp_path, workers="1")
    try:
        write(site)
        site.platform.call(CREATE_MODEL, CreateModel(project=PROJECT, model="times"))
        for factor in (1.0, 2.0):
            site.deploy("scores", "times", register(site, factor))
        request = monitors.ApplyMonitor(project=PROJECT, endpoint="scores", wishes=WISHES)
        site.settled(site.show(site.platform.call(monitors.APPLY_MONITOR, request).endpoint))
        with Asking(site) as asking:
            until(lambda: asking.calls >= 60)
            began, asking.shift = time.time_ns() // 1000, 2.0

            def raised() -> Any:
                return site.platform.call(alerts.LIST_ALERTS, alerts.ListAlerts(project=PROJECT)).items

            until(raised)
            until(lambda: site.show("scores").arms[0].revision == 1)
        alert = raised()[0]
        assert (alert.kind, asking.failures) == ("drift", 0)
        assert "age" in alert.title
        assert [one.column for one in alert.columns if not one.column.startswith("prediction")] == ["age"]
        assert alert.since >= began - 3 * WISHES.window * 1_000_000
        until(lambda: leaves(site, "alert.raise"))
        until(lambda: leaves(site, "alert.act"))
        assert [(one.facts["kind"], one.facts["state"]) for one in leaves(site, "alert.act")] == [("roll-back", "done")]
        windows = site.platform.call(
            monitors.READ_WINDOWS, monitors.ReadWindows(project=PROJECT, endpoint="scores", revision=2)
        )
        assert windows.items
        assert sum(one.rows for one in windows.items) % ROWS == 0
    finally:
        site.close()
