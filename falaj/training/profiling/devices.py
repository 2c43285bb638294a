"""What the machine says of itself: a GPU by NVIDIA's own library, this process and its loaders by `/proc`.

Nothing here needs a package, and nothing fails where there is no GPU or no `/proc`: what is not known is None.
"""

import ctypes
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from falaj.base.values import value

_PROC: Final = Path("/proc")
_LIBRARY: Final = "libnvidia-ml.so.1"


@value
class Sample:
    """Of one moment; what is busy, since the sample before."""

    gpu_busy: float | None = None  # 0 to 1
    gpu_memory: float | None = None  # 0 to 1
    gpu_watts: float | None = None
    cpus_busy: float | None = None  # cores
    cpus_awaited: float | None = None  # cores: what could have run, and had none
    memory: float | None = None  # bytes


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Gpu:
    """One card, by its identity as torch tells it. What a driver or a partition does not tell is None."""

    def __init__(self, identity: str, library: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._card = ctypes.c_void_p()
        self._nvml: Any = None
        try:
            nvml = library(_LIBRARY)
            found = nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByUUID(identity.encode(), ctypes.byref(self._card)) == 0
            self._nvml = nvml if found else None
        except (OSError, AttributeError):
            pass

    def busy(self) -> float | None:
        rates = _Rates()
        return rates.gpu / 100 if self._ask("nvmlDeviceGetUtilizationRates", rates) else None

    def memory(self) -> float | None:
        memory = _Memory()
        return memory.used / memory.total if self._ask("nvmlDeviceGetMemoryInfo", memory) and memory.total else None

    def watts(self) -> float | None:
        milliwatts = ctypes.c_uint()
        return milliwatts.value / 1000 if self._ask("nvmlDeviceGetPowerUsage", milliwatts) else None

    def _ask(self, function: str, answer: Any) -> bool:
        return self._nvml is not None and getattr(self._nvml, function)(self._card, ctypes.byref(answer)) == 0


@value
class _Reading:
    """`spent` in ticks by process, `awaited` in nanoseconds by thread, `pages` of all."""

    spent: Mapping[int, int]
    awaited: Mapping[int, int]
    pages: int


class Processes:
    """This process and all that it started: CPU time, had and waited for, since the last reading, and memory now."""

    def __init__(self, proc: Path = _PROC, root: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._root, self._now = proc, root or os.getpid(), now
        self._ticks, self._page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        self._before, self._at = self._read(), now()

    def sample(self) -> Sample:
        now, at, before = self._read(), self._now(), self._before
        elapsed, self._before, self._at = at - self._at, now, at
        if not now.spent or elapsed <= 0:
            return Sample()
        awaited = _since(before.awaited, now.awaited) / 1e9 / elapsed if now.awaited else None
        busy = _since(before.spent, now.spent) / self._ticks / elapsed
        return Sample(cpus_busy=busy, cpus_awaited=awaited, memory=float(now.pages * self._page))

    def _read(self) -> _Reading:
        """What they share with the first is counted once."""
        spent, awaited, pages, waiting = {}, {}, 0, [self._root]
        while waiting:
            process = waiting.pop()
            folder = self._proc / str(process)
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                _, resident, shared, *_ = (folder / "statm").read_text().split()
                threads = list((folder / "task").iterdir())
            except (OSError, ValueError):
                continue  # it has ended meanwhile
            spent[process] = int(fields[11]) + int(fields[12])
            pages += int(resident) - (0 if process == self._root else int(shared))
            for thread in threads:
                with suppress(OSError):
                    waiting += map(int, (thread / "children").read_text().split())
                with suppress(OSError, ValueError, IndexError):
                    awaited[int(thread.name)] = int((thread / "schedstat").read_text().split()[1])
        return _Reading(spent=spent, awaited=awaited, pages=pages)


def _since(before: Mapping[int, int], now: Mapping[int, int]) -> int:
    return sum(max(0, number - before.get(one, 0)) for one, number in now.items())


class Devices:
    """All of them, at one moment."""

    def __init__(self, gpu: Gpu | None, processes: Processes) -> None:
        self._gpu, self._processes = gpu, processes

    def sample(self) -> Sample:
        sample = self._processes.sample()
        if self._gpu is None:
            return sample
        return replace(sample, gpu_busy=self._gpu.busy(), gpu_memory=self._gpu.memory(), gpu_watts=self._gpu.watts())


def cpus_here(variables: Mapping[str, str] = os.environ, quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The CPUs that this process may use: not the machine's, but what it was given of them."""
    cores = len(os.sched_getaffinity(0))
    try:
        most, period = quota.read_text().split()
        cores = min(cores, max(1, int(most) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no limit, or none that can be read
    given = variables.get("OMP_NUM_THREADS", "") if "FALAJ_JOB" in variables else ""  # a job is told its share so
    return min(cores, int(given)) if given.isdigit() and int(given) else cores
