"""How fast a model is on this host, measured when it is loaded: how many rows to ask at once, and on how many threads."""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np

from falaj.base.errors import FalajError, PermanentError
from falaj.base.values import value
from falaj.runtimes.engine import Array, Engine, ModelFiles, Placement, Remembering
from falaj.runtimes.loading import load
from falaj.runtimes.probing import accepted_probe, probes

LARGEST: Final = 256
_GOOD_ENOUGH: Final = 0.95  # of the best rate: a smaller batch answers sooner
_BUDGET: Final = 0.3
_REPEATS: Final = 5
_WORTH: Final = 1.3  # so much faster must several threads be; the cores are others' too
_FAST: Final = 0.001  # a row that takes less gains nothing from a second thread
_SINGLES: Final = 400  # single rows: of fewer, even the longest may well be shorter than what 99 of 100 keep to
_SINGLES_LEAST: Final = 20
_SINGLES_WITHIN: Final = 1.0
_SINGLES_AT_MOST: Final = 5.0  # seconds that so few may take
_DIFFERENT: Final = 16
Timer = Callable[[], float]


class Timed(Protocol):
    """What tuning found, as far as it matters here: the seconds of a single row, 0 where nobody knows."""

    @property
    def one_row_s(self) -> float: ...


T = TypeVar("T", bound=Timed)


@value
class Tuned:
    """`row_s_at_batch` is the time of one row among `batch`. All are 0 for a model that takes no made-up rows, and `batch`
    is 1 for one that takes a single row at a time."""

    batch: int = 1
    one_row_s: float = 0.0
    row_s_at_batch: float = 0.0
    threads: int = 1


def load_tuned(
    files: ModelFiles, placement: Placement, *, objective_s: float, timer: Timer = time.perf_counter
) -> tuple[Engine, Tuned]:
    """The engine, warm."""
    engine = load(files, placement)
    return engine, tune(engine, objective_s=objective_s, threads=placement.threads or 1, timer=timer)


def on_threads_that_pay(load_on: Callable[[int], Engine], tune: Callable[[Engine], T], cores: int) -> tuple[Engine, T]:
    """The engine and what tuning found of it: on one thread, or on all of `cores`, those that this process may use for
    itself, where that is worth them. A model that cannot be had on several runs on one."""
    engine = load_on(1)
    found = tune(engine)
    if cores < 2 or found.one_row_s < _FAST:
        return engine, found
    try:
        wide = load_on(cores)
        widely = tune(wide)
    except FalajError:
        return engine, found
    if widely.one_row_s * _WORTH <= found.one_row_s:
        engine.close()
        return wide, widely
    wide.close()
    return engine, found


def tune(
    engine: Engine, *, objective_s: float, threads: int = 1, budget_s: float = _BUDGET, timer: Timer = time.perf_counter
) -> Tuned:
    """The smallest batch whose rate is nearly the best, among those that are done within the objective.

    Larger ones are tried until one misses the objective, and while the next is expected to fit what is left of the budget.
    """
    found = accepted_probe(engine.inputs, engine.run)  # the first run of all, which is never a fast one
    if found is None:
        return Tuned(threads=threads)
    started, rates, rows = timer(), {}, 1
    one_row = took = _best(engine, probes(engine.inputs, 1, length=found[0], text=found[1]), _REPEATS, timer)
    rates[1] = 1 / max(took, 1e-9)
    while engine.batches and rows < LARGEST:
        left = budget_s - (timer() - started)
        if took > objective_s or 4 * took > left:
            break
        rows *= 2
        repeats = max(1, min(_REPEATS, int(left / (4 * took)) - 1))
        try:
            took = _best(engine, probes(engine.inputs, rows, length=found[0], text=found[1]), repeats, timer)
        except PermanentError:  # too many for it: it will not be asked for so many
            break
        if took <= objective_s:
            rates[rows] = rows / max(took, 1e-9)
    fastest = max(rates.values())
    batch = min(size for size, rate in rates.items() if rate >= _GOOD_ENOUGH * fastest)
    return Tuned(batch=batch, one_row_s=one_row, row_s_at_batch=1 / rates[batch], threads=threads)


def single_rows(engine: Engine, *, timer: Timer = time.perf_counter) -> tuple[float, ...]:
    """Seconds of each of many single rows, as even the slowest of them matter; none for a model that takes no made-up rows.
    Rows change from run to run: a processor learns what it is shown again and again."""
    found = accepted_probe(engine.inputs, engine.run)
    if found is None:
        return ()
    rows = [_at_hand(engine, probes(engine.inputs, 1, length=found[0], text=found[1], seed=seed)) for seed in range(_DIFFERENT)]
    engine.run(rows[0])
    times, started = list[float](), timer()
    while len(times) < _SINGLES and timer() - started < (_SINGLES_WITHIN if len(times) >= _SINGLES_LEAST else _SINGLES_AT_MOST):
        began = timer()
        engine.run(rows[len(times) % _DIFFERENT])
        times.append(timer() - began)
    return tuple(times)


def _best(engine: Engine, arrays: Sequence[Array], repeats: int, timer: Timer) -> float:
    """The shortest of several: what is longer was somebody else's work on the same core."""
    arrays = _at_hand(engine, arrays)
    engine.run(arrays)  # with as many rows for the first time: memory is got, kernels are chosen
    times = []
    for _ in range(repeats):
        started = timer()
        engine.run(arrays)
        times.append(timer() - started)
    return min(times)


def _at_hand(engine: Engine, arrays: Sequence[Array]) -> Sequence[Array]:
    """From where they will be run, too."""
    return [_remembered(engine, array) for array in arrays] if isinstance(engine, Remembering) else arrays


def _remembered(engine: Remembering, array: Array) -> Array:
    memory = None if array.dtype.hasobject else engine.memory(array.nbytes)
    if memory is None:
        return array
    memory.put([array.tobytes()], 0)
    return np.ndarray(array.shape, array.dtype, memory.array)
