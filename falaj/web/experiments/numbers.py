"""Numbers and times of runs, as people read them."""

import math

from falaj.base.clock import Moment


def number_text(value: float) -> str:
    """As many digits as people compare by."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.5g}"


def moment_of(milliseconds: int) -> Moment:
    """Clients say times in milliseconds, and some say nonsense: what no calendar has is the nearest day that one has."""
    return Moment(min(max(milliseconds, 0), 253_402_300_799_000) * 1000)


def duration_text(milliseconds: int | None) -> str:
    """From milliseconds to days, in two units at most."""
    if milliseconds is None or milliseconds < 0:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    seconds = milliseconds // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if hours < 1:
        return f"{minutes} min {seconds % 60} s"
    return f"{hours} h {minutes % 60} min" if days < 1 else f"{days} d {hours % 24} h"
