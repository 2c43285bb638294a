"""Monitors for the pages to show: traffic as planes count it, in windows of the past, and what a monitor would see of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.ids import new_id
from falaj.database.work import UnitOfWork
from falaj.governance.projects.store import project_by_id
from falaj.monitoring.alerting import Sighting
from falaj.monitoring.operations import alerts, labels, monitors
from falaj.monitoring.operations.words import Told
from falaj.monitoring.plane.frames import Frame
from falaj.monitoring.plane.tallies import Tally
from falaj.monitoring.sealing import inside
from falaj.monitoring.store import monitors as store
from falaj.runtimes.engine import TensorSpec
from falaj.serving.operations import planes
from falaj.serving.plane.core.models import Shape
from falaj.serving.states import decode
from tests.web import served
from tests.web.conftest import Site

WINDOW = 60
LATER = 15 * SECOND  # windows are closed once planes had time to tell of them
Draw = Callable[[np.random.Generator, int], np.ndarray]
AMOUNT = Told(column="amount", effect=0.31, evidence=4.0, missing=0.02, outside=0.1, drifting=True)


def normal(middle: float = 0.0, spread: float = 1.0) -> Draw:
    return lambda random, rows: random.normal(middle, spread, rows)


def kinds(*names: str, chances: Sequence[float] | None = None) -> Draw:
    return lambda random, rows: np.array(random.choice(names, rows, p=chances), object)


def apply(site: Site, endpoint: str = "scores", *, project: str = "fraud", **wishes: Any) -> monitors.Monitor:
    given: dict[str, Any] = {"window": WINDOW, "learn_rows": 100} | wishes
    request = monitors.ApplyMonitor(project=project, endpoint=endpoint, wishes=monitors.Wishes(**given))
    found: monitors.Monitor = site.call(monitors.APPLY_MONITOR, request)
    return found


def show(site: Site, endpoint: str = "scores", project: str = "fraud") -> monitors.Monitor:
    found: monitors.Monitor = site.call(monitors.SHOW_MONITOR, monitors.OneMonitor(project=project, endpoint=endpoint))
    return found


class Traffic:
    """Of one revision, counted by the plan that the platform draws for it. Windows follow each other, the last just ended."""

    def __init__(self, site: Site, plane: served.Plane, endpoint: Any, windows: int, seed: int = 7) -> None:
        self._site, self._plane, self._endpoint = site, plane, endpoint
        self._random = np.random.default_rng(seed)
        now = int(site.platform.clock.now())
        self._at = now - now % (WINDOW * SECOND) - windows * WINDOW * SECOND

    def learn(self, features: Mapping[str, Draw], rows: int = 4000) -> None:
        """Two windows: bins are chosen by the first, and filled by the second."""
        for _ in range(2):
            self.send([features], rows)

    def send(self, windows: Sequence[Mapping[str, Draw]], rows: int = 600, missed: int = 0) -> None:
        """One after the other, each with rows as it says; and the platform decides on them."""
        watch = self._watch()
        tally = Tally(watch, self._random)
        told = []
        for features in windows:
            tally.add(_frame(features, self._random, rows))
            told.append(
                planes.WatchReport(
                    endpoint=self._endpoint.id,
                    revision=self._endpoint.arms[0].revision,
                    plan=watch.key,
                    at=Moment(self._at),
                    seconds=WINDOW,
                    rows=rows,
                    missed=missed,
                    columns=tally.told(),
                    sketches=tally.sketches(),
                    sampled=tally.sampled(),
                )
            )
            self._at += WINDOW * SECOND
        self._plane.watched(self._endpoint, tuple(told))
        platform = self._site.platform
        while platform.monitoring.step(Moment(platform.clock.now() + LATER)):
            pass

    def pause(self, windows: int) -> None:
        """Nobody calls for so long."""
        self._at += windows * WINDOW * SECOND

    def _watch(self) -> Any:
        endpoints = decode(self._plane.state().body.encode()).endpoints
        revisions = next(one for one in endpoints if one.id == self._endpoint.id).revisions
        watch = revisions[0].watch
        assert watch is not None
        return watch


class Plane(served.Plane):
    def watched(self, endpoint: Any, told: tuple[planes.WatchReport, ...]) -> None:
        self.report(endpoint, watched=told, **served.did(600))


def _frame(features: Mapping[str, Draw], random: np.random.Generator, rows: int) -> Frame:
    drawn = {name: draw(random, rows) for name, draw in features.items()}
    kind = {name: "BYTES" if values.dtype == object else "FP64" for name, values in drawn.items()}
    specs = tuple(TensorSpec(name=name, datatype=kind[name], shape=(-1, 1)) for name in drawn)
    answers = (TensorSpec(name="score", datatype="FP64", shape=(-1, 1)),)
    shape = Shape(platform="onnx", inputs=specs, outputs=answers, columns=())
    return Frame(shape, list(drawn.values()), [random.uniform(size=rows)], rows)


# Alerts


def sight(site: Site, *sightings: Sighting, endpoint: str = "scores", project: str = "fraud") -> tuple[alerts.Alert, ...]:
    """As whoever closes a window says so; all alerts there are now, newest first."""
    monitor = show(site, endpoint, project)

    def enter(work: UnitOfWork) -> None:
        row = store.by_id(work, monitor.id)
        assert row is not None
        owner = project_by_id(work, row.project)
        assert owner is not None
        context = inside(work, owner, "", site.platform.clock.now())
        site.platform.monitoring.raising.sight(context, row, sightings)

    site.platform.database.write(enter)
    return listed(site, project)


def listed(site: Site, project: str = "fraud") -> tuple[alerts.Alert, ...]:
    found: alerts.Alerts = site.call(alerts.LIST_ALERTS, alerts.ListAlerts(project=project, which="all"))
    return found.items


def drift(title: str = "1 of 3 columns drift", **fields: Any) -> Sighting:
    given: dict[str, Any] = {
        "key": "drift/1",
        "kind": "drift",
        "severity": "warning",
        "sentences": ("Far from what they were: amount (0.31).",),
        "facts": {"revision": 1, "rows": 500},
        "columns": (AMOUNT,),
    }
    return Sighting(title=title, **(given | fields))


# Quality


def labelled(site: Site, plane: served.Plane, endpoint: Any, days: int = 5, rows: int = 120, project: str = "fraud") -> None:
    """Calls of the last days, with what became of them: right nine times in ten."""
    now = site.platform.clock.now()
    for back in range(days):
        at = Moment(now - back * DAY)
        calls, told = [], []
        for place in range(rows):
            id = new_id(at)
            calls.append(served.call(endpoint, id, at, inputs=json.dumps({"x": [1.0]}), outputs=json.dumps({"y": [place % 2]})))
            told.append(labels.Label(id=id, truth=(place + (place % 10 == 0)) % 2))
        plane.report(endpoint, calls=tuple(calls))
        site.call(labels.ADD_LABELS, labels.AddLabels(project=project, endpoint=endpoint.name, labels=tuple(told)))
