"""Amounts of memory as people write them."""

import re
from typing import Final

from falaj.base.errors import Invalid

_UNITS: Final = {"": 1, "m": 1, "g": 1024, "t": 1024**2}


def mib_of(text: str) -> int:
    """`512` and `512MiB` alike, `16G`, `1.5TiB`."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([mgt])i?b?)?\s*", text, re.IGNORECASE)
    if found is None:
        raise Invalid(f"{text!r} is no amount of memory; write it like 512MiB or 16GiB.")
    return round(float(found[1]) * _UNITS[(found[2] or "").lower()])
