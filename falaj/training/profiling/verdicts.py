"""From measurements to a verdict: what a training waits for, in one sentence with its numbers, and what to change. Pure."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from falaj.base.values import value
from falaj.training.hardware import Kind
from falaj.training.probing import HANDED_OVER

# What a next start may do otherwise by itself, and within which bounds.
BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "loader_workers": (0, 64),
    "micro_batch": (1, 1 << 20),
    "pin_memory": (0, 1),
    "threads": (1, 256),
}
_WAITS: Final = 0.10  # of a step; less than this is not worth a change
_AVERAGES: Final = 0.20
_OUTSIDE: Final = 0.15
_OPTIMISES: Final = 0.30
_IDLE: Final = 0.70  # a GPU that is busy for less of the time is not filled
_FULL: Final = 0.92
_NEAR_PEAK: Final = 0.35  # what good programs reach of a vendor's figure begins about here
_NEARLY: Final = 0.05  # of a CPU: too little to ask for another
_MARGIN: Final = 1.1  # batches do not take the same time each
_OF_A_CORE: Final = 20e9  # FLOP/s that a CPU core surely does on products of some size
_WORTH_A_GPU: Final = 1e12  # FLOP of a step from which on a GPU pays


@value
class Measured:
    """The mean of some steps after the warm-up. None is what could not be measured."""

    steps: int
    seconds: float  # of a step
    shares: Mapping[str, float]  # of a step by phase
    rows: float = 0.0  # a second
    tokens: float = 0.0
    flops: float = 0.0  # of a step; 0 where nobody counted
    of_peak: float | None = None
    gpu_busy: float | None = None
    gpu_memory: float | None = None
    gpu_watts: float | None = None
    cpus_busy: float | None = None  # of this process and its loaders
    cpus_awaited: float | None = None  # by those, that could have run
    memory: float | None = None  # bytes of those


@value
class Setting:
    """How the training runs, as far as it bears on its speed."""

    kind: Kind = "cpu"
    cpus: int = 1
    threads: int = 1
    processes: int = 1
    together: int = 1  # of them, on this machine
    parameters: int = 0
    batch: int = 0  # rows
    micro: int = 0  # rows at a time; 0 is the whole batch
    workers: int | None = None  # None: no loader whose processes could be counted
    stream: bool = False  # its processes cannot be changed without dealing the data anew
    pinned: bool = False
    precision: str = "float32"
    idle_gpu: bool = False  # the job has one, and nothing computes on it


@value
class Verdict:
    """`changes` by the names of BOUNDS; `ask` is what only a new submission can change, by options of `falaj train`, and
    `workers` the loader processes that what is asked for has room for."""

    kind: str
    says: str
    cost: float = 0.0  # the share of the time that it is about
    changes: Mapping[str, int] = field(default_factory=dict)
    ask: Mapping[str, int] = field(default_factory=dict)
    workers: int = 0


def judge(measured: Measured, setting: Setting) -> list[Verdict]:
    """What costs most comes first; there is always one."""
    found = sorted(_found(measured, setting), key=lambda verdict: -verdict.cost)
    return found if any(one.kind != "memory-full" for one in found) else [_computes(measured, setting), *found]


def _found(measured: Measured, setting: Setting) -> Iterator[Verdict]:
    share = measured.shares
    if share.get("data", 0.0) >= _WAITS:
        yield _input_bound(share["data"], measured, setting)
    if setting.kind == "cuda" and share.get("transfer", 0.0) >= _WAITS:
        yield _transfer_bound(share["transfer"], setting)
    if share.get("communication", 0.0) >= _AVERAGES:
        yield _communication_bound(share["communication"], setting)
    if share.get("other", 0.0) >= _OUTSIDE:
        yield _outside(share["other"], measured)
    if share.get("optimiser", 0.0) >= _OPTIMISES:
        yield _optimiser_bound(share["optimiser"])
    if setting.kind == "cuda":
        yield from _of_a_gpu(measured, setting)
    elif setting.threads > setting.cpus:
        yield _too_many_threads(setting)
    if setting.idle_gpu:
        yield _idle_gpu()


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _input_bound(share: float, measured: Measured, setting: Setting) -> Verdict:
    """Loader processes that do not keep up give as many batches as they can: so much work is there in a batch."""
    says = f"input-bound: {_percent(share)} of each step waits for data"
    if setting.workers is None:
        says += (
            "; its loader has no processes to give it more of: torch's DataLoader with workers would load beside the training"
        )
        return Verdict(kind="input-bound", says=says, cost=share)
    if (waited := share * measured.seconds) < HANDED_OVER:
        says += f"; {waited * 1000:.1f} ms a batch, which loader workers would not hand over sooner: larger batches would help"
        return Verdict(kind="input-bound", says=says, cost=share)
    computing = max(1.0 - share, 0.01)
    work = setting.workers / computing if setting.workers else share / computing
    least, most = BOUNDS["loader_workers"]
    needed = min(most, max(setting.workers + 1, math.ceil(work * _MARGIN), least))
    says += f"; {_workers(setting.workers)}, {needed} would hide it"
    if setting.stream:
        says += ". The dataset is a stream, which has to be dealt out to them: set num_workers yourself"
        return Verdict(kind="input-bound", says=says, cost=share)
    wanted = _cpus_that_hide(needed, computing, measured, setting)
    possible = needed if wanted <= setting.cpus else max(setting.workers, needed * setting.cpus // wanted, 1)
    changes = {"loader_workers": possible} if possible > setting.workers else {}
    ask = {"cpus": wanted * setting.together} if wanted > setting.cpus else {}
    return Verdict(kind="input-bound", says=says, cost=share, changes=changes, ask=ask, workers=needed if ask else 0)


def _cpus_that_hide(workers: int, computing: float, measured: Measured, setting: Setting) -> int:
    """The CPU time of a step, with what was waited for as others ran, stays what it is and falls into the part of it that
    computes. Where nobody measured it, each loader process takes a CPU: one that waits for a disk needs hardly any."""
    if measured.cpus_busy is None:
        return workers + (1 if setting.kind == "cuda" else setting.threads)
    needed = math.ceil((measured.cpus_busy + (measured.cpus_awaited or 0.0)) / computing - _NEARLY)
    return max(1, min(needed, workers + max(1, setting.threads)))


def _workers(count: int) -> str:
    return "no loader workers" if not count else "1 loader worker" if count == 1 else f"{count} loader workers"


def _transfer_bound(share: float, setting: Setting) -> Verdict:
    says = f"transfer-bound: {_percent(share)} of each step waits for its batch to reach the GPU"
    if not setting.pinned:
        says += "; with pin_memory the loader lays it where the GPU can fetch it by itself"
        return Verdict(kind="transfer-bound", says=says, cost=share, changes={"pin_memory": 1})
    says += "; smaller types (bytes for images, converted on the GPU) would be a quarter of it"
    return Verdict(kind="transfer-bound", says=says, cost=share)


def _communication_bound(share: float, setting: Setting) -> Verdict:
    rest = max(1.0 - share, 0.01)
    times = min(64, max(2, math.ceil(share * (1 - _WAITS) / (_WAITS * rest) - 1e-9)))
    says = (
        f"communication-bound: {_percent(share)} of each step averages gradients among {setting.processes} processes; "
        f"{times} times the rows a step would make that {_percent(_WAITS)}"
    )
    if setting.batch:
        says += f" ({setting.batch * times:,} for {setting.batch:,} in each process)"
    return Verdict(kind="communication-bound", says=says, cost=share)


def _outside(share: float, measured: Measured) -> Verdict:
    says = (
        f"loop-bound: {_percent(share)} of the time, {share * measured.seconds * 1000:.1f} ms a step, goes by outside of the "
        "steps: evaluations, printing, or a loader that is not read through session.batches"
    )
    return Verdict(kind="loop-bound", says=says, cost=share)


def _optimiser_bound(share: float) -> Verdict:
    says = f"optimiser-bound: {_percent(share)} of each step updates the weights; with more rows a step there are fewer updates"
    return Verdict(kind="optimiser-bound", says=says, cost=share)


def _too_many_threads(setting: Setting) -> Verdict:
    says = f"too many threads: {setting.threads} on {_cpus(setting.cpus)} wait for one another; {setting.cpus} would not"
    return Verdict(kind="too-many-threads", says=says, cost=0.5, changes={"threads": setting.cpus})


def _idle_gpu() -> Verdict:
    says = "GPU not used: the job has one, and torch computes on CPUs; without one it would run as fast"
    return Verdict(kind="gpu-not-used", says=says, cost=1.0, ask={"gpus": 0})


def _cpus(count: float) -> str:
    return "1 CPU" if count == 1 else f"{count:g} CPUs"


def _of_a_gpu(measured: Measured, setting: Setting) -> Iterator[Verdict]:
    waits = sum(measured.shares.get(phase, 0.0) for phase in ("data", "transfer", "other", "communication"))
    alone = measured.flops / (_OF_A_CORE * max(1, setting.cpus))
    if measured.flops > 0 and alone <= measured.seconds:
        says = (
            f"GPU not needed: a step is {measured.flops / 1e9:.2g} GFLOP and takes {measured.seconds * 1000:.1f} ms here; "
            f"{_cpus(setting.cpus)} would do it in about {max(alone * 1000, 0.1):.1f} ms: it would run as fast on CPUs"
        )
        yield Verdict(kind="gpu-not-needed", says=says, cost=1.0, ask={"gpus": 0})
    elif measured.gpu_busy is not None and measured.gpu_busy < _IDLE and waits < _WAITS * 2:
        yield _small_batches(measured.gpu_busy, measured, setting)
    if measured.gpu_memory is not None and measured.gpu_memory >= _FULL:
        says = (
            f"memory nearly full: {_percent(measured.gpu_memory)} of the GPU's is taken; longer rows would be halved into parts"
        )
        yield Verdict(kind="memory-full", says=says, cost=0.01)


def _small_batches(busy: float, measured: Measured, setting: Setting) -> Verdict:
    times = 1 / max(busy, 0.05)
    if measured.gpu_memory:
        times = min(times, 0.8 / measured.gpu_memory)
    rows = setting.micro or setting.batch
    says = f"small batches: the GPU is busy for {_percent(busy)} of the time, the program needs the rest to keep it so"
    if not rows or times < 1.25:
        return Verdict(kind="small-batches", says=says + "; fewer, larger operations or compiling would help", cost=1 - busy)
    larger = _round(rows * times)
    if setting.micro and setting.batch > setting.micro:
        larger = min(larger, setting.batch)
        says += f"; {larger:,} rows at a time for {rows:,} would fill it"
        return Verdict(kind="small-batches", says=says, cost=1 - busy, changes={"micro_batch": larger})
    return Verdict(kind="small-batches", says=says + f"; batches of {larger:,} rows for {rows:,} would fill it", cost=1 - busy)


def _round(rows: float) -> int:
    """Down to a multiple of eight, from eight on."""
    return int(rows) // 8 * 8 if rows >= 8 else max(1, int(rows))


def _computes(measured: Measured, setting: Setting) -> Verdict:
    """Nothing is in its way."""
    computing = measured.shares.get("compute", 0.0)
    says = f"compute-bound: {_percent(computing)} of each step computes"
    if setting.kind == "cuda":
        return _computes_on_a_gpu(says, measured, setting)
    if measured.cpus_busy is None:
        return Verdict(kind="compute-bound", says=says)
    says += f", on {measured.cpus_busy:.1f} of {_cpus(setting.cpus)}"
    flops = 6.0 * setting.parameters * setting.batch
    if flops >= _WORTH_A_GPU:
        return Verdict(kind="compute-bound", says=f"{says}; a GPU would be many times as fast", ask={"gpus": 1})
    if setting.cpus > 1 and measured.cpus_busy < 0.5 * setting.cpus:
        enough = max(1, math.ceil(measured.cpus_busy))
        return Verdict(kind="compute-bound", says=f"{says}; {_cpus(enough)} would do", ask={"cpus": enough * setting.together})
    return Verdict(kind="compute-bound", says=says)


def _computes_on_a_gpu(says: str, measured: Measured, setting: Setting) -> Verdict:
    if measured.of_peak is None:
        return Verdict(kind="compute-bound", says=says)
    says += f", at {_percent(measured.of_peak)} of the GPU's peak"
    if measured.of_peak >= _NEAR_PEAK:
        says += ": well used"
    elif setting.precision == "float32":
        says += "; float32 was chosen or fallen back to, half precision is many times as fast"
    return Verdict(kind="compute-bound", says=says)
