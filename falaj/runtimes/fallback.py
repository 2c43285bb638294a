"""One engine out of several: the first that is well answers. A GPU that fails hands over to the CPU, and is tried again.

The others need not stand idle while the first is well: `Spare` is what another thread may run meanwhile.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from falaj.base.errors import FalajError
from falaj.runtimes.engine import Array, Engine, Memory, ModelFiles, Overlapping, Placement, Remembering, TensorSpec, UnderWay
from falaj.runtimes.errors import DeviceMissing, EngineFailed, EngineMissing, NotLoadable
from falaj.runtimes.loading import load

Load = Callable[[], Engine]
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 600.0


def load_with_fallback(files: ModelFiles, placements: Sequence[Placement]) -> Engine:
    """The model at each of these places that there is, best first."""
    if len(placements) == 1:
        return load(files, placements[0])
    return Fallback([lambda place=placement: load(files, place) for placement in placements])  # type: ignore[misc]


class _Choice:
    """One of the engines; while there is none, when the next is to be made, and whether one is being made."""

    def __init__(self, make: Load) -> None:
        self.make = make
        self.engine: Engine | None = None
        self.due = 0.0
        self.pause = FIRST_PAUSE
        self.mending = False
        self.lock = threading.Lock()  # an engine belongs to one thread at a time

    def rest(self, now: float) -> None:
        self.close()  # what failed may have broken it: the next one is made anew
        self.due = now + self.pause
        self.pause = min(2 * self.pause, LONGEST_PAUSE)

    def run(self, engine: Engine, arrays: Sequence[Array]) -> Sequence[Array]:
        with self.lock:
            return engine.run(arrays)

    def close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            with self.lock:
                engine.close()


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="mending an engine", daemon=True).start()


class Fallback:
    """An `Engine`. All that can be loaded are loaded at once, so that handing over takes no longer than one answer.

    A failure counts against an engine only where another answers the same inputs: what none can answer is the inputs' or
    the model's fault. One that failed is left alone for a while, longer each time, then made anew beside the calls, for that
    may take minutes, and preferred again when it is there.
    """

    def __init__(
        self,
        loads: Sequence[Load],
        *,
        now: Callable[[], float] = time.monotonic,
        aside: Callable[[Callable[[], None]], None] = _in_a_thread,
    ) -> None:
        self._now, self._aside, self._closed = now, aside, False
        self._choices = [_Choice(make) for make in loads]
        errors: list[FalajError] = []
        for choice in self._choices:
            try:
                choice.engine = choice.make()
            except (DeviceMissing, EngineMissing, EngineFailed, NotLoadable) as error:
                choice.rest(now())
                errors.append(error)
        loaded = [choice.engine for choice in self._choices if choice.engine is not None]
        if not loaded:
            raise errors[-1]
        self.inputs: Sequence[TensorSpec] = loaded[0].inputs
        self.outputs: Sequence[TensorSpec] = loaded[0].outputs
        self.batches = all(engine.batches for engine in loaded)
        self.device = loaded[0].device
        overlapping = loaded[0] if isinstance(loaded[0], Overlapping) else None
        self.lanes = overlapping.lanes if overlapping is not None else 1
        self.most_rows = overlapping.most_rows if overlapping is not None else 1
        if not all(self._can_stand_in(engine) for engine in loaded):
            self.close()
            raise NotLoadable("the variants of the model take or give different tensors: one cannot stand in for the other")

    def _can_stand_in(self, engine: Engine) -> bool:
        same = tuple(engine.inputs) == tuple(self.inputs) and tuple(engine.outputs) == tuple(self.outputs)
        return same and engine.batches >= self.batches

    def spare(self) -> "Spare":
        return Spare(self, self._choices)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        return self._run(arrays, {})

    def _run(self, arrays: Sequence[Array], tried: "dict[_Choice, tuple[Engine, EngineFailed]]") -> Sequence[Array]:
        """`tried` are those that failed with these inputs already."""
        failed = [choice for choice, (engine, _) in tried.items() if choice.engine is engine]
        last = next((error for _, error in tried.values()), EngineFailed("the engine is closed"))
        for choice in self._choices:
            engine = choice.engine
            if engine is None:
                self._mend(choice)
                continue
            if choice in failed:
                continue
            try:
                answers = choice.run(engine, arrays)
            except EngineFailed as error:
                last = error
                failed.append(choice)
                continue
            if failed:
                for unwell in failed:
                    unwell.rest(self._now())
            self.device = engine.device
            return answers
        raise last

    def begin(self, arrays: Sequence[Array]) -> UnderWay:
        """On the first, where that is well and can; what it fails to answer the others answer when it is waited for. They may
        be somebody else's meanwhile, so nothing is left under way on them."""
        choice = self._choices[0]
        engine = choice.engine
        if engine is None or not isinstance(engine, Overlapping) or engine.lanes < self.lanes:
            return _Begun(self, arrays)
        try:
            return _Begun(self, arrays, choice, engine, engine.begin(arrays))
        except EngineFailed as error:
            return _Begun(self, arrays, choice, engine, error)

    def end(self, begun: "_Begun") -> Sequence[Array]:
        if begun.choice is None or begun.engine is None or begun.run is None:
            return self._run(begun.arrays, {})
        try:
            if isinstance(begun.run, EngineFailed):
                raise begun.run
            answers = begun.run.answers()
        except EngineFailed as error:
            return self._run(begun.arrays, {begun.choice: (begun.engine, error)})
        self.device = begun.engine.device
        return answers

    def memory(self, length: int) -> Memory | None:
        first = self._choices[0].engine
        return first.memory(length) if first is not None and isinstance(first, Remembering) else None

    def _mend(self, choice: _Choice) -> None:
        if choice.mending or self._now() < choice.due:
            return
        choice.mending = True

        def mend() -> None:
            try:
                made = choice.make()
                if not self._can_stand_in(made):
                    made.close()
                    raise NotLoadable("the variants of the model take or give different tensors")
                self._put_in(choice, made)
            except FalajError:
                choice.rest(self._now())
            finally:
                choice.mending = False

        self._aside(mend)

    def _put_in(self, choice: _Choice, made: Engine) -> None:
        """It has answered at load; how long it rests next time shrinks only slowly, for it may be failing on and off."""
        choice.engine = made
        choice.pause = max(FIRST_PAUSE, choice.pause / 4)
        if self._closed:
            self.close()

    def close(self) -> None:
        self._closed = True
        for choice in self._choices:
            choice.due = float("inf")
            choice.close()


class Spare:
    """An `Engine` over all but the first of a fallback's, for another thread. `is_there` says whether it could help: the first
    is well, and one of the others. Closing it closes nothing; it is the fallback's."""

    def __init__(self, of: Fallback, choices: Sequence[_Choice]) -> None:
        self._first, self._others = choices[0], choices[1:]
        self.inputs, self.outputs, self.batches = of.inputs, of.outputs, of.batches
        self.device = next((one.engine.device for one in self._others if one.engine is not None), "none")

    @property
    def is_there(self) -> bool:
        return self._first.engine is not None and any(one.engine is not None for one in self._others)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        for choice in self._others:
            engine = choice.engine
            if engine is not None:
                return choice.run(engine, arrays)
        raise EngineFailed("none of the other engines is well")

    def close(self) -> None: ...


class _Begun:
    """A run that one of the engines has begun, or failed to; or that is to begin when it is waited for."""

    def __init__(
        self,
        fallback: Fallback,
        arrays: Sequence[Array],
        choice: _Choice | None = None,
        engine: Engine | None = None,
        run: UnderWay | EngineFailed | None = None,
    ) -> None:
        self.arrays, self.choice, self.engine, self.run, self._fallback = arrays, choice, engine, run, fallback

    def is_done(self) -> bool:
        return self.run is None or isinstance(self.run, EngineFailed) or self.run.is_done()

    def answers(self) -> Sequence[Array]:
        return self._fallback.end(self)
