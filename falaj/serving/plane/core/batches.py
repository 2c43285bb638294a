"""Requests of one model become batches, batches become answers.

What one turn of the loop made ready runs together, without a fixed wait. A fast model runs on the loop itself; a slow one in a
thread of its own, which takes whatever waits by the time it is free. A device that has several runs under way at once gets what
waits in as many parts, so that it works while answers go out and the next requests come in. One bad request does not fail its
neighbours. Where the model is in a second place as well, that one has batches of its own, `aside`: see `spilling`; and so have
the faster variants that may stand in for it, `rungs`: see `ladders`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

from falaj.base.errors import FalajError, Invalid
from falaj.runtimes.engine import Array, Engine, Overlapping, Remembering
from falaj.runtimes.errors import EngineFailed, Rejected
from falaj.runtimes.fallback import Spare
from falaj.serving.plane.asking import Answer, Ask, DeadlinePassed
from falaj.serving.plane.core.admission import Gate
from falaj.serving.plane.core.counts import Counts, Tally
from falaj.serving.plane.core.gathering import After, AfterFailure, Gathering, Item, nowhere
from falaj.serving.plane.core.inputs import Inputs
from falaj.serving.plane.core.picking import Pieces, pick, run_in_pieces
from falaj.serving.plane.core.running import Running
from falaj.serving.plane.core.runs import Face, Run
from falaj.serving.plane.core.sizes import BatchSize
from falaj.serving.plane.core.spilling import is_behind, is_free
from falaj.serving.plane.marks import INLINE

_SECONDS_OF_A_TURN: Final = 0.005  # after which a model leaves the loop to others
_WORTH_PARTING: Final = 16  # requests: fewer take a device hardly longer together than in two parts
_APART: Final = 0.7  # of what a run takes alone: so much later does the next one begin
_SHUT_FOR: Final = 10.0  # seconds that a second place which failed gets nothing
_LOOKS_AGAIN: Final = 50e-6  # seconds, whether a run is over, while there is room for another
# Seconds after which a thread hands over to another that waits: at Python's default of 5 ms, a model's thread would gather
# rows only when the loop has answered everybody.
SWITCH_AFTER: Final = 0.0002


def _at_once(do: Callable[..., object], *arguments: object) -> None:
    do(*arguments)


class Batches:
    """`rows_waiting` counts rows that wait or run, `long_rows` those of requests larger than a batch. `turn` is called by
    the loop; with `threaded`, it only wakes the thread."""

    def __init__(
        self,
        face: Face,
        engine: Engine,
        inputs: Inputs,
        size: BatchSize,
        *,
        counts: Counts,
        tally: Tally | None = None,
        gate: Gate,
        running: Running,
        loop: asyncio.AbstractEventLoop,
        threaded: bool,
        first: "Batches | None" = None,
    ) -> None:
        """`first` is whose second place or variant this is: it gets back what fails here."""
        self.engine, self.inputs, self.size = engine, inputs, size
        self.aside: Batches | None = None
        self.rungs: tuple[Batches, ...] = ()
        self.is_behind = False
        self._first, self._shut_until = first, 0.0
        self._spare = engine if isinstance(engine, Spare) else None
        self.rows_waiting = 0
        self.long_rows = 0
        self.last_used = time.monotonic()
        self.after: After | None = None
        self.after_failure: AfterFailure | None = None
        self.threaded = threaded
        self.since = 0.0  # when the run in the thread began; 0 while there is none
        self.scheduled = False  # to be run at the next turn of the loop
        self.together = engine.batches
        self.names = tuple(spec.name for spec in engine.outputs)
        self.datatypes = tuple(spec.datatype for spec in engine.outputs)
        self.waiting: deque[Item] = deque()
        self.longs: deque[Item] = deque()
        self._face, self._counts, self._gate, self._running, self._loop = face, counts, gate, running, loop
        self._tally = tally or Tally()
        self._long: tuple[Pieces, Item] | None = None  # a request larger than a batch, on its way piece by piece
        self._awake = False
        self._signals: SimpleQueue[bool] = SimpleQueue()
        self._begins = engine if isinstance(engine, Overlapping) and engine.lanes > 1 else None
        self._lanes = self._begins.lanes if self._begins is not None else 1
        self._runs: deque[Run] = deque()  # those that have begun
        self._gathered: Gathering | None = None  # what is to begin next
        self._is_early = False  # whether it is worth the while to gather some while others still come
        self._remember = engine.memory if isinstance(engine, Remembering) else nowhere
        self._thread: Thread | None = None
        if threaded:
            self._thread = Thread(target=self._work, name=f"model {face.endpoint}:{face.revision}", daemon=True)
            self._thread.start()

    def add(self, item: Item) -> None:
        """The gate let it in already."""
        rows = item[2]
        if self._spare is not None:
            self._counts.of(item[0]).aside += 1
        if rows > self.size.size and self.together:
            self.long_rows += rows
            self.longs.append(item)
        else:
            self.rows_waiting += rows
            self.waiting.append(item)

    @property
    def is_busy(self) -> bool:
        return any(place.rows_waiting or place.long_rows for place in self.places)

    @property
    def used(self) -> float:
        """When it last answered, monotonic."""
        return max(place.last_used for place in self.places)

    @property
    def places(self) -> "tuple[Batches, ...]":
        """All that run for this model."""
        return (self, *self.rungs) if self.aside is None else (self, self.aside, *self.rungs)

    def place_for(self, rows: int) -> "Batches":
        """Here, or beside it while this is behind and that is not."""
        self.is_behind = is_behind(self.is_behind, self.size.wait(self.rows_waiting), self.size.objective)
        if self.is_behind and self.aside is not None and self.aside.takes(rows):
            return self.aside
        return self

    @property
    def is_shut(self) -> bool:
        """It failed a moment ago, and what failed went to the first place."""
        return time.monotonic() < self._shut_until

    def takes(self, rows: int) -> bool:
        if self.is_shut or self._spare is None or not self._spare.is_there:
            return False
        if not self.size.row_seconds:  # nobody knows yet how fast it is: one request finds out
            return not self.rows_waiting
        return is_free(self.size.wait(self.rows_waiting + self.long_rows + rows), self.size.objective)

    def turn(self) -> bool:
        """Run what waits, or have it run. True where something is left for the next turn."""
        if self.threaded:
            if not self._awake:
                self._awake = True
                self._signals.put(True)
            return False
        now = time.monotonic()
        end = now + _SECONDS_OF_A_TURN
        while self.waiting and now < end:
            batch, rows, dropped = pick(self.waiting, now, self.size.size, self.inputs.fixed, self.together)
            if dropped:
                self._drop(dropped)
            if batch:
                now = self._run_inline(batch, rows, now)
        if self.long_rows:
            self._running.numbers[INLINE] = self._face.number
            self._go_on(_at_once)
            self._running.numbers[INLINE] = 0
        return self._has_work()

    def _has_work(self) -> bool:
        return bool(self.waiting or self.longs or self._long is not None)

    async def close(self) -> None:
        """After the last request was answered."""
        for place in self.places[1:]:
            await place.close()
        if self._thread is not None:
            self._signals.put(False)
            await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self.engine.close)

    # What a model is given and gives

    def _arrays(self, batch: list[Item], rows: int) -> list[Array]:
        return self.inputs.stack([item[3] for item in batch], rows, batch[0][4])

    def _check(self, outputs: Sequence[Array], rows: int) -> None:
        """Rows that do not match would go to the wrong callers."""
        for array in outputs:
            if not array.shape or array.shape[0] != rows:
                self.together = False
                raise EngineFailed(f"The model was given {rows} rows and answered with shape {list(array.shape)}.")

    # On the loop

    def _run_inline(self, batch: list[Item], rows: int, started: float) -> float:
        numbers = self._running.numbers
        try:
            arrays = self._arrays(batch, rows)
            numbers[INLINE] = self._face.number
            outputs = self.engine.run(arrays)
            numbers[INLINE] = 0
            if len(batch) > 1:
                self._check(outputs, rows)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises, somebody waits for an answer
            numbers[INLINE] = 0
            if len(batch) == 1:
                self._fail(batch, error)
            else:
                for item in batch:
                    self._run_inline([item], item[2], time.monotonic())
            return time.monotonic()
        done = time.monotonic()
        self.size.observe(rows, done - started, bool(self.waiting))
        self._answer(batch, arrays, outputs, rows, 1)
        return self.last_used

    # Requests larger than a batch: piece by piece, one of them at a time, in turns with the others

    def _go_on(self, post: Callable[..., object]) -> None:
        if self._long is None:
            if not self.longs:
                return
            item = self.longs.popleft()
            self._long = self._piecewise(item), item
        pieces, item = self._long
        try:
            next(pieces)
        except StopIteration as end:
            self._long = None
            post(self._answer_long, item, *end.value)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises, somebody waits for an answer
            self._long = None
            post(self._fail_long, item, error)

    def _answer_long(self, item: Item, arrays: list[Array], outputs: list[Array], runs: int) -> None:
        self._count_as_short(item)
        self._answer([item], arrays, outputs, item[2], runs)

    def _fail_long(self, item: Item, error: Exception) -> None:
        self._count_as_short(item)
        if isinstance(error, DeadlinePassed):  # the caller's own, which says nothing about the model
            self._drop([item])
        else:
            self._fail([item], error)

    def _count_as_short(self, item: Item) -> None:
        self.long_rows -= item[2]
        self.rows_waiting += item[2]

    def _piecewise(self, item: Item) -> Pieces:
        return (yield from run_in_pieces(item, self._arrays([item], item[2]), self.size.size, self._run_piece))

    def _run_piece(self, arrays: list[Array], rows: int) -> Sequence[Array]:
        outputs = self.engine.run(arrays)
        self._check(outputs, rows)
        return outputs

    # In the thread

    def _work(self) -> None:
        while self._signals.get():
            while True:
                while self._runs or self._gathered is not None or self._has_work():
                    self._step()
                if self.since:
                    self._leave_thread()
                self._awake = False
                if not self._has_work():  # what came in between may have found us awake
                    break
                self._awake = True

    def _step(self) -> None:
        """Begin a run where there is room for one and enough waits for it; else wait for the oldest that has begun."""
        runs = self._runs
        if len(runs) < self._lanes:
            if not runs:
                self._enter_thread()
            self._go_on(self._loop.call_soon_threadsafe)
            if self._begin():
                return
        if not runs:
            return
        under_way = runs[0].under_way
        if len(runs) == self._lanes or under_way is None or under_way.is_done():
            if under_way is not None and not under_way.is_done() and self._gather():
                return  # while the device works; and perhaps there are more by now
            self._end(runs.popleft())
            self._enter_thread()
        else:
            self._awake = False  # who comes now wakes us
            with suppress(Empty):
                self._signals.get(timeout=_LOOKS_AGAIN)
            self._awake = True

    def _enter_thread(self) -> None:
        self._running.enter_thread(self._face.number)
        self.since = time.monotonic()

    def _leave_thread(self) -> None:
        self.since = 0.0
        self._running.leave_thread()

    @property
    def _limit(self) -> int:
        return min(self.size.size, self._begins.most_rows) if self._begins is not None else self.size.size

    def _begin(self) -> bool:
        """Whether anything could be done: rows gathered, or a run begun."""
        took = self._gather()
        gathered, runs = self._gathered, self._runs
        if gathered is None or self._is_too_early(gathered):
            return took
        self._gathered = None
        batch, rows, started = gathered.batch, gathered.rows, gathered.started
        try:
            arrays, under_way = gathered.arrays(), None
            if self._begins is not None:
                under_way = self._begins.begin(arrays)
                started = time.monotonic()
            runs.append(Run(batch, rows, arrays, under_way, started, len(runs) + 1))
        except Exception as error:  # noqa: BLE001 - whatever an engine raises, somebody waits for an answer
            self._fail_or_part(batch, error)
        return True

    def _is_too_early(self, gathered: Gathering) -> bool:
        """While others run: until as many are there as the last run has, and until that has been under way for a while. Two
        that begin together end together, and the device has nothing to do while both are answered."""
        if not self._runs:
            return False
        last = self._runs[-1]
        if gathered.rows < min(self._limit, last.rows):
            return True
        apart = _APART * self.size.wait(last.rows)
        return last.rows >= _WORTH_PARTING // 2 and time.monotonic() - last.started < apart

    def _gather(self) -> bool:
        """Put what waits together for the next run, up to as much as gives all lanes the same. Whether anything was."""
        waits, gathered, runs = len(self.waiting), self._gathered, self._runs
        if not waits:
            return False
        limit, rows = self._limit, gathered.rows if gathered is not None else 0
        if self._begins is None or not self.together:
            part = limit
        else:
            every = waits + rows + sum(run.rows for run in runs)
            part = min(limit, max(_WORTH_PARTING // 2, -(-every // self._lanes)))
        if rows >= part or (gathered is None and runs and waits < min(limit, runs[-1].rows) and not self._is_early):
            return False
        started = time.monotonic()
        fixed, together = self.inputs.fixed, self.together
        batch, count, dropped = pick(self.waiting, started, part - rows, fixed, together, alone=gathered is None)
        if dropped:
            self._loop.call_soon_threadsafe(self._drop, dropped)
        if not batch:
            return bool(dropped)
        if gathered is None:
            gathered = self._gathered = Gathering(self.inputs, batch[0][4], max(limit, count), self._remember, started)
            self._is_early = gathered.is_early and self.inputs.fixed and self.together
        gathered.add(batch, count)
        return True

    def _end(self, run: Run) -> None:
        batch, rows = run.batch, run.rows
        try:
            outputs = self.engine.run(run.arrays) if run.under_way is None else run.under_way.answers()
            if len(batch) > 1:
                self._check(outputs, rows)
            # Those that run beside each other share the device, and each had its part of the time.
            shared_by = (run.beside + len(self._runs) + 1) / 2
            self.size.observe(rows, (time.monotonic() - run.started) / shared_by, bool(self.waiting))
            self._loop.call_soon_threadsafe(self._answer, batch, run.arrays, outputs, rows, 1)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises, somebody waits for an answer
            self._fail_or_part(batch, error)

    def _fail_or_part(self, batch: list[Item], error: Exception) -> None:
        if len(batch) == 1:
            self._loop.call_soon_threadsafe(self._fail, batch, error)
        else:
            self._one_by_one(batch)

    def _one_by_one(self, batch: list[Item]) -> None:
        for item in batch:
            try:
                arrays = self._arrays([item], item[2])
                self._loop.call_soon_threadsafe(self._answer, [item], arrays, self.engine.run(arrays), item[2], 1)
            except Exception as error:  # noqa: BLE001 - whatever an engine raises, somebody waits for an answer
                self._loop.call_soon_threadsafe(self._fail, [item], error)

    # How it ended, always on the loop

    def _answer(self, batch: list[Item], arrays: Sequence[Array], outputs: Sequence[Array], rows: int, runs: int) -> None:
        face, names, datatypes, start = self._face, self.names, self.datatypes, 0
        endpoint, revision, version, model, variant = face.endpoint, face.revision, face.version, face.model, face.variant
        alone, single = len(batch) == 1, outputs[0] if len(outputs) == 1 else None
        arrivals, weight, pinned = [], 0, False
        for ask, _, count, _, _, bytes_of_it in batch:
            stop = start + count
            weight += bytes_of_it
            arrivals.append(ask.arrived)
            if ask.is_pinned:
                pinned = True
            if alone:
                mine: Sequence[Array] = outputs
            elif single is not None:
                mine = (single[start:stop],)
            else:
                mine = [array[start:stop] for array in outputs]
            start = stop
            try:
                if ask.wanted:
                    ask.reply.answer(self._selected(ask, mine))
                else:
                    ask.reply.answer(Answer(endpoint, revision, version, ask.id, names, datatypes, mine, model, variant))
            except Exception as error:  # noqa: BLE001 - replies do not raise; should one, the others are answered still
                self._loop.call_exception_handler({"message": "an answer was not taken", "exception": error})
        now = self.last_used = time.monotonic()
        self.rows_waiting -= rows
        self._gate.leave(len(batch), weight)
        if pinned:
            self._counts.answered_both(batch, now, runs)
        else:
            self._counts.batches += runs
            self._counts.answered(arrivals, now, rows)
        self._tally.requests += len(batch)
        self._tally.rows += rows
        if self.after is not None:
            self.after(batch, arrays, outputs, now)

    def _selected(self, ask: Ask, arrays: Sequence[Array]) -> Answer:
        chosen = [self.names.index(name) for name in ask.wanted]
        datatypes = [self.datatypes[index] for index in chosen]
        face = self._face
        arrays = [arrays[index] for index in chosen]
        told = (ask.id, ask.wanted, datatypes, arrays, face.model, face.variant)
        return Answer(face.endpoint, face.revision, face.version, *told)

    def _leave(self, items: Sequence[Item]) -> None:
        for item in items:
            self.rows_waiting -= item[2]
            self._gate.leave(1, item[5])

    def _hand_back(self, first: "Batches", items: Sequence[Item]) -> None:
        """What fails in a second place, or in a variant, is no more than late; the first knows whether it fails there, too."""
        self._shut_until = time.monotonic() + _SHUT_FOR
        for item in items:
            self.rows_waiting -= item[2]
            first.add(item)
        first.wake()

    def wake(self) -> None:
        """Have what waits run, where nobody else schedules it."""
        if self.turn():
            self._loop.call_soon(self.wake)

    def _fail(self, items: Sequence[Item], error: Exception) -> None:
        if self._first is not None and (isinstance(error, EngineFailed) or not isinstance(error, FalajError)):
            self._hand_back(self._first, items)
            return
        self._leave(items)
        if not isinstance(error, FalajError):
            error = EngineFailed(f"The model failed: {type(error).__name__}.")
        blameless = isinstance(error, Invalid) and not isinstance(error, Rejected)  # what it was given is no input at all
        for item in items:
            if not blameless:
                self._counts.of(item[0]).failed()
            item[0].reply.refuse(error)
            if self.after_failure is not None:
                self.after_failure(item, error)

    def _drop(self, items: Sequence[Item]) -> None:
        self._leave(items)
        for item in items:
            self._counts.of(item[0]).shed += 1
            item[0].reply.refuse(DeadlinePassed("The deadline passed before the answer was there."))
