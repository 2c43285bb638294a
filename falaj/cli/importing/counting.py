"""Counting both sides: what the source was seen to hold, and what the platform says it has of it now."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from falaj.base.errors import Forbidden, NotFound, TooLarge
from falaj.base.values import Message, value
from falaj.cli.importing.bringing import Bringing, Failure, Folder
from falaj.cli.importing.records import Source
from falaj.cli.importing.target import AT_ONCE, parcels
from falaj.registry.operations import models as registered
from falaj.registry.operations import versions
from falaj.tracking.operations import runs

KINDS = (
    "experiments", "runs", "params", "metric points", "datasets", "artifacts", "logged models", "registered models", "versions",
    "aliases",
)  # fmt: skip
MOST_RUNS = 100  # of these, and of keys, so many are asked about at once


@value
class Row(Message):
    """`there` is what the source holds, `here` how much of it the platform has."""

    kind: str
    there: int
    here: int


@value
class Seen(Message):
    source: str
    rows: tuple[Row, ...]


@value
class Report(Message):
    """`state` is the file that says what is done; `remarks` are what one should know though nothing failed."""

    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    remarks: tuple[str, ...]
    state: str
    ok: bool


def look(source: Source, wanted: Sequence[str]) -> Counter[str]:
    """What a source holds, without reading points and files."""
    counted: Counter[str] = Counter()
    runs_seen = set()
    for experiment in source.experiments():
        if wanted and experiment.name not in wanted:
            continue
        counted["experiments"] += 1
        for run in source.runs(experiment.id):
            runs_seen.add(run.id)
            counted.update({"runs": 1, "params": len(run.params), "datasets": len(run.datasets)})
        counted["logged models"] += sum(1 for _ in source.logged_models(experiment.id))
    for model in source.registered():
        numbers = {version.version for version in model.versions if not wanted or version.run in runs_seen}
        if numbers or not wanted:
            aliases = sum(version in numbers for _, version in model.aliases)
            counted.update({"registered models": 1, "versions": len(numbers), "aliases": aliases})
    return counted


class Counting:
    """What the platform has of what this import saw."""

    def __init__(self, bringing: Bringing) -> None:
        self._target = bringing.target
        self._project = bringing.target.project
        self._runs, self._logged = bringing.here["runs"], bringing.here["logged models"]
        self.counted: Counter[str] = Counter()

    def experiments(self, folders: Sequence[Folder]) -> None:
        present = {experiment.id for experiment in self._target.experiments().values()}
        for folder in folders:
            if folder.number not in present:
                continue
            self.counted["experiments"] += 1
            self._count_runs(folder.number)
            for model in self._logged.keys() & set(self._target.logged_models(folder.number).values()):
                self.counted.update({"logged models": 1, "artifacts": len(self._target.files(model))})

    def models(self, brought: Mapping[str, set[int]], aliases: Mapping[str, set[str]]) -> None:
        for name, numbers in brought.items():
            try:
                model = self._target.call(registered.SHOW_MODEL, registered.OneModel(project=self._project, model=name))
                present = set(self._numbers(name))
            except (NotFound, Forbidden):
                continue
            self.counted["registered models"] += 1
            self.counted["versions"] += len(numbers & present)
            self.counted["aliases"] += len(aliases[name] & {one.alias for one in model.aliases})

    def _numbers(self, model: str) -> Iterator[int]:
        quoted = model.replace("'", "''")

        def ask(cursor: str) -> versions.SearchVersions:
            return versions.SearchVersions(project=self._project, filter=f"name = '{quoted}'", limit=AT_ONCE, cursor=cursor)

        return (found.version for found in self._target.every(versions.SEARCH_VERSIONS, ask))

    def _count_runs(self, experiment: int) -> None:
        def ask(cursor: str) -> runs.SearchRuns:
            return runs.SearchRuns(project=self._project, experiments=(experiment,), state="all", limit=AT_ONCE, cursor=cursor)

        mine = (run for run in self._target.every(runs.SEARCH_RUNS, ask) if run.info.id in self._runs)
        for parcel in parcels(mine, MOST_RUNS, lambda run: 0):
            for run in parcel:
                self.counted.update({"runs": 1, "params": len(run.params), "datasets": len(run.datasets)})
                if self._runs[run.info.id].counts.get("artifacts"):
                    self.counted["artifacts"] += len(self._target.files(run.info.id))
            self.counted["metric points"] += self._points(parcel)

    def _points(self, found: Sequence[runs.Run]) -> int:
        keys = sorted({metric.key for run in found for metric in run.metrics})
        ids = tuple(run.info.id for run in found)
        total = 0
        for first in range(0, len(keys), MOST_RUNS):
            request = runs.ReadCurves(project=self._project, runs=ids, keys=tuple(keys[first : first + MOST_RUNS]), points=2)
            try:
                total += sum(curve.total for curve in self._target.call(runs.READ_CURVES, request).items)
            except TooLarge:
                total += sum(self._long(run, key) for run in found for key in request.keys)
        return total

    def _long(self, run: runs.Run, key: str) -> int:
        """Of a metric with millions of points, counted page by page."""

        def ask(cursor: str) -> runs.ReadHistory:
            return runs.ReadHistory(project=self._project, run=run.info.id, key=key, cursor=cursor)

        return sum(1 for _ in self._target.every(runs.READ_HISTORY, ask))
