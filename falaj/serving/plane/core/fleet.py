"""Models come into memory and leave it: loaded in threads of their own, tuned, kept within a budget, put out when idle.

Nothing that is asked fails by it: who asks for a model that is out of memory waits for it, among a bounded number. The rungs of
its ladder are loaded after it, where there is room for them: they are a help, and nobody waits for them.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from falaj.base.errors import FalajError, Unavailable
from falaj.runtimes.engine import Columned, Engine, Stoppable
from falaj.runtimes.errors import EngineMissing, NotLoadable
from falaj.serving.plane.core.batches import Batches
from falaj.serving.plane.core.inputs import Inputs, Nan
from falaj.serving.plane.core.ladders import look, measure, why_unfit
from falaj.serving.plane.core.models import Model, Parked, Rung, Shape
from falaj.serving.plane.core.reading import Load, Loaded, LookUp, Open, Reader, Room, Timing, Tune, give_back, row_seconds
from falaj.serving.plane.core.running import Running
from falaj.serving.plane.core.runs import Face
from falaj.serving.plane.core.sizes import BatchSize
from falaj.serving.plane.marks import number_of

INLINE_WITHIN: Final = 0.001  # seconds for one row: a faster model is not worth a thread
_MAY_HANG: Final = frozenset({"python"})  # whatever was measured: users' code may do anything the next time
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
        self._running, self._resume = running, resume
        self.reader = Reader(load, tune, room, running, look_up)
        self._threads = ThreadPoolExecutor(_LOADS_AT_MOST, thread_name_prefix="loading")
        self._slots = asyncio.Semaphore(_LOADS_AT_ONCE)
        self.loads_within = LOADS_WITHIN
        self._tasks: dict[Model, asyncio.Task[None]] = {}
        self._laddering: dict[Model, asyncio.Task[None]] = {}  # whose rungs are being loaded
        self._leaving: set[asyncio.Task[None]] = set()
        self._present: set[Model] = set()

    def read_with(self, read: Open) -> None:
        self.reader.read_with(read)

    async def ensure(self, model: Model) -> None:
        """Have it in memory, with its ladder. What goes wrong is in its `problem`, and in its rungs' remarks."""
        if model.batches is None:
            await asyncio.shield(self.begin(model))
        if (laddering := self._laddering.get(model)) is not None:
            await asyncio.shield(laddering)

    def begin(self, model: Model) -> asyncio.Task[None]:
        task = self._tasks.get(model)
        if task is None:
            model.is_loading = True
            task = self._tasks[model] = asyncio.get_running_loop().create_task(self._bring(model))
        return task

    def complete(self, model: Model) -> None:
        """Have the rungs loaded that are not there, and may be by now."""
        own, wanting = model.own, any(rung.batches is None and not rung.is_unfit for rung in model.rungs[1:])
        if own is not None and wanting and model not in self._laddering:
            self._laddering[model] = asyncio.get_running_loop().create_task(self._bring_rungs(model, own))

    def look(self, now: float) -> None:
        """Have each model answer in the form that the load wants."""
        for model in self._present:
            if len(model.rungs) > 1:
                look(model, now)

    def aim(self, model: Model) -> None:
        """Take over what the endpoint's options say now."""
        for place in model.places:
            place.size.aim(*_aims(model, threaded=place.threaded))
            if place.inputs.nan != model.endpoint.nan:
                place.inputs = _inputs(place.engine, model.endpoint.nan)

    def unload(self, model: Model) -> None:
        """Out of memory once its last request is answered; the next one has it loaded again."""
        if (own := model.leave_memory()) is not None:
            self._let_go(self._close(model, own))

    def _let_go(self, closing: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(closing)
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
        return model in self._present or model in self._tasks or model in self._laddering

    def unload_idle(self, now: float) -> None:
        for model in list(self._present):
            idle = model.endpoint.idle_seconds
            if idle and model.own is not None and not model.own.is_busy and now - model.used > idle:
                self.unload(model)

    def stop_hanging(self, now: float) -> None:
        """A run that takes far too long is given up where its engine can do that; else the supervisor ends the worker."""
        for place in (place for model in self._present for place in model.places):
            if place.since and now - place.since > _HANGS_AFTER and isinstance(place.engine, Stoppable):
                place.engine.stop()
        for model in (*self._tasks, *self._laddering):
            if model.loading_since and now - model.loading_since > _LOADING_HANGS_AFTER:
                self._running.accuse(number_of(model.revision.id))

    async def close(self) -> None:
        tasks = [*self._tasks.values(), *self._laddering.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for model in list(self._present):
            self.unload(model)
        await asyncio.gather(*self._leaving)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _close(self, model: Model, batches: Batches) -> None:
        await _closed(batches)
        del batches
        if model.size > _WORTH_GIVING_BACK:
            await asyncio.to_thread(give_back)
        if model.batches is None:
            self._present.discard(model)

    async def _bring(self, model: Model) -> None:
        started = time.monotonic()
        try:
            self._make_room(model)
            self._take_in(model, await self._read_apart(model, partial(self.reader.read, model)))
            model.problem, model.failures = "", 0
            model.counts.cold_start_ms = (time.monotonic() - started) * 1000
        except Exception as error:  # noqa: BLE001 - whatever a library raises, the old split goes on
            self._note(model, _words(error))
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
        else:
            self.complete(model)

    async def _read_apart(self, model: Model, read: Callable[[], Loaded], rung: Rung | None = None) -> Loaded:
        """A model that takes for ever to load must not keep others from being loaded."""
        async with self._slots:
            model.loading_since = time.monotonic()
            reading = asyncio.get_running_loop().run_in_executor(self._threads, read)
            done, _ = await asyncio.wait({reading}, timeout=self.loads_within)
        if not done:
            model.is_late = True
            late = f"has been loading for more than {self.loads_within:.0f} seconds."
            if rung is None:
                model.problem = f"Revision {model.revision.number} {late}"
            else:
                rung.remark = f"It {late}"
        return await reading

    async def _bring_rungs(self, model: Model, own: Batches) -> None:
        """Until the model leaves memory; one that cannot be loaded is passed over."""
        try:
            for rung in model.rungs[1:]:
                if rung.batches is None and not rung.is_unfit and model.own is own:
                    await self._bring_rung(model, own, rung)
        finally:
            del self._laddering[model]
            model.is_late = False
            model.loading_since = 0.0

    async def _bring_rung(self, model: Model, own: Batches, rung: Rung) -> None:
        wanted, budget = int(rung.size * _IN_MEMORY), self.reader.room.memory_bytes
        if budget and self._taken({*self._present, *self._tasks}) + wanted > budget:
            rung.remark = f"It takes about {wanted >> 20} MiB of memory, which are not free: it is not used."
            return
        try:
            loaded = await self._read_apart(model, partial(self.reader.read_rung, model, rung.form), rung)
        except Exception as error:  # noqa: BLE001 - whatever a library raises, the model goes on without it
            rung.remark = f"It could not be loaded, and is not used: {_words(error)}"
            rung.is_unfit = isinstance(error, NotLoadable | EngineMissing)  # a file that is not here may come
            return
        measure(rung, loaded)
        why = why_unfit(model, rung, loaded.engine, self.reader.room.host) if model.own is own else "the model left memory"
        if why:
            rung.remark, rung.is_unfit = f"{why[0].upper()}{why[1:]}.", model.own is own
            await asyncio.to_thread(loaded.engine.close)
            return
        threaded = self._is_threaded(model, rung.form.runtime, loaded.timing)
        rung.batches = self._batches(model, rung, loaded.engine, loaded.timing, threaded=threaded, first=own)
        rung.remark = ""
        own.rungs += (rung.batches,)
        model.watch(model.after, model.after_failure)

    def _note(self, model: Model, problem: str) -> None:
        model.problem = f"Revision {model.revision.number} could not be loaded: {problem}"
        model.failures += 1
        model.retry_at = time.monotonic() + min(_RETRY_AFTER * 2 ** (model.failures - 1), _RETRY_AT_LAST)

    def _is_threaded(self, model: Model, runtime: str, timing: Timing) -> bool:
        is_fast = 0 < timing.one_row_s < INLINE_WITHIN and runtime not in _MAY_HANG
        return self.reader.places(model)[0].device != "cpu" or not is_fast

    def _take_in(self, model: Model, loaded: Loaded) -> None:
        engine, timing, own = loaded.engine, loaded.timing, model.rungs[0]
        revision = model.revision
        threaded = self._is_threaded(model, revision.runtime, timing)
        model.shape = Shape(
            platform=revision.runtime,
            inputs=tuple(engine.inputs),
            outputs=tuple(engine.outputs),
            columns=tuple(column.name for column in revision.columns)
            or (tuple(engine.columns) if isinstance(engine, Columned) else ()),
            lookup=loaded.lookup,
            batches=engine.batches,
        )
        model.lookup = loaded.lookup
        measure(own, loaded)
        first = own.batches = self._batches(model, own, engine, timing, threaded=threaded)
        if loaded.spare is not None and threaded:
            first.aside = self._batches(model, own, loaded.spare, loaded.spare_timing, threaded=True, first=first)
        model.stand_on(0)
        model.watch(model.after, model.after_failure)
        self._present.add(model)

    def _batches(
        self, model: Model, rung: Rung, engine: Engine, timing: Timing | None, *, threaded: bool, first: Batches | None = None
    ) -> Batches:
        revision, (objective, longest) = model.revision, _aims(model, threaded=threaded)
        rows, seconds = (timing.batch, row_seconds(timing)) if timing is not None else (1, 0.0)
        face = Face(
            endpoint=model.endpoint.name,
            revision=revision.number,
            model=revision.model,
            version=revision.version,
            number=number_of(revision.id),
            variant=rung.name if model.variant else "",
        )
        return Batches(
            face,
            engine,
            _inputs(engine, model.endpoint.nan),
            BatchSize(rows, seconds, objective=objective, longest=longest),
            counts=model.counts,
            tally=rung.tally,
            gate=model.gate,
            running=self._running,
            loop=asyncio.get_running_loop(),
            threaded=threaded,
            first=first,
        )

    def _make_room(self, model: Model) -> None:
        """Put out those that were used the longest ago, then rungs that do not answer now, until there is room; raises where
        those in use take it all."""
        budget, now = self.reader.room.memory_bytes, time.monotonic()
        if not budget:
            return
        wanted = int(model.size * _IN_MEMORY)
        others = sorted((one for one in self._present if one.own is not None and one is not model), key=lambda one: one.used)
        loading = [one for one in self._tasks if one is not model]
        for one in others:
            if self._taken((*others, *loading)) + wanted <= budget:
                return
            if one.own is not None and not one.own.is_busy and now - one.used >= _RESTS_FOR:
                self.unload(one)
        for one in others:
            if self._taken((*others, *loading)) + wanted > budget:
                self._drop_rungs(one)
        if (taken := self._taken((*others, *loading))) + wanted > budget:
            raise Unavailable(
                f"it takes about {wanted >> 20} MiB of memory, and other models use {taken >> 20} of {budget >> 20} MiB"
            )

    def _taken(self, models: Iterable[Model]) -> int:
        """By those that are in memory, or will be."""
        held = (one.size_in_memory for one in models if one.own is not None or one in self._tasks)
        return sum(int(size * _IN_MEMORY) for size in held)

    def _drop_rungs(self, model: Model) -> None:
        own = model.own
        for place, rung in enumerate(model.rungs):
            batches = rung.batches
            if own is None or batches is None or place in (0, model.at):
                continue
            rung.batches, rung.remark = None, "Other models needed its memory: it is not used."
            own.rungs = tuple(one for one in own.rungs if one is not batches)
            self._let_go(_closed(batches))


async def _closed(batches: Batches) -> None:
    while batches.is_busy:  # noqa: ASYNC110 - nothing on the hot path for the sake of this
        await asyncio.sleep(0.005)
    await batches.close()


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, FalajError) else f"{type(error).__name__}: {error}"


def _aims(model: Model, *, threaded: bool) -> tuple[float, float]:
    """The objective in seconds, and how long one run may take: a request waits for one run and is in the next."""
    objective = model.endpoint.latency_ms / 1000
    return objective, objective / 2 if threaded else min(objective / 2, _LONGEST_INLINE)


def _inputs(engine: Engine, nan: Nan) -> Inputs:
    return Inputs(engine.inputs, batches=engine.batches, nan=nan)
