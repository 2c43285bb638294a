"""An endpoint of a real platform that is watched: rows go through a real tap, which counts by the state that planes are given,
and come in as a plane reports them. The clock is turned by hand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import func, select

from falaj.base.clock import SECOND, Moment
from falaj.datasets.operations import classes, versions, writing
from falaj.monitoring.operations import alerts, monitors
from falaj.monitoring.operations.monitors import Monitor, Spread, Window, Wishes
from falaj.monitoring.plane.tap import WatchTap
from falaj.monitoring.store import tables
from falaj.monitoring.store.tables import Found
from falaj.runtimes.engine import TensorSpec
from falaj.serving.operations.planes import WatchReport
from falaj.serving.plane.core.models import Shape
from falaj.serving.plane.core.taps import Seen
from falaj.storage.store import references as blob_references
from falaj.tracking.operations.runs import LOG_INPUTS, Dataset, DatasetInput, LogInputs
from tests.datasets.platform import arrow
from tests.serving.control.platform import MLMODEL, ONNX, PROJECT, Platform, said

NAMES = ("amount", "age", "items")
_TENSOR = rb"""[{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 3]}}]"""
_COLUMNS = b", ".join(b'{"type": "float", "name": "%s"}' % name.encode() for name in NAMES)
SIGNED = MLMODEL.replace(_TENSOR, b"[%s]" % _COLUMNS)
SHAPE = Shape(
    platform="onnx",
    inputs=(TensorSpec(name="X", datatype="FP32", shape=(-1, 3)),),
    outputs=(TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 2)),),
    columns=NAMES,
)
QUICK = replace(Wishes(), learn_rows=1000)
ROWS = 500  # of a window


def rows_of(seed: int, rows: int = ROWS, **shifts: float) -> np.ndarray:
    """As the world is; or with columns that are shifted."""
    random = np.random.default_rng(seed)
    found = np.stack([random.normal(100, 20, rows), random.normal(40, 10, rows), random.integers(1, 6, rows)], axis=1)
    return found + np.array([shifts.get(name, 0.0) for name in NAMES])


def answers_to(rows: np.ndarray) -> np.ndarray:
    likely = 1 / (1 + np.exp(-np.nan_to_num(rows[:, 0] - 100) / 20))
    return np.stack([1 - likely, likely], axis=1).astype(np.float32)


def texts(values: Iterable[str]) -> np.ndarray:
    return np.array([one.encode() for one in values], object)


def apart(columns: Sequence[np.ndarray]) -> Shape:
    """Of a model that takes each column by itself."""
    kinds = ["BYTES" if one.dtype == object else "FP32" for one in columns]
    inputs = tuple(TensorSpec(name=name, datatype=kind, shape=(-1, 1)) for name, kind in zip(NAMES, kinds, strict=False))
    return replace(SHAPE, inputs=inputs)


class Watched:
    """The endpoint `scores` with one revision of a model that takes `NAMES`."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.clock = platform, platform.clock
        self.files = {"model.onnx": ONNX, "MLmodel": SIGNED}
        self.version = platform.register(files=self.files)
        platform.deploy(self.version.version)
        self.endpoint = platform.show()
        self.plane = platform.plane()
        self.tap = WatchTap(self.clock, np.random.default_rng(3))
        self.clock.forward(60 * SECOND - int(self.clock.moment) % (60 * SECOND))

    # What people do

    def apply(self, wishes: Wishes = QUICK, token: str = "", **fields: Any) -> Monitor:
        request = monitors.ApplyMonitor(**({"project": PROJECT, "endpoint": "scores", "wishes": wishes} | fields))
        return self.platform.call(monitors.APPLY_MONITOR, request, token)

    def show(self, token: str = "", project: str = PROJECT) -> Monitor:
        return self.platform.call(monitors.SHOW_MONITOR, monitors.OneMonitor(project=project, endpoint="scores"), token)

    def delete(self) -> None:
        self.platform.call(monitors.DELETE_MONITOR, monitors.OneMonitor(project=PROJECT, endpoint="scores"))

    def windows(self, **fields: Any) -> monitors.Windows:
        request = monitors.ReadWindows(**({"project": PROJECT, "endpoint": "scores"} | fields))
        return self.platform.call(monitors.READ_WINDOWS, request)

    def last(self, revision: int = 0) -> Window:
        return self.windows(revision=revision, limit=1).items[0]

    def column(self, name: str, token: str = "", **fields: Any) -> Spread:
        request = monitors.ReadColumn(**({"project": PROJECT, "endpoint": "scores", "column": name} | fields))
        return self.platform.call(monitors.READ_COLUMN, request, token)

    def alerts(self, which: str = "open") -> dict[str, alerts.Alert]:
        """By kind."""
        request = alerts.ListAlerts(project=PROJECT, which=which)  # type: ignore[arg-type]
        return {one.kind: one for one in self.platform.call(alerts.LIST_ALERTS, request).items}

    # Data

    def write(
        self, rows: np.ndarray | None = None, name: str = "orders", mode: Any = "overwrite", **columns: Any
    ) -> versions.Version:
        given = {} if rows is None else {column: rows[:, place] for place, column in enumerate(NAMES)}
        request = writing.OpenWrite(project=PROJECT, dataset=name, mode=mode, create=True)
        write = self.platform.call(writing.OPEN_WRITE, request)
        part = writing.WritePart(project=PROJECT, dataset=name, write=write.id, piece=1)
        self.platform.call(writing.WRITE_PART, part, data=arrow(**(given | columns)))
        commit = writing.CommitWrite(project=PROJECT, dataset=name, write=write.id, pieces=1)
        return self.platform.call(writing.COMMIT_WRITE, commit)

    def classify(self, column: str, name: str = "orders") -> None:
        classified = (classes.Classified(column=column, kind="personal"),)
        request = classes.ClassifyColumns(project=PROJECT, dataset=name, columns=classified)
        self.platform.call(classes.CLASSIFY_COLUMNS, request)

    def trained_on(self, *made: versions.Version) -> None:
        """The run of the version that is deployed read these."""
        inputs = tuple(
            DatasetInput(dataset=Dataset(name=one.lineage.rpartition("@")[0], digest=one.lineage.rpartition("@")[2]))
            for one in made
        )
        self.platform.call(LOG_INPUTS, LogInputs(project=PROJECT, run=self.version.run, datasets=inputs))

    # What planes do

    def counted(
        self, rows: np.ndarray, outputs: np.ndarray | None = None, revision: int = 1, columns: Sequence[np.ndarray] = ()
    ) -> list[WatchReport]:
        """As a worker counts them by the newest state; of this moment's window, which it takes to be over. With `columns` those
        are what is asked, each by itself, as a model takes them that has numbers and texts."""
        self.tap.adopt(self.plane.state())
        answered = answers_to(rows) if outputs is None else outputs
        given, shape = [np.asarray(rows, np.float32)], SHAPE
        if columns:
            given, shape = [one.reshape(-1, 1) for one in columns], apart(columns)
        self.tap.see(Seen(self.endpoint.id, revision, given, [answered], len(rows), shape))
        self.tap.close()
        return list(self.tap.take())

    def send(self, told: Sequence[WatchReport]) -> None:
        numbers = {one.revision for one in told} or {1}
        self.plane.report(*(said(self.endpoint, number, rows=1) for number in sorted(numbers)), watched=tuple(told))

    def window(
        self,
        rows: np.ndarray,
        outputs: np.ndarray | None = None,
        revision: int = 1,
        seconds: int = 60,
        columns: Sequence[np.ndarray] = (),
    ) -> None:
        """One window of traffic, and the next one's beginning."""
        self.send(self.counted(rows, outputs, revision, columns))
        self.over(seconds)

    def over(self, seconds: int = 60) -> None:
        """The window ends, and is closed when its time has come, in the next one."""
        length = seconds * SECOND
        self.clock.forward(length - int(self.clock.moment) % length + 13 * SECOND)
        self.step()

    def step(self) -> None:
        monitoring = self.platform.app.monitoring
        for _ in range(20):
            now = self.clock.now()
            if not monitoring.follow(now) | monitoring.step(now) | monitoring.tend(now):
                return

    def traffic(self, windows: Iterable[np.ndarray]) -> None:
        for rows in windows:
            self.window(rows)

    def learn(self, revision: int = 1, usual: Callable[[int], np.ndarray] = rows_of, **how: Any) -> None:
        """Enough usual windows for everything to be settled; `how` makes the columns of one, by its number."""
        for seed in range(1000, 1010):
            columns = how["columns"](seed) if "columns" in how else ()
            self.window(usual(seed), revision=revision, columns=columns)
            if not next(one for one in self.show().watching if one.revision == revision).learning:
                return
        raise AssertionError(f"still learning: {self.show().watching}")

    # What the database has

    def rows(self, table: Any) -> list[Found]:
        return self.platform.app.database.read(lambda work: list(work.execute(select(table))))

    def reference(self, revision: int = 1) -> Found:
        return next(row for row in self.rows(tables.references) if row.revision == revision)

    def blobs(self, *kinds: str) -> int:
        """How many are kept for owners of these kinds."""
        held = select(func.count()).select_from(blob_references).where(blob_references.c.kind.in_(kinds))
        return self.platform.app.database.read(lambda work: int(work.execute(held).scalar_one()))

    @property
    def now(self) -> Moment:
        return self.clock.moment
