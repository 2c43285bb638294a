"""Checkpoints: sealed, written beside the training, whole or not at all; and going on from them exactly.

`Recovery` is what a loop talks to. `Checkpoints` saves and loads a `TrainingState`, `ResumableLoader` knows how far the data
was read, `Preemption` hears that the job should give back its place. Names are imported when first used: half need torch.
"""

from importlib import import_module
from typing import Any, Final

_HOMES: Final = {
    "Checkpoints": "saving",
    "GivenKey": "keys",
    "JobReport": "reporting",
    "Keep": "keeping",
    "KeySource": "keys",
    "Preemption": "preemption",
    "Recovery": "recovery",
    "SavedBytes": "bytes",
    "ResumableLoader": "loaders",
    "TrainingState": "state",
    "checkpoints_from_environment": "saving",
    "key_from_environment": "keys",
    "resumable": "loaders",
    "saved_bytes_from_environment": "bytes",
}
__all__ = tuple(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
