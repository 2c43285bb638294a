"""`StepClock` splits the time of a training's steps into phases. Pure Python: on a GPU `events` reads the device's own time.

It is called several times in every step, so each call does as little as can be: a reading, a sum, two names.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from falaj.base.values import value
from falaj.training.profiling.names import PHASES

DATA, TRANSFER, COMPUTE, COMMUNICATION, OPTIMISER, OTHER = range(6)
WARM_UP: Final = 5  # steps that compile, compare with float32 and fill caches: no measure of those that follow
_FIRST: Final = 2.0  # seconds of the first window; each one is twice as long, up to the longest
_LONGEST: Final = 30.0
_KEPT: Final = 64
_WORTH: Final = 0.002  # the share of a step that reading the device may take


@value
class Window:
    """Some steps in a row, `last` the number of the last one. `spent` is in seconds, in the order of PHASES."""

    steps: int
    last: int
    seconds: float
    spent: tuple[float, ...]
    rows: int = 0
    tokens: int = 0


class Timeline(Protocol):
    """The device's own time, which runs behind the program's. Never waits for the device."""

    cost: float  # seconds that it takes to follow one step

    def begin(self, phase: int) -> None: ...

    def mark(self, phase: int) -> None: ...

    def end(self) -> None: ...

    def take(self) -> Sequence[float]:
        """Seconds by phase of the steps that are done and were not taken yet; nothing where there are none."""


class StepClock:
    """`turn` says what the time belongs to from now on, `stepped` that a step is over. For the training's thread alone.

    Closed windows lie in `windows`, for another thread to take.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.perf_counter,
        timeline: Timeline | None = None,
        first: float = _FIRST,
        warm_up: int = WARM_UP,
    ) -> None:
        self.windows: deque[Window] = deque(maxlen=_KEPT)
        self.steps = self.seen = 0
        self.phase = OTHER
        self._now, self._timeline = now, timeline
        self._every, self._warm_up, self._again = first, warm_up, min(warm_up, WARM_UP)
        self._followed, self._stride = False, 1
        self._since = now()
        self._start()

    def turn(self, phase: int) -> None:
        now = self._now()
        self._spent[self.phase] += now - self._since
        self.phase, self._since = phase, now
        if self._followed:
            self._timeline.mark(phase)  # type: ignore[union-attr]

    def saw(self, rows: int, tokens: int = 0) -> None:
        """What the step under way is about."""
        self.seen += 1
        self._rows += rows
        self._tokens += tokens

    def stepped(self) -> None:
        self.turn(OTHER)
        self.steps += 1
        if self.steps == self._warm_up:
            self._start()
        elif self.steps > self._warm_up and self._since - self._began >= self._every:
            self.close_window()
        if self._timeline is not None:
            self._follow(self._timeline)

    def close_window(self) -> None:
        """Whatever has been measured since the last one; before the warm-up is over there is none."""
        counted = self.steps - self._before
        if counted <= 0 or self.steps <= self._warm_up:
            return
        seconds = self._since - self._began
        spent = self._spent
        if self._timeline is not None and (shown := self._timeline.take()) and (whole := sum(shown)) > 0:
            spent = [seconds * one / whole for one in shown]
        window = Window(
            steps=counted, last=self.steps, seconds=seconds, spent=tuple(spent), rows=self._rows, tokens=self._tokens
        )
        self.windows.append(window)
        self._every = min(_LONGEST, self._every * 2)
        if self._timeline is not None and seconds > 0:
            self._stride = max(1, math.ceil(self._timeline.cost / (_WORTH * seconds / counted)))
        self._start()

    def anew(self) -> None:
        """Something has changed: what was measured before is no measure of what comes."""
        self.windows.clear()
        self._warm_up = self.steps + self._again

    def close(self) -> None:
        """The last window; the device's marks go here and now, for a forked loader process could not let go of them."""
        self.close_window()
        self._timeline, self._followed = None, False

    def _start(self) -> None:
        self._began, self._before = self._since, self.steps
        self._spent = [0.0] * len(PHASES)
        self._rows = self._tokens = 0

    def _follow(self, timeline: Timeline) -> None:
        """One step in so many: reading a device's time costs more than reading one's own."""
        if self._followed:
            timeline.end()
        self._followed = self.steps >= self._warm_up and self.steps % self._stride == 0
        if self._followed:
            timeline.begin(OTHER)


class NoClock(StepClock):
    """Of a training that is not to be measured."""

    def turn(self, phase: int) -> None:
        pass

    def stepped(self) -> None:
        pass
