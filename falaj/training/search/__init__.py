"""Searching for the parameters that do best: spaces, studies and when they are over, and `tune` for a function.

Names are fetched when they are first used: the console reads studies where Optuna is not installed.
"""

from typing import Final

from falaj.base.fetching import fetching

_HOMES: Final = {"Limits": "stopping", "Objective": "studies", "Study": "studies", "Trial": "studies", "tune": "local"}

__all__ = tuple(_HOMES)
__getattr__ = fetching(__name__, _HOMES, extra="tune")
