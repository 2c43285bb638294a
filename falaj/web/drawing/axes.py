"""Straight axes: where a value stands, and round numbers to write at them."""

import math
from collections.abc import Callable
from typing import Final

_ROUND: Final = (1.0, 2.0, 5.0, 10.0)


def straight(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """From values to places; what lies outside stands at the rim."""
    span = high - low

    def place(at: float) -> float:
        return first + min(1.0, max(0.0, (at - low) / span)) * (last - first)

    return place


def ticks(low: float, high: float, about: int = 6) -> list[tuple[float, str]]:
    """Round numbers within, about so many, with how they are written."""
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(times * unit for times in _ROUND if times * unit >= rough * 0.999)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(number * step, f"{number * step:.{digits}f}") for number in range(first, last + 1)]
