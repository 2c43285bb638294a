"""Figures that steps hand on, as people read them: on pages and on the command line."""

from typing import Any, Final

_LARGE: Final = 1000.0  # from here on digits before the point are kept


def in_four_digits(given: Any) -> Any:
    if isinstance(given, float):
        return float(f"{given:.4g}") if abs(given) < _LARGE else round(given, 1)
    if isinstance(given, dict):
        return {name: in_four_digits(one) for name, one in given.items()}
    return [in_four_digits(one) for one in given] if isinstance(given, list) else given
