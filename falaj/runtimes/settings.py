"""How a model is to be run, beside where: words and what may stand behind them, by runtime. A variant is measured with them,
so one that nobody knows is refused rather than passed over."""

import os
import re
from typing import Final

from falaj.runtimes.engine import ModelFiles, Placement
from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.hosts import Host

INT8: Final = "int8-multiply"  # what a model may need of its host
_THREADS: Final = ("[1-9][0-9]{0,2}", "a number from 1 to 999")
_NEEDS: Final = (INT8, INT8)
# By runtime and word: what may stand behind it, as a pattern and in words.
SETTINGS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "onnx": {"arena": ("on|off", "on or off"), "threads": _THREADS, "needs": _NEEDS},
    "openvino": {"precision": ("f32|bf16", "f32 or bf16"), "threads": _THREADS, "needs": _NEEDS},
}


def check_settings(files: ModelFiles) -> None:
    known = SETTINGS.get(files.runtime, {})
    for word, given in files.settings.items():
        if word not in known:
            listed = f"only {', '.join(known)}" if known else "none"
            raise NotLoadable(f"models for {files.runtime} know no setting {word!r}, {listed}")
        pattern, said = known[word]
        if not re.fullmatch(pattern, given):
            raise NotLoadable(f"the setting {word} of the model is {given!r}; it must be {said}")


def check_host(files: ModelFiles, host: Host) -> None:
    """Where products of eight bits are added up in sixteen, sums of some models run over: their answers would be others than
    those that were certified."""
    if files.settings.get("needs") == INT8 and not host.multiplies_int8:
        raise NotLoadable(
            "it was made for processors that multiply in eight bits in one instruction (avx512_vnni, avx_vnni, amx_int8, "
            f"asimddp or i8mm), and would answer otherwise on this one ({host.cpu}): have the model optimised on a host like it"
        )


def threads_of(files: ModelFiles, placement: Placement) -> int:
    """A model may wish for as many as the host has, or as whoever runs the host allows."""
    most = placement.threads or os.cpu_count() or 1
    return min(int(files.settings.get("threads", 0)), most) or placement.threads or 1
