"""What machine this is, as far as it decides which form of a model can run here and how fast.

Libraries are asked for their versions without being imported: a host is also described where none of them is needed.
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import field
from importlib import metadata
from pathlib import Path
from typing import Final

from falaj.base.values import value

# Those that engines choose their kernels by. Linux calls them so; the rest of what a processor has is no news here.
KNOWN_SETS: Final = frozenset(
    [
        *("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
        *("asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve", "sve2"),
    ]
)
LIBRARIES: Final = (
    *("onnxruntime", "onnxruntime-gpu", "openvino", "lightgbm", "xgboost", "xgboost-cpu"),
    *("ai-edge-litert", "torch"),
)
_MIB: Final = 1 << 20


@value
class Host:
    """`gpu` is empty where there is none; `libraries` are the versions of the engines that are installed."""

    cpu: str
    instruction_sets: tuple[str, ...]
    cores: int
    memory_mib: int
    gpu: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)

    @property
    def multiplies_int8(self) -> bool:
        """In one instruction, without running over: otherwise weights need a bit less."""
        return bool({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"} & set(self.instruction_sets))

    @property
    def multiplies_bf16(self) -> bool:
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(self.instruction_sets))


def this_host(proc: Path = Path("/proc")) -> Host:
    """`proc` is where Linux tells; elsewhere what Python knows has to do."""
    lines = _lines(proc / "cpuinfo")
    flags = f"{lines.get('flags', '')} {lines.get('Features', '')}".split()
    return Host(
        cpu=_cpu(lines),
        instruction_sets=tuple(sorted(KNOWN_SETS & set(flags))),
        cores=_cores(),
        memory_mib=_memory() // _MIB,
        gpu=_gpu(proc / "driver" / "nvidia" / "gpus"),
        libraries=_versions(),
    )


def kind_of(host: Host) -> str:
    """The same for hosts on which a model takes as long: not how much memory there is, nor how many cores."""
    decides = [host.cpu, sorted(host.instruction_sets), host.gpu]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]


def shown(host: Host) -> str:
    """For people, in one line."""
    sets = f" ({', '.join(host.instruction_sets)})" if host.instruction_sets else ""
    gpu = f", {host.gpu}" if host.gpu else ""
    cores = "1 core" if host.cores == 1 else f"{host.cores} cores"
    return f"{host.cpu}{sets}, {cores}, {host.memory_mib} MiB{gpu}"


def _lines(file: Path) -> dict[str, str]:
    """Of the first core: the others say the same."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): said.strip() for name, _, said in pairs}


def _cpu(lines: Mapping[str, str]) -> str:
    if lines.get("model name"):
        # A hypervisor may hide the name and leave no more than the maker's; family and model still tell processors apart.
        told = [lines["model name"], *(f"{word} {lines[word]}" for word in ("cpu family", "model") if word in lines)]
        return " ".join(", ".join(told).split())
    if "CPU part" in lines:  # ARM names makers and parts by number
        return f"ARM {lines.get('CPU implementer', '?')} part {lines['CPU part']}"
    return platform.processor() or platform.machine() or "unknown"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _gpu(folder: Path) -> str:
    try:
        names = sorted(_lines(card / "information").get("Model", "") for card in folder.iterdir())
    except OSError:
        return ""
    return next((name for name in names if name), "")


def _versions() -> dict[str, str]:
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found
