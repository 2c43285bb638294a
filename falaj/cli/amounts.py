"""Amounts as people write them: `16GiB`, `0.5`, `90m`, `95%`."""

import math

from falaj.base.errors import Invalid
from falaj.base.memory import mib_of as mib_of
from falaj.base.spans import seconds_of as seconds_of


def part_of(text: str, what: str) -> float:
    """`0.01` or `1%`: how large a difference is."""
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found >= 0):
        raise Invalid(f"{text!r} is no {what}; write a number, or per cent with a sign: 0.01, or 1%.")
    return found


def fraction_of(text: str, option: str) -> float:
    """`0.95` or `95%`, and never more than all."""
    found = part_of(text, f"share for {option}")
    if found > 1:
        meant = f" Did you mean {text}%?" if not text.endswith("%") and found <= 100 else ""
        raise Invalid(f"{option} {text} is more than all; write a number from 0 to 1, or per cent with a sign.{meant}")
    return found


def span_told(seconds: float) -> str:
    """In the two largest units that say something."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def memory_told(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def amount_told(resource: str, amount: float) -> str:
    """An amount of a resource in its own unit, as quotas count it."""
    return memory_told(amount) if resource == "memory" else f"{amount / 1000:g}" if resource != "io" else f"{amount:g}"


def size_told(size: float) -> str:
    """Bytes, in the unit that leaves few digits."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1024
    return f"{size:.3g} GiB"


def share_told(of_rows: float) -> str:
    """Of what is kept from people there is none."""
    return "not told" if math.isnan(of_rows) else f"{of_rows:.1%}"
