"""Measures of variants, as people read them, and where variants have their pages."""

import math
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

# How a state looks; pages say it in words besides.
TONES: Final = {
    "planned": "",
    "skipped": "",
    "begun": "accent",
    "made": "",
    "dropped": "warn",
    "certified": "good",
    "refused": "bad",
}
SEARCH_TONES: Final = {"open": "accent", "done": "good", "abandoned": "warn"}
CERTIFIED: Final = ("certified", "refused")  # a refusal is signed as well
_FINEST: Final = 0.00005
_TIMES: Final = "\N{MULTIPLICATION SIGN}"


def times(many: float) -> str:
    return f"{many:.2f}{_TIMES}" if many < 100 else f"{many:,.0f}{_TIMES}"


def lost(share: float) -> str:
    """A drop in its unit, which the head of a column says."""
    if not math.isfinite(share):
        return "not known" if math.isnan(share) else "∞"
    return "< 0.01" if 0 < share < _FINEST else "0.00" if abs(share) < _FINEST else f"{share * 100:.2f}"


def points(share: float, task: str = "classes") -> str:
    """A drop: points of right answers, or per cent of the error."""
    return f"{lost(share)} {unit(task)}"


def unit(task: str) -> str:
    return "points" if task == "classes" else "% of the error"


def milliseconds(number: float) -> str:
    return f"{number:.3g} ms" if number < 1000 else f"{number:,.0f} ms"


def rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def energy(joules: float) -> str:
    """Of 1,000 predictions; nothing where nobody could tell."""
    return f"{joules:.3g} J" if joules > 0 else ""


def cost(amount: float) -> str:
    """Of a million predictions; nothing where the platform has no prices."""
    return "" if amount <= 0 else f"{amount:,.2f}" if amount >= 0.01 else f"{amount:.2g}"


def chance(share: float) -> str:
    return "< 0.0001" if share < 0.0001 else f"{share:.4f}" if share < 0.01 else f"{share:.2f}"


FORMATS: Final = {
    "times": times,
    "lost": lost,
    "points": points,
    "milliseconds": milliseconds,
    "rate": rate,
    "energy": energy,
    "cost": cost,
    "tones": TONES,
    "search_tones": SEARCH_TONES,
    "with_certificate": CERTIFIED,
}


# Addresses: a model's name is free text and travels in the query


def certificate_of(project: str, one: Any) -> str:
    """By the variant's id, for later searches of the version may have made others of the same name."""
    named = {"model": one.model, "version": one.version, "variant": one.id}
    return f"/projects/{project}/certificate?{urlencode(named)}"


def comparison_of(project: str, model: str, version: int, ids: Sequence[str]) -> str:
    named = {"model": model, "version": version, "variants": ",".join(ids)}
    return f"/projects/{project}/variants?{urlencode(named)}"


def optimisation_of(project: str, id: str) -> str:
    return f"/projects/{project}/optimisations/{id}"
