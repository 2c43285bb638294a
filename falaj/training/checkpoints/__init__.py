"""Checkpoints: sealed, written beside the training, whole or not at all; and going on from them exactly.

`Recovery` is what a loop talks to. `Checkpoints` saves and loads a `TrainingState`, `ResumableLoader` knows how far the data
was read, `Preemption` hears that the job should give back its place. Names are imported when first used: half need torch.
"""

from typing import Final

from falaj.base.fetching import fetching

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
__getattr__ = fetching(__name__, _HOMES, extra="train")
