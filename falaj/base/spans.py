"""Lengths of time as people write them."""

import re
from typing import Final

from falaj.base.errors import Invalid

_SPANS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int:
    """`90`, `90s`, `15m`, `2h`, `1d`."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)\s*", text)
    if found is None:
        raise Invalid(f"{text!r} is no length of time; write it like 90s, 15m, 2h or 1d.")
    return round(float(found[1]) * _SPANS[found[2]])
