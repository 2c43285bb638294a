"""Training: from a plain script to the hardware's limit, and through any failure.

Names are fetched when they are first used: launchers read this room where torch is not installed.
"""

import importlib
from typing import Any, Final

_HOMES: Final = {
    "Choice": "recipes",
    "Facts": "recipes",
    "Hardware": "hardware",
    "Recipe": "recipes",
    "Wishes": "recipes",
    "choose": "recipes",
    "detect": "detection",
    "facts_of": "detection",
    "Session": "session",
    "LossNotFinite": "errors",
    "trainer_for": "trainer",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"falaj.training has no {name!r}")
    return getattr(importlib.import_module(f"falaj.training.{home}"), name)
