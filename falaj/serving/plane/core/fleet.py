"""Models come into memory and leave it: loaded in threads of their own, tuned, kept within a budget, put out when idle.

Nothing that is asked fails by it: who asks for a model that is out of memory waits for it, among a bounded number.
"""

import asyncio
import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from falaj.base.errors import FalajError, Unavailable
from falaj.base.values import value
from falaj.runtimes.engine import Columned, Engine, ModelFiles, Placement, Stoppable
from falaj.runtimes.fallback import Fallback, Spare
from falaj.runtimes.tuning import on_threads_that_pay
from falaj.serving.plane.core.batches import Batches, Face
from falaj.serving.plane.core.inputs import Inputs, Nan
from falaj.serving.plane.core.models import Model, Parked, Shape
from falaj.serving.plane.core.running import Running
from falaj.serving.plane.core.sizes import BatchSize
from falaj.serving.plane.lookups.joining import Lookup
from falaj.serving.plane.marks import number_of
from falaj.serving.states import Revision

INLINE_WITHIN: Final = 0.001  # seconds for one row: a faster model is not worth a thread
_MAY_HANG: Final = frozenset({"python"})  # whatever was measured: users' code may do anything the next time
# Whose threads are not measured: users' code would be started twice, and torch's threads are those of the whole process.
_AS_IT_IS: Final = frozenset({"python", "torch"})
_LONGEST_INLINE: Final = 0.002  # that one batch may hold the loop up
_IN_MEMORY: Final = 2.0  # a loaded model takes about twice its files
_LOADS_AT_ONCE: Final = 2
LOADS_WITHIN: Final = 15.0  # seconds, after which a load is not waited for and the next may begin beside it
_LOADS_AT_MOST: Final = 32  # with those that nobody waits for
_LOADING_HANGS_AFTER: Final = 300.0
_RETRY_AFTER: Final = 5.0  # seconds, and twice as long after every further failure
_RETRY_AT_LAST: Final = 300.0
_HANGS_AFTER: Final = 60.0  # seconds of one run in a thread; half of what the supervisor stands
_WORTH_GIVING_BACK: Final = 1024 * 1024  # bytes of a model's files
_RESTS_FOR: Final = 1.0  # seconds without a call, before a model may make room for another


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
LookUp: TypeAlias = Callable[["Model", Engine], Lookup | None]


@value
class Room:
    """What models may take: bytes of memory (0 for no bound), threads of one model (0 for as many of `cores` as pay), and
    whether there is a GPU."""

    memory_bytes: int = 0
    threads: int = 0
    cores: int = 1
    gpu: bool = False


class _Loaded(NamedTuple):
    """With what another thread may run while the engine is behind, and what tuning found of that, where there is any."""

    engine: Engine
    timing: Timing
    spare: Spare | None = None
    spare_timing: Timing | None = None
    lookup: Lookup | None = None


class Fleet:
    """Everything is called on the loop. `resume` is told of each request that waited for a model that is there now, or
    could not be loaded."""

    def __init__(
        self,
        load: Load,
        tune: Tune,
        room: Room,
        running: Running,
        resume: Callable[[Model, Parked], None],
        look_up: LookUp,
    ) -> None:
        self._load, self._tune, self._room, self._running, self._resume = load, tune, room, running, resume
        self._look_up = look_up
        self._open: Open | None = None
        self._threads = ThreadPoolExecutor(_LOADS_AT_MOST, thread_name_prefix="loading")
        self._slots = asyncio.Semaphore(_LOADS_AT_ONCE)
        self.loads_within = LOADS_WITHIN
        self._tasks: dict[Model, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._present: set[Model] = set()

    def read_with(self, read: Open) -> None:
        self._open = read

    async def ensure(self, model: Model) -> None:
        """Have it in memory. What goes wrong is in its `problem`."""
        if model.batches is None:
            await asyncio.shield(self.begin(model))

    def begin(self, model: Model) -> asyncio.Task[None]:
        task = self._tasks.get(model)
        if task is None:
            model.is_loading = True
            task = self._tasks[model] = asyncio.get_running_loop().create_task(self._bring(model))
        return task

    def aim(self, model: Model) -> None:
        """Take over what the endpoint's options say now."""
        for place in model.batches.places if model.batches is not None else ():
            place.size.aim(*_aims(model, threaded=place.threaded))
            if place.inputs.nan != model.endpoint.nan:
                place.inputs = _inputs(place.engine, model.endpoint.nan)

    def unload(self, model: Model) -> None:
        """Out of memory once its last request is answered; the next one has it loaded again."""
        batches = model.batches
        if batches is not None:
            model.last_used, model.batches = batches.used, None
            task = asyncio.get_running_loop().create_task(self._close(model, batches))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def unloaded(self, model: Model) -> None:
        """Wait until it is out of memory; one that is being loaded goes as soon as it is there."""
        while self.is_busy(model) and model.batches is None:  # noqa: ASYNC110 - nothing on the hot path for the sake of this
            await asyncio.sleep(0.005)

    def retire(self, model: Model) -> None:
        model.retired = True
        self.unload(model)

    def is_busy(self, model: Model) -> bool:
        """Whether it is in memory still, or again."""
        return model in self._present or model in self._tasks

    def unload_idle(self, now: float) -> None:
        for model in list(self._present):
            idle = model.endpoint.idle_seconds
            if idle and model.batches is not None and not model.batches.is_busy and now - model.used > idle:
                self.unload(model)

    def stop_hanging(self, now: float) -> None:
        """A run that takes far too long is given up where its engine can do that; else the supervisor ends the worker."""
        for model in self._present:
            batches = model.batches
            if (
                batches is not None
                and batches.since
                and now - batches.since > _HANGS_AFTER
                and isinstance(batches.engine, Stoppable)
            ):
                batches.engine.stop()
        for model in self._tasks:
            if model.loading_since and now - model.loading_since > _LOADING_HANGS_AFTER:
                self._running.accuse(number_of(model.revision.id))

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for model in list(self._present):
            self.unload(model)
        await asyncio.gather(*self._leaving)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _close(self, model: Model, batches: Batches) -> None:
        while batches.is_busy:  # noqa: ASYNC110 - nothing on the hot path for the sake of this
            await asyncio.sleep(0.005)
        await batches.close()
        del batches
        if model.size > _WORTH_GIVING_BACK:
            await asyncio.to_thread(_give_back)
        if model.batches is None:
            self._present.discard(model)

    async def _bring(self, model: Model) -> None:
        started = time.monotonic()
        try:
            self._make_room(model)
            self._take_in(model, await self._read_apart(model))
            model.problem, model.failures = "", 0
            model.counts.cold_start_ms = (time.monotonic() - started) * 1000
        except FalajError as error:
            self._note(model, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a library raises, the old split goes on
            self._note(model, f"{type(error).__name__}: {error}")
        finally:
            del self._tasks[model]
            model.is_loading = model.is_late = False
            model.loading_since = 0.0
        parked = list(model.parked)
        model.parked.clear()
        for one in parked:
            self._resume(model, one)
        if model.retired or model.put_out:
            self.unload(model)

    async def _read_apart(self, model: Model) -> "_Loaded":
        """A model that takes for ever to load must not keep others from being loaded."""
        async with self._slots:
            model.loading_since = time.monotonic()
            reading = asyncio.get_running_loop().run_in_executor(self._threads, self._read, model)
            done, _ = await asyncio.wait({reading}, timeout=self.loads_within)
        if not done:
            model.is_late = True
            model.problem = f"Revision {model.revision.number} has been loading for more than {self.loads_within:.0f} seconds."
        return await reading

    def _note(self, model: Model, problem: str) -> None:
        model.problem = f"Revision {model.revision.number} could not be loaded: {problem}"
        model.failures += 1
        model.retry_at = time.monotonic() + min(_RETRY_AFTER * 2 ** (model.failures - 1), _RETRY_AT_LAST)

    def _read(self, model: Model) -> "_Loaded":
        """In a thread."""
        self._running.enter_loading(number_of(model.revision.id))
        try:
            loaded = self._with_lookup(model, self._loaded(model))
            if model.size > _WORTH_GIVING_BACK:
                _give_back()
            return loaded
        finally:
            self._running.leave_thread()

    def _with_lookup(self, model: Model, loaded: "_Loaded") -> "_Loaded":
        try:
            return loaded._replace(lookup=self._look_up(model, loaded.engine))
        except BaseException:
            loaded.engine.close()
            raise

    def _loaded(self, model: Model) -> "_Loaded":
        if self._open is None:
            raise Unavailable("There is no state to serve by yet.")
        files, places = self._open(model.revision), self._places(model)
        if len(places) == 1:
            return self._loaded_alone(model, files, places[0])
        several = Fallback([partial(self._load, files, place) for place in places])
        spare = several.spare()
        return _Loaded(several, self._tune(several), spare, self._tune(spare) if spare.is_there else None)

    def _loaded_alone(self, model: Model, files: ModelFiles, place: Placement) -> "_Loaded":
        if place.threads or place.device != "cpu" or model.revision.runtime in _AS_IT_IS:
            engine = self._load(files, place)
            return _Loaded(engine, self._tune(engine))
        load_on = partial(_on_threads, self._load, files, place)
        return _Loaded(*on_threads_that_pay(load_on, self._tune, self._room.cores))

    def _places(self, model: Model) -> list[Placement]:
        """Best first."""
        wanted, threads = model.endpoint.device, self._room.threads
        gpu, cpu = Placement(device="gpu", threads=threads), Placement(device="cpu", threads=threads)
        if wanted == "gpu":
            return [gpu]
        return [gpu, cpu] if wanted == "auto" and self._room.gpu else [cpu]

    def _take_in(self, model: Model, loaded: "_Loaded") -> None:
        engine, timing = loaded.engine, loaded.timing
        revision = model.revision
        fast = 0 < timing.one_row_s < INLINE_WITHIN and revision.runtime not in _MAY_HANG
        threaded = self._places(model)[0].device != "cpu" or not fast
        model.shape = Shape(
            platform=revision.runtime,
            inputs=tuple(engine.inputs),
            outputs=tuple(engine.outputs),
            columns=tuple(column.name for column in revision.columns)
            or (tuple(engine.columns) if isinstance(engine, Columned) else ()),
            lookup=loaded.lookup,
        )
        model.lookup = loaded.lookup
        first = model.batches = self._batches(model, engine, timing, threaded=threaded)
        if loaded.spare is not None and threaded:
            first.aside = self._batches(model, loaded.spare, loaded.spare_timing, threaded=True, first=first)
        model.watch(model.after, model.after_failure)
        self._present.add(model)

    def _batches(
        self, model: Model, engine: Engine, timing: Timing | None, *, threaded: bool, first: Batches | None = None
    ) -> Batches:
        revision, (objective, longest) = model.revision, _aims(model, threaded=threaded)
        rows, seconds = (timing.batch, timing.row_s_at_batch or timing.one_row_s) if timing is not None else (1, 0.0)
        face = Face(
            endpoint=model.endpoint.name,
            revision=revision.number,
            model=revision.model,
            version=revision.version,
            number=number_of(revision.id),
        )
        return Batches(
            face,
            engine,
            _inputs(engine, model.endpoint.nan),
            BatchSize(rows, seconds, objective=objective, longest=longest),
            counts=model.counts,
            gate=model.gate,
            running=self._running,
            loop=asyncio.get_running_loop(),
            threaded=threaded,
            first=first,
        )

    def _make_room(self, model: Model) -> None:
        """Put out those that were used the longest ago, until there is room; raises where those in use take it all."""
        budget, now = self._room.memory_bytes, time.monotonic()
        if not budget:
            return
        wanted = int(model.size * _IN_MEMORY)
        loaded = [one for one in self._present if one.batches is not None and one is not model]
        taken = sum(int(one.size * _IN_MEMORY) for one in (*loaded, *(one for one in self._tasks if one is not model)))
        for one in sorted(loaded, key=lambda one: one.used):
            if taken + wanted <= budget:
                return
            if one.batches is not None and not one.batches.is_busy and now - one.used >= _RESTS_FOR:
                self.unload(one)
                taken -= int(one.size * _IN_MEMORY)
        if taken + wanted > budget:
            raise Unavailable(
                f"it takes about {wanted >> 20} MiB of memory, and other models use {taken >> 20} of {budget >> 20} MiB"
            )


def _on_threads(load: Load, files: ModelFiles, place: Placement, threads: int) -> Engine:
    return load(files, replace(place, threads=threads))


def _give_back() -> None:
    """Memory that was freed, to the machine: the C library keeps it otherwise, and a worker stays as large as it ever was."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # GNU's has it
    if trim is not None:
        trim(0)


def _aims(model: Model, *, threaded: bool) -> tuple[float, float]:
    """The objective in seconds, and how long one run may take: a request waits for one run and is in the next."""
    objective = model.endpoint.latency_ms / 1000
    return objective, objective / 2 if threaded else min(objective / 2, _LONGEST_INLINE)


def _inputs(engine: Engine, nan: Nan) -> Inputs:
    return Inputs(engine.inputs, batches=engine.batches, nan=nan)
