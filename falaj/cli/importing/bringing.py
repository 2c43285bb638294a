"""Bringing over experiments, their runs and their logged models. Registered models are brought by `registering`.

Whatever fails for good is written down and the rest goes on; what may succeed later ends the import, to be run again.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Event, Lock

from falaj.base.errors import Forbidden, PermanentError, Unauthenticated
from falaj.base.values import value
from falaj.cli.importing.journal import Done, Journal
from falaj.cli.importing.progress import Bars
from falaj.cli.importing.records import Experiment, LoggedModel, OutOfReach, Run, Source
from falaj.cli.importing.target import Target, id_of

WORKERS = 6
CLOSED = "deleted here as it was there"


@value
class Failure:
    kind: str
    id: str
    why: str


class Folder:
    """An experiment there and the one it is here, which is opened again where an earlier import has deleted it already."""

    def __init__(self, source: Experiment, number: int, *, deleted: bool, ours: bool) -> None:
        self.source = source
        self.number = number
        self.deleted = deleted
        self.ours = ours
        self._lock = Lock()

    def open(self, target: Target) -> None:
        with self._lock:
            if self.deleted:
                target.set_deleted(self.number, False)
                self.deleted = False


class Bringing:
    """One import. `wanted` are the names of the experiments to bring, all of them where it is empty."""

    def __init__(self, source: Source, target: Target, journal: Journal, bars: Bars, wanted: Sequence[str] = ()) -> None:
        self.source = source
        self.target = target
        self.journal = journal
        self.bars = bars
        self.wanted = frozenset(wanted)
        self.counted: Counter[str] = Counter()
        self.beyond: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.here: dict[str, dict[str, Done]] = {"runs": {}, "logged models": {}}  # by their ids here
        self._lock = Lock()
        self._stopping = Event()

    def experiments(self) -> list[Folder]:
        """Join each to the experiment of its name here, or make one."""
        known = self.target.experiments()
        folders = []
        chosen = [one for one in self.source.experiments() if not self.wanted or one.name in self.wanted]
        self.bars.expected("experiments", len(chosen))
        for experiment in chosen:
            self.counted["experiments"] += 1
            with self.attempt("experiment", experiment.name):
                here = self.target.experiment(experiment, known)
                folders.append(Folder(experiment, here.id, deleted=here.deleted, ours=self.target.is_ours(here)))
            self.bars.brought("experiments")
        return folders

    def runs(self, folders: Sequence[Folder]) -> list[Run]:
        """Bring the runs; given back are those that used or made models, which are linked once the models are here."""
        linked: list[Run] = []

        def each() -> Iterator[Callable[[], None]]:
            for folder in folders:
                for run in self.source.runs(folder.source.id):
                    self.bars.found("runs")
                    if run.models_used or run.models_made:
                        linked.append(run)
                    yield partial(self._run, folder, run)

        _several(each(), self._stopping)
        return linked

    def logged_models(self, folders: Sequence[Folder]) -> None:
        def each() -> Iterator[Callable[[], None]]:
            for folder in folders:
                known: Mapping[str, str] | None = None
                for model in self.source.logged_models(folder.source.id):
                    self.bars.found("logged models")
                    if known is None:
                        known = self.target.logged_models(folder.number)
                    yield partial(self._logged_model, folder, model, known)

        _several(each(), self._stopping)

    def links(self, runs: Iterable[Run]) -> None:
        """Say which run used and made which models."""
        for run in runs:
            used = [done.id for model in run.models_used if (done := self.journal.get("logged model", model))]
            made = [(done.id, step) for model, step in run.models_made if (done := self.journal.get("logged model", model))]
            mark = _mark((used, made))
            known = self.journal.get("links", run.id)
            if self.journal.get("run", run.id) is None or (known and known.mark == mark):
                continue
            with self.attempt("links of run", run.id):
                self.target.links(id_of(run.id), used, made)
                self.journal.add("links", run.id, Done(mark=mark, id=id_of(run.id), counts={}))

    def close(self, folders: Sequence[Folder]) -> None:
        """Delete here what is deleted there, once: who restores it here keeps it."""
        for folder in folders:
            known = self.journal.get("experiment", folder.source.id)
            if not folder.source.deleted or not folder.ours or folder.deleted or (known and known.mark == CLOSED):
                continue
            with self.attempt("experiment", folder.source.name):
                self.target.set_deleted(folder.number, True)
                self.journal.add("experiment", folder.source.id, Done(mark=CLOSED, id=str(folder.number), counts={}))

    @contextmanager
    def attempt(self, kind: str, id: str, *, alone: bool = False) -> Iterator[None]:
        """What fails here for good is one failure among the findings. Without rights nothing else would succeed either,
        unless it is a thing that policy rules on `alone`, as on each promotion."""
        try:
            yield
        except PermanentError as error:
            if isinstance(error, Unauthenticated) or (isinstance(error, Forbidden) and not alone):
                raise
            with self._lock:
                self.failures.append(Failure(kind=kind, id=id, why=str(error)))

    def count(self, counts: Mapping[str, int]) -> None:
        with self._lock:
            self.counted.update(counts)

    def _run(self, folder: Folder, run: Run) -> None:
        mark = _mark(_in_order(run))
        done = self.journal.get("run", run.id)
        if done is None or done.mark != mark:
            with self.attempt("run", run.id):
                done = self._bring_run(folder, run, mark)
                self.journal.add("run", run.id, done)
        self._tell("runs", {"params": len(run.params), "datasets": len(run.datasets)}, done)

    def _bring_run(self, folder: Folder, run: Run, mark: str) -> Done:
        folder.open(self.target)
        # The runs of a deleted experiment go with it, and come back with it.
        here = self.target.run(run, folder.number, deleted=run.deleted and not folder.source.deleted)
        points = self.target.log(run, here, self.source.points(run))
        self.target.datasets(here, run.datasets)
        files, beyond = self._files(run, here)
        return Done(mark=mark, id=here, counts={"metric points": points, "artifacts": files}, beyond=beyond)

    def _logged_model(self, folder: Folder, model: LoggedModel, known: Mapping[str, str]) -> None:
        mark = _mark(model)
        done = self.journal.get("logged model", model.id)
        if done is None or done.mark != mark:
            with self.attempt("logged model", model.id):
                folder.open(self.target)
                maker = self.journal.get("run", model.run)
                here = known.get(model.id) or self.target.logged_model(model, folder.number, maker.id if maker else "")
                files, beyond = self._files(model, here)
                measured = (one for one in model.metrics if self.journal.get("run", one.run))
                self.target.finish(here, model, measured)
                done = Done(mark=mark, id=here, counts={"artifacts": files}, beyond=beyond)
                self.journal.add("logged model", model.id, done)
        self._tell("logged models", {}, done)

    def _files(self, holder: Run | LoggedModel, here: str) -> tuple[int, str]:
        """How many there are, and where they lie when that is out of reach. What is here by name and size is not sent again."""
        try:
            files = list(self.source.files(holder))
        except OutOfReach as place:
            return 0, str(place)
        known = self.target.files(here) if files else {}
        for file in files:
            if self._stopping.is_set():
                raise CancelledError  # who stops an import does not wait for a run's thousand files
            if known.get(file.name) != file.size:
                self.target.put(here, file.name, partial(self.source.opened, holder, file))
        return len(files), ""

    def _tell(self, kind: str, counts: Mapping[str, int], done: Done | None) -> None:
        self.count({kind: 1, **counts, **(done.counts if done else {})})
        if done is not None:
            with self._lock:
                self.here[kind][done.id] = done
                self.beyond.update([done.beyond] if done.beyond else [])
            self.bars.brought("metric points", done.counts.get("metric points", 0))
        self.bars.brought(kind)


def _in_order(run: Run) -> Run:
    """The same run, whichever order a database gave its parts in."""
    return dataclasses.replace(
        run,
        params=tuple(sorted(run.params, key=lambda param: param.key)),
        tags=tuple(sorted(run.tags, key=lambda tag: tag.key)),
        latest=tuple(sorted(run.latest, key=lambda metric: metric.key)),
        datasets=tuple(sorted(run.datasets, key=lambda one: (one.dataset.name, one.dataset.digest))),
        models_used=tuple(sorted(run.models_used)),
        models_made=tuple(sorted(run.models_made)),
    )


def _mark(thing: object) -> str:
    """Changes when the thing does."""
    return hashlib.sha256(repr(thing).encode()).hexdigest()[:32]


def _several(steps: Iterable[Callable[[], None]], stopping: Event) -> None:
    """Take the steps, a few at a time; the first error ends it after those under way, which are told by `stopping`."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="import") as pool:
        under_way: set[Future[None]] = set()
        try:
            for step in steps:
                if len(under_way) >= 2 * WORKERS:
                    ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in ended:
                        future.result()
                under_way.add(pool.submit(step))
            for future in under_way:
                future.result()
        except BaseException:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
