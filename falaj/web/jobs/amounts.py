"""Amounts of resources, money and time, as people read them."""

import re
from typing import Final

from falaj.base.clock import Moment
from falaj.web.experiments.numbers import duration_text

MILLIONTHS: Final = 1_000_000
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours and cursor moves, which a page cannot follow


def memory(mib: float) -> str:
    if mib < 1024:
        return f"{mib:.0f} MiB"
    return f"{mib / 1024:.0f} GiB" if mib >= 100 * 1024 or mib % 1024 == 0 else f"{mib / 1024:.1f} GiB"


def amount(resource: str, count: float) -> str:
    """In the resource's own unit, as quotas count it: thousandths of cores and cards, MiB of memory."""
    if resource == "memory":
        return memory(count)
    return f"{count:g}" if resource == "io" else f"{round(count / 1000, 2):g}"


def resource_name(resource: str) -> str:
    """`gpu:H200` is what people call an H200."""
    names = {"cpu": "CPUs", "memory": "Memory", "gpu": "GPUs", "io": "I/O"}
    return names.get(resource) or resource.removeprefix("gpu:")


def money(millionths: int) -> str:
    """In whatever currency the platform's prices are; nothing where it costs nothing."""
    if not millionths:
        return ""
    units = millionths / MILLIONTHS
    return f"{units:,.2f}" if units >= 0.01 else f"{units:.2g}"


def span(seconds: float) -> str:
    return duration_text(round(seconds * 1000)) if seconds >= 1 else "0 s"


def between(start: Moment | None, end: Moment) -> str:
    return "" if start is None else span(max(0, end - start) / MILLIONTHS)


def sentence(words: str) -> str:
    """Reasons are told within other sentences too; alone, they begin and end like one. What is one stays as it is."""
    words = words.strip()
    return words if not words or words.endswith((".", "!", "?")) else f"{words[0].upper()}{words[1:]}."


def log_lines(text: str) -> str:
    """What a terminal would show of a log: without colours, and of a line that was written over its last state."""
    plain = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "\n".join(line.rpartition("\r")[2] for line in plain.split("\n"))
