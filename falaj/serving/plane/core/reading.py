"""From a revision's files to an engine that was tuned, in a thread: where it runs, on how many threads, with what beside it."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from falaj.base.errors import FalajError, Unavailable
from falaj.base.values import value
from falaj.runtimes.engine import Engine, ModelFiles, Placement
from falaj.runtimes.fallback import Fallback, Spare
from falaj.runtimes.tuning import on_threads_that_pay, single_rows
from falaj.serving.operations.planes import Latency
from falaj.serving.plane.core.models import Model
from falaj.serving.plane.core.running import Running
from falaj.serving.plane.lookups.joining import Lookup
from falaj.serving.plane.marks import number_of
from falaj.serving.states import Revision
from falaj.statistics.intervals import quantile

# Whose threads are not measured: users' code would be started twice, and torch's threads are those of the whole process.
_AS_IT_IS: Final = frozenset({"python", "torch"})
_WORTH_GIVING_BACK: Final = 1024 * 1024  # bytes of a model's files


class Timing(Protocol):
    """What tuning found: the rows to run at once, and the seconds that one row takes alone and among so many; 0 where it found
    nothing out."""

    @property
    def batch(self) -> int: ...

    @property
    def one_row_s(self) -> float: ...

    @property
    def row_s_at_batch(self) -> float: ...


Open: TypeAlias = Callable[[Revision], ModelFiles]
Load: TypeAlias = Callable[[ModelFiles, Placement], Engine]
Tune: TypeAlias = Callable[[Engine], Timing]
LookUp: TypeAlias = Callable[[Model, Engine], Lookup | None]


@value
class Room:
    """What models may take: bytes of memory (0 for no bound), threads of one model (0 for as many of `cores` as pay), and
    whether there is a GPU. `host` is the kind of this host, empty where nobody knows."""

    memory_bytes: int = 0
    threads: int = 0
    cores: int = 1
    gpu: bool = False
    host: str = ""


class Loaded(NamedTuple):
    """With what another thread may run while the engine is behind, and what tuning found of that, where there is any.
    `latency` is of single rows, where that was certified on another kind of host."""

    engine: Engine
    timing: Timing
    spare: Spare | None = None
    spare_timing: Timing | None = None
    lookup: Lookup | None = None
    latency: Latency | None = None


class Reader:
    """`read` and `read_rung` are called in threads, `read_with` on the loop."""

    def __init__(self, load: Load, tune: Tune, room: Room, running: Running, look_up: LookUp) -> None:
        self.load, self.room = load, room
        self._tune, self._running, self._look_up = tune, running, look_up
        self._open: Open | None = None

    def read_with(self, read: Open) -> None:
        self._open = read

    def read(self, model: Model) -> Loaded:
        self._running.enter_loading(number_of(model.revision.id))
        try:
            loaded = self._measured(model.revision, self._with_lookup(model, self._loaded(model, model.revision)))
            if model.size > _WORTH_GIVING_BACK:
                give_back()
            return loaded
        finally:
            self._running.leave_thread()

    def read_rung(self, model: Model, form: Revision) -> Loaded:
        """A variant of the model, `form` being the revision as such. What breaks in it is the revision's."""
        self._running.enter_loading(number_of(model.revision.id))
        try:
            return self._measured(form, self._loaded(model, form)._replace(spare=None, spare_timing=None))
        finally:
            self._running.leave_thread()

    def places(self, model: Model) -> list[Placement]:
        """Best first."""
        wanted, threads = model.endpoint.device, self.room.threads
        gpu, cpu = Placement(device="gpu", threads=threads), Placement(device="cpu", threads=threads)
        if wanted == "gpu":
            return [gpu]
        return [gpu, cpu] if wanted == "auto" and self.room.gpu else [cpu]

    def _with_lookup(self, model: Model, loaded: Loaded) -> Loaded:
        try:
            return loaded._replace(lookup=self._look_up(model, loaded.engine))
        except BaseException:
            loaded.engine.close()
            raise

    def _measured(self, form: Revision, loaded: Loaded) -> Loaded:
        if not is_elsewhere(form, self.room.host):
            return loaded
        try:
            return loaded._replace(latency=_latency(single_rows(loaded.engine)))
        except FalajError:  # what it was asked for was made up; real rows may be answered
            return loaded

    def _loaded(self, model: Model, form: Revision) -> Loaded:
        if self._open is None:
            raise Unavailable("There is no state to serve by yet.")
        files, places = self._open(form), self.places(model)
        if len(places) == 1:
            return self._loaded_alone(files, places[0])
        several = Fallback([partial(self.load, files, place) for place in places])
        spare = several.spare()
        return Loaded(several, self._tune(several), spare, self._tune(spare) if spare.is_there else None)

    def _loaded_alone(self, files: ModelFiles, place: Placement) -> Loaded:
        if place.threads or place.device != "cpu" or files.runtime in _AS_IT_IS:
            engine = self.load(files, place)
            return Loaded(engine, self._tune(engine))
        load_on = partial(_on_threads, self.load, files, place)
        return Loaded(*on_threads_that_pay(load_on, self._tune, self.room.cores))


def is_elsewhere(form: Revision, host: str) -> bool:
    """Whether its latency was certified on a host of another kind."""
    return bool(host and form.host) and form.host != host


def _latency(seconds: Sequence[float]) -> Latency | None:
    if not seconds:
        return None
    times = 1000 * np.array(seconds)
    p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
    return Latency(p50_ms=p50.at, p50_low=p50.low, p50_high=p50.high, p99_ms=p99.at, p99_low=p99.low, p99_high=p99.high)


def row_seconds(timing: Timing) -> float:
    """What a row takes where many wait; 0 where nobody knows."""
    return timing.row_s_at_batch or timing.one_row_s


def _on_threads(load: Load, files: ModelFiles, place: Placement, threads: int) -> Engine:
    return load(files, replace(place, threads=threads))


def give_back() -> None:
    """Memory that was freed, to the machine: the C library keeps it otherwise, and a worker stays as large as it ever was."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # GNU's has it
    if trim is not None:
        trim(0)
