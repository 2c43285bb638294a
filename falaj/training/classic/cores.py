"""How many threads this process should compute with: what it was given, not what the machine has."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_SYSTEM: Final = Path("/sys")
_PROCESS: Final = Path("/proc/self")


def available(
    variables: Mapping[str, str] = os.environ,
    affinity: Iterable[int] | None = None,
    system: Path = _SYSTEM,
    process: Path = _PROCESS,
) -> int:
    """Physical cores among those that the process may run on, at most what its control group lets it use, and at most what
    OMP_NUM_THREADS says, which jobs are given.

    Two threads on one core share its units, and trees gain nothing by that. Of 1.5 cores one is used: threads that wait for
    each other are as slow as the one that the kernel holds back.
    """
    cores = _physical(os.sched_getaffinity(0) if affinity is None else affinity, system)
    said = variables.get("OMP_NUM_THREADS", "").partition(",")[0]
    limits = [int(said)] if said.isdecimal() and int(said) else []
    limits += [max(1, int(quota)) for quota in _quotas(system / "fs" / "cgroup", process)]
    return max(1, min([cores, *limits]))


def _physical(allowed: Iterable[int], system: Path) -> int:
    """CPUs that are threads of one core count once."""
    found = set()
    for cpu in allowed:
        topology = system / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
        siblings = _text(topology / "core_cpus_list") or _text(topology / "thread_siblings_list")
        found.add(siblings or str(cpu))
    return len(found)


def _quotas(groups: Path, process: Path) -> list[float]:
    """What each group bounds, from the process's own up to the root, in cores; of both versions of control groups."""
    found = []
    for line in _text(process / "cgroup").splitlines():
        number, names, within = line.split(":", 2)
        if number != "0" and "cpu" not in names.split(","):
            continue
        root = groups if number == "0" else next((place for one in (names, "cpu") if (place := groups / one).exists()), groups)
        place = root / within.lstrip("/")
        for group in (place, *place.parents):
            if not group.is_relative_to(root):
                break
            words = _text(group / "cpu.max").split()
            words = words or [_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")]
            if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
                found.append(int(words[0]) / int(words[1]))
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
