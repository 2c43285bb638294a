"""What attempts use, added up from the samples that a cluster's metrics server gives: between two of them, as at the last."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import SECOND, Moment
from falaj.jobs.engines.engine import Used
from falaj.jobs.engines.kube.hosts import quantity
from falaj.jobs.engines.kube.manifests import ATTEMPT

METRICS: Final = "metrics.k8s.io/v1beta1"
_MIB: Final = 1 << 20
_WATTS_PER_CORE: Final = 8.0  # as the local engine estimates it: pods cannot be metered apart


class Usage:
    """For one thread. Forgets with the process: what was used before counts from the record that it was written to."""

    def __init__(self) -> None:
        self._used: dict[str, Used] = {}
        self._at: Moment | None = None

    def take(self, pods: Iterable[Mapping[str, Any]], now: Moment) -> None:
        """One look at all of them."""
        seconds = 0.0 if self._at is None else max(0.0, (now - self._at) / SECOND)
        self._at = now
        cores: dict[str, float] = {}
        memory: dict[str, float] = {}
        for pod in pods:
            if attempt := (pod["metadata"].get("labels") or {}).get(ATTEMPT):
                for container in pod.get("containers") or ():
                    cores[attempt] = cores.get(attempt, 0.0) + float(quantity(container["usage"].get("cpu", 0)))
                    memory[attempt] = memory.get(attempt, 0.0) + float(quantity(container["usage"].get("memory", 0))) / _MIB
        for attempt, busy in cores.items():
            used = self._used.get(attempt, Used())
            cpu = used.cpu_seconds + busy * seconds
            self._used[attempt] = replace(
                used,
                cpu_seconds=cpu,
                memory_mib_peak=max(used.memory_mib_peak, round(memory[attempt])),
                memory_mib_seconds=used.memory_mib_seconds + memory[attempt] * seconds,
                energy_joules=cpu * _WATTS_PER_CORE,
            )

    def of(self, attempt: str, gpu_seconds: float) -> Used:
        return replace(self._used.get(attempt, Used()), gpu_seconds=gpu_seconds)

    def forget(self, attempt: str) -> None:
        self._used.pop(attempt, None)
