"""`Profile` follows one training: it takes the clock's windows and the machine's samples, tells the run, and judges.

What takes time is done in a thread of its own, every few seconds. Needs no torch; `sessions` makes one for a session.
"""

import atexit
import dataclasses
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from falaj.training.profiling.asking import Ask, asks_by, asks_told
from falaj.training.profiling.changes import Changes, Keeper, in_words
from falaj.training.profiling.clock import DATA, OTHER, TRANSFER, StepClock, Window
from falaj.training.profiling.devices import Devices, Sample
from falaj.training.profiling.names import CHANGES, FIGURES, NEXT, PHASES, RECIPE, TOO_FEW, VERDICT
from falaj.training.profiling.verdicts import Measured, Setting, Verdict, judge
from falaj.training.recipes import Recipe
from falaj.training.telling import Run

Onto = Callable[[Iterable[Any]], Iterable[Any]]
_LOG: Final = logging.getLogger("falaj.training")
_EVERY: Final = 5.0  # seconds between two samples of the machine
_JUDGED: Final = 4  # windows, the last ones, that figures and verdict are about
_SLOWER: Final = 0.95  # of the rate before: then a change was none to keep
_SAMPLED: Final = ("gpu_busy", "gpu_memory", "gpu_watts", "cpus_busy", "cpus_awaited", "memory")
_SAID: Final = 3  # verdicts that are told; the others matter less


class Profile:
    """For one training. `clock` is what its loop calls; the rest is called now and then."""

    def __init__(
        self,
        clock: StepClock,
        setting: Setting,
        *,
        run: Run,
        devices: Devices | None = None,
        keeper: Keeper | None = None,
        apply: bool = False,
        found: Changes | None = None,
    ) -> None:
        """`found` is what another training wants done otherwise; it counts where the keeper has nothing of this one."""
        self.clock, self.setting, self.run = clock, setting, run
        self.stepped: Callable[[], None] = clock.stepped
        self.verdicts: list[Verdict] = []
        self.flops_of_a_row = self.peak = 0.0
        self._devices, self._keeper = devices, keeper
        own = keeper.read() if keeper is not None else Changes()
        self._before = found if found is not None and own == Changes() else own
        self._kept: Changes | None = None
        self.taken = dict(self._before.wanted) if apply else {}
        self._windows: deque[Window] = deque(maxlen=_JUDGED)
        self._samples: deque[Sample] = deque(maxlen=_JUDGED * 2)
        self._told: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()
        self._over = threading.Event()
        self._closing: list[Callable[[], None]] = []
        self._closed: list[Callable[[], None]] = []

    def begin(self, recipe: Recipe) -> None:
        """Tells the recipe, and follows the training from here on."""
        self.tell_recipe(recipe)
        if self._devices is None:
            return
        reference = weakref.ref(self)  # a training that nobody holds any more is not followed
        threading.Thread(target=_follow, args=(reference, self._over), name="falaj-profile", daemon=True).start()
        atexit.register(_close, reference)

    def tell_recipe(self, recipe: Recipe) -> None:
        """A choice and the sentence that explains it, on two lines."""
        self._say({f"{RECIPE}{name}": f"{choice.value}\n{choice.why}" for name, choice in recipe})

    def sees(self, **facts: Any) -> None:
        """What became known of the setting."""
        self.setting = dataclasses.replace(self.setting, **facts)

    def anew(self) -> None:
        """The setting has changed: what was measured before is no measure of what comes."""
        with self._one_at_a_time:
            self.clock.anew()
            self._windows.clear()
            self._samples.clear()

    def batches(self, loader: Iterable[Any], onto: Onto, *, received: Onto = iter) -> Iterator[Any]:
        """What `onto` makes of the loader's batches, as `received`; waiting for them is told from what comes after it.

        A loader whose first batch no step was taken with is an evaluation's, and no step waits for it.
        """
        clock, waits, moves = self.clock, DATA, TRANSFER

        def awaited() -> Iterator[Any]:
            for batch in received(loader):
                clock.turn(moves)
                yield batch
                clock.turn(waits)

        clock.turn(waits)
        for batch in onto(awaited()):
            clock.turn(OTHER)
            before = clock.seen
            yield batch
            if clock.seen == before:
                waits = moves = OTHER
            clock.turn(waits)
        clock.turn(OTHER)

    def before_closing(self, do: Callable[[], None]) -> None:
        self._closing.append(do)

    def after_closing(self, do: Callable[[], None]) -> None:
        self._closed.append(do)

    def look(self) -> None:
        """What is new since the last look: told as the mean of the last windows, judged, and kept for the next start."""
        with self._one_at_a_time:
            if self._devices is not None:
                self._samples.append(self._devices.sample())
            new = [self.clock.windows.popleft() for _ in range(len(self.clock.windows))]
            for window in new:
                self._windows.append(window)
                self.run.figures(_figures(self._measured(list(self._windows))), window.last)
            if new:
                self._judge()

    def measured(self) -> Measured | None:
        """The mean of the last windows; None before there are any."""
        return self._measured(list(self._windows)) if self._windows else None

    def close(self) -> None:
        """The last steps count as well. Waits until all is told, or nobody listens."""
        if self._over.is_set():
            return
        self._over.set()
        for do in (*self._closing, self.clock.close, self.look, self._own_up, self.run.close, *self._closed):
            _safely(do)
        for verdict in self.verdicts[:1]:
            _LOG.info("%s", verdict.says)

    def _own_up(self) -> None:
        """Where neither this start nor one before it was judged."""
        if self._devices is not None and not self.verdicts and self._before == Changes():
            self._say({NEXT: f"{TOO_FEW}: {self.clock.steps} were taken, and those that compile and fill caches do not count."})

    def _measured(self, windows: list[Window]) -> Measured:
        steps, seconds = sum(one.steps for one in windows), sum(one.seconds for one in windows)
        spent = [sum(one.spent[phase] for one in windows) for phase in range(len(PHASES))]
        whole = sum(spent) or 1.0
        rows = sum(one.rows for one in windows)
        flops = self.flops_of_a_row * rows / steps
        return Measured(
            steps=steps,
            seconds=seconds / steps,
            shares={name: one / whole for name, one in zip(PHASES, spent, strict=True)},
            rows=rows / seconds,
            tokens=sum(one.tokens for one in windows) / seconds,
            flops=flops,
            of_peak=flops * steps / seconds / self.peak if flops and self.peak else None,
            **{name: self._mean(name) for name in _SAMPLED},
        )

    def _mean(self, name: str) -> float | None:
        known = [number for one in self._samples if (number := getattr(one, name)) is not None]
        return sum(known) / len(known) if known else None

    def _judge(self) -> None:
        measured = self._measured(list(self._windows))
        self.verdicts = judge(measured, self.setting)
        if self.taken and len(self._windows) > 1 and measured.rows < _SLOWER * self._before.rate:
            self.verdicts.insert(0, _slower(self.taken, measured.rows, self._before.rate))
            changes = self._before.without(self.taken)
        else:
            new = {name: number for one in self.verdicts for name, number in one.changes.items()}
            changes = self._before.with_more(self.taken, new, measured.rows)
        asks = [ask for one in self.verdicts for ask in asks_by(one, self.setting)]
        self._say({VERDICT: "\n".join(one.says for one in self.verdicts[:_SAID]), NEXT: self._next(changes, asks)})
        self._say(asks_told(asks))
        if self._kept is None or not changes.same_as(self._kept):
            self._kept = changes
            self._say({CHANGES: changes.text()})
            if self._keeper is not None:
                self._keeper.write(changes)

    def _next(self, changes: Changes, asks: Iterable[Ask]) -> str:
        """What the next start does, or should be told to do."""
        lines = []
        new = {name: number for name, number in changes.wanted.items() if self.taken.get(name) != number}
        if new:
            how = "takes" if self.taken else "takes, with --apply-profile,"
            lines.append(f"The next start {how} {in_words(new)}.")
        lines += [f"falaj train … --{one.option} {one.number}" for one in asks]
        return "\n".join(lines)

    def _say(self, words: Mapping[str, str]) -> None:
        new = {name: text for name, text in words.items() if self._told.get(name) != text}
        self._told.update(new)
        self.run.words(new)


def _slower(taken: Mapping[str, int], rate: float, before: float) -> Verdict:
    says = (
        f"changed for the worse: {rate:,.0f} rows/s with {in_words(taken)}, {before:,.0f} without; the next start takes it back"
    )
    return Verdict(kind="changed-for-the-worse", says=says, cost=1.0)


def _figures(measured: Measured) -> dict[str, float]:
    """By the names of the run's metrics; what is not known has none."""
    shares = {f"{name}_share": share for name, share in measured.shares.items()}
    others = {
        "step_seconds": measured.seconds,
        "rows_per_second": measured.rows,
        "tokens_per_second": measured.tokens or None,
        "share_of_peak": measured.of_peak,
        "gpu_busy": measured.gpu_busy,
        "gpu_memory": measured.gpu_memory,
        "gpu_watts": measured.gpu_watts,
        "cpus_busy": measured.cpus_busy,
        "cpus_awaited": measured.cpus_awaited,
        "memory_bytes": measured.memory,
    }
    return {f"{FIGURES}{name}": number for name, number in {**shares, **others}.items() if number is not None}


def _follow(reference: "weakref.ref[Profile]", over: threading.Event) -> None:
    while not over.wait(_EVERY):
        profile = reference()
        if profile is None:
            return
        _safely(profile.look)
        del profile


def _safely(do: Callable[[], None]) -> None:
    """Whatever a profile fails by, the training goes on."""
    try:
        do()
    except Exception as error:  # noqa: BLE001
        _LOG.debug("The profile could not be made: %s", error, exc_info=True)


def _close(reference: "weakref.ref[Profile]") -> None:
    profile = reference()
    if profile is not None:
        profile.close()
