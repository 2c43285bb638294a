"""The clockwork of `measuring`: what its process does with the engines it has loaded."""

import importlib
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from falaj.base.values import value
from falaj.optimisation.making.running import Device, engine_of, fitting
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Sample
from falaj.runtimes.engine import Engine
from falaj.runtimes.loading import BACKENDS
from falaj.statistics.intervals import Interval, bootstrap, quantile

BATCHES: Final = (1, 4, 16, 64, 128, 256)
BLOCKS: Final = 20
ROUNDS: Final = 6
_LEAST_BLOCKS: Final = 5
_LEAST_ROUNDS: Final = 3
_MOST_ROWS: Final = 4096
_LATENCY_SHARE: Final = 0.4  # of the time; the rest is for batches
_RUNS: Final = 400  # of single rows in all: of fewer, even the longest may well be shorter than what 99 of 100 keep to
_LONGER: Final = 10  # times as long as planned a block may take for them
_SLOWER: Final = 30  # times as long as planned all blocks of a slow model may take
_SLOWEST: Final = 5.0  # seconds for a row, beyond which nothing is measured
_ROWS_OF_THE_SLOWEST: Final = 24  # that it is asked for in all, at least
_WARMED_WITHIN: Final = 1.0  # seconds for one batch
_WEIGHED_WITHIN: Final = 5.0
_RAPL: Final = Path("/sys/class/powercap")
Timer = Callable[[], float]
Times = npt.NDArray[np.float64]


@value
class Timed:
    """Of one engine: milliseconds of one row, rows a second at the best batch, joules of 1,000 rows and where that is
    from, and the device it ran on. What a GPU takes is not counted, and so it is told."""

    p50: Interval
    p99: Interval
    rows_per_s: float
    batch: int
    joules: float
    energy: str
    device: str


def limit(seconds: float) -> float:
    """Seconds that all of it takes at most for one model, but for loading its libraries."""
    return _ROWS_OF_THE_SLOWEST * _SLOWEST + 2 * (_WEIGHED_WITHIN + _WARMED_WITHIN) + _SLOWER * seconds


class Course:
    """An engine, its rows, and its place among them. It has run ever larger batches, as long as none takes more than `within`
    seconds; `row` is what one row takes. Raises `CannotBeMade` where that is more than can be measured."""

    def __init__(
        self, made: Made, sample: Sample, threads: int, device: Device = "cpu", *, within: float = _WARMED_WITHIN
    ) -> None:
        self.engine: Engine = engine_of(made, threads=threads, device=device)
        fitted = fitting(sample.part(0, _MOST_ROWS), self.engine.inputs)
        self.rows, self._inputs, self._at = fitted.rows, fitted.inputs, 0
        self.engine.run(self.taken(1))
        self.row = self._took(1)
        if self.row > _SLOWEST:
            raise CannotBeMade(f"a row takes it {self.row:.3g} seconds; what takes more than {_SLOWEST:g} is not measured")
        each = self.row
        for batch in self.batches()[1:]:
            if each * batch > within:
                break
            each = self._took(batch) / batch

    def _took(self, count: int) -> float:
        rows, began = self.taken(count), time.perf_counter()
        self.engine.run(rows)
        return time.perf_counter() - began

    def taken(self, count: int) -> list[Array]:
        """The next so many rows, from the first again after the last."""
        if self._at + count > self.rows:
            self._at = 0
        start, self._at = self._at, self._at + count
        return [one[start : start + count] for one in self._inputs]

    def batches(self) -> list[int]:
        return [batch for batch in BATCHES if batch == 1 or (self.engine.batches and batch <= self.rows)]


@value
class Clocks:
    """`worked` counts what rates are of. On one thread that is the processor's time: what others do on the same core
    meanwhile is not the model's, and neither clock tells them apart where several threads wait for each other. `busy` is the
    processor's time of all threads together: what energy is estimated from."""

    wall: Timer
    worked: Timer
    busy: Timer


@value
class Block:
    """Seconds of each run, and those that cores were busy in all of them."""

    times: Times
    busy: float


@value
class Rates:
    """Of one engine, by batch: rows a second, and the seconds that cores are busy for a row. `joules` are of 1,000 rows,
    where the processor counts them."""

    rows_per_s: dict[int, float]
    busy: dict[int, float]
    joules: float | None


def timed(courses: Sequence[Course], *, seconds: float, watts: float, clocks: Clocks) -> list[Timed]:
    """All in turn, block by block; `seconds` is what each of them may take."""
    latencies = _latencies(courses, _LATENCY_SHARE * seconds, clocks)
    found = []
    rates = _rates(courses, (1 - _LATENCY_SHARE) * seconds, clocks)
    for course, times, of in zip(courses, latencies, rates, strict=True):
        rate, spent, device = of.rows_per_s, of.joules, course.engine.device
        energy = "measured by the processor (RAPL)" if spent is not None else f"estimated from {watts:g} W a busy core"
        batch = min((one for one in rate if rate[one] >= 0.98 * max(rate.values())), default=1)
        found.append(
            Timed(
                p50=_quantile(times, 0.5),
                p99=_quantile(times, 0.99),
                rows_per_s=rate[batch],
                batch=batch,
                joules=spent if spent is not None else 1000 * of.busy[batch] * watts,
                energy=energy if device == "cpu" else f"{energy}, without the GPU",
                device=device,
            )
        )
    return found


def _latencies(courses: Sequence[Course], seconds: float, clocks: Clocks) -> list[list[Times]]:
    """Milliseconds of single rows, by block."""
    waited = replace(clocks, worked=clocks.wall)
    found: list[list[Times]] = [[] for _ in courses]
    for _ in range(_afforded(BLOCKS, _LEAST_BLOCKS, courses, seconds)):
        for course, blocks in zip(courses, found, strict=True):
            blocks.append(1000 * _block(course, 1, seconds / BLOCKS, waited, least=_RUNS // BLOCKS).times)
    return found


def _afforded(wanted: int, least: int, courses: Sequence[Course], seconds: float) -> int:
    """Blocks of one row: fewer where a run in each, and the one before that is not counted, take far longer than planned."""
    return max(least, min(wanted, int(_SLOWER * seconds / (2 * max(course.row for course in courses)))))


def _quantile(blocks: Sequence[Times], share: float) -> Interval:
    """Blocks are drawn anew, not runs: what slows one run slows its neighbours too. What is drawn is never longer than what
    was seen, so the upper end is no shorter than the run that so few of this many would lie beyond."""
    found = bootstrap(
        lambda drawn: float(np.quantile(np.concatenate([blocks[number] for number in drawn]), share)), len(blocks), times=100
    )
    return replace(found, high=max(found.high, quantile(np.concatenate(blocks), share).high))


def _rates(courses: Sequence[Course], seconds: float, clocks: Clocks) -> list[Rates]:
    rates: list[dict[int, float]] = [{} for _ in courses]
    busy: list[dict[int, float]] = [{} for _ in courses]
    meter, spent, done = EnergyMeter(), [0.0 for _ in courses], [0 for _ in courses]
    slot = seconds / len(BATCHES)
    rounds = _afforded(ROUNDS, _LEAST_ROUNDS, courses, slot)
    for batch in BATCHES:
        asked = [number for number, course in enumerate(courses) if _is_worth(course, batch, rates[number], slot)]
        blocks: dict[int, list[Block]] = {number: [] for number in asked}
        for number in asked * rounds:
            before = meter.read()
            blocks[number].append(_block(courses[number], batch, slot / rounds, clocks))
            spent[number] += meter.read() - before
            done[number] += batch * (len(blocks[number][-1].times) + 1)
        for number in asked:
            times = np.concatenate([block.times for block in blocks[number]])
            # The faster half's middle: what is slower was mostly somebody else's work on the same core.
            rates[number][batch] = batch / max(1e-9, float(np.quantile(times, 0.25)))
            busy[number][batch] = sum(block.busy for block in blocks[number]) / (batch * len(times))
    counted = [
        joules / max(1, rows) * 1000 if meter.is_there and joules > 0 else None
        for joules, rows in zip(spent, done, strict=True)
    ]
    return [Rates(rows_per_s=rate, busy=cores, joules=joules) for rate, cores, joules in zip(rates, busy, counted, strict=True)]


def _is_worth(course: Course, batch: int, rates: dict[int, float], slot: float) -> bool:
    """A batch that takes longer than what there is for it is not asked."""
    return batch in course.batches() and (not rates or batch / max(rates.values()) < slot)


def _block(course: Course, batch: int, seconds: float, clocks: Clocks, *, least: int = 1) -> Block:
    """The first run is not counted, for it finds another model's things in the caches, and perhaps its threads still up."""
    course.engine.run(course.taken(batch))
    times, busy = list[float](), 0.0
    starts = clocks.wall()
    while not times or clocks.wall() - starts < (seconds if len(times) >= least else _LONGER * seconds):
        rows, began = course.taken(batch), clocks.busy()
        started = clocks.worked()
        course.engine.run(rows)
        times.append(clocks.worked() - started)
        busy += clocks.busy() - began
    return Block(times=np.array(times), busy=busy)


class EnergyMeter:
    """The processor's own count of joules, all packages together, where it may be read."""

    def __init__(self, folder: Path = _RAPL) -> None:
        self._files = [file for file in sorted(folder.glob("intel-rapl:?/energy_uj")) if _whole(file) is not None]
        self.is_there = bool(self._files)

    def read(self) -> float:
        return sum(_whole(file) or 0 for file in self._files) / 1e6


def _whole(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def memory_of(made: Made, sample: Sample, threads: int, device: Device) -> int:
    """Bytes that loading and running it adds, in a process that has the library and nothing else, by as many rows as there is
    time for; 0 where nobody tells."""
    importlib.import_module(BACKENDS[made.runtime][0])
    context = multiprocessing.get_context("fork")  # from a process that has started no threads yet
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_weighed, args=(made, sample, threads, device, theirs))
    child.start()
    theirs.close()
    try:
        grown: int = ours.recv()
    except EOFError:  # it died of the model; whoever loads it next says why
        grown = 0
    child.join()
    return grown


def _weighed(made: Made, sample: Sample, threads: int, device: Device, line: Connection) -> None:
    before = _memory_now()
    course = Course(made, sample, threads, device, within=_WEIGHED_WITHIN)
    line.send(max(0, _memory_now() - before))
    course.engine.close()


def _memory_now() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
