"""Training: from a plain script to the hardware's limit, and through any failure.

Names are fetched when they are first used: launchers read this room where torch is not installed.
"""

from typing import Final

from falaj.base.fetching import fetching

_HOMES: Final = {
    "Choice": "recipes",
    "Facts": "recipes",
    "Hardware": "hardware",
    "Recipe": "recipes",
    "Wishes": "recipes",
    "choose": "recipes",
    "detect": "detection",
    "facts_of": "detection",
    "Saves": "saves",
    "Session": "session",
    "LossNotFinite": "errors",
    "trainer_for": "trainer",
    "check": "checks",
    "fit": "classic",
    "tuned": "classic",
}

__all__ = tuple(_HOMES)
__getattr__ = fetching(__name__, _HOMES, extra="train")
