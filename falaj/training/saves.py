"""When and where a training saves itself, for sessions and trainers alike.

What seals is fetched when there is something to seal: a machine where nothing is saved needs torch alone.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training import checkpoints
from falaj.training.checkpoints import folders
from falaj.training.checkpoints.keeping import Keep
from falaj.training.checkpoints.keys import KeySource, key_from_environment
from falaj.training.checkpoints.reporting import report_from_environment


@value
class Saves:
    """Without a folder it is the job's own (`FALAJ_CHECKPOINTS`), or there are no checkpoints; without a key, the job's. Where
    nothing is saved `at_all`, nothing is resumed either: a program that trains several models has one folder for all of them.

    `total_steps`, where it is known, lets the platform know how far the training is.
    """

    folder: Path | str = ""
    key: KeySource | None = None
    every_seconds: float = 600.0
    every_steps: int = 0
    total_steps: int = 0
    keep: Keep | None = None
    at_all: bool = True

    def __post_init__(self) -> None:
        if not (self.every_seconds >= 0 and self.every_steps >= 0 and self.total_steps >= 0):
            raise Invalid(
                f"checkpoints every {self.every_seconds:g} seconds and every {self.every_steps} of {self.total_steps} steps "
                "were asked for: give times and numbers from 0 on; 0 leaves one out"
            )

    def place(self, variables: Mapping[str, str] = os.environ) -> str:
        return str(self.folder or variables.get(folders.VARIABLE, "")) if self.at_all else ""

    def open(self, variables: Mapping[str, str] = os.environ, *, workers: Any = None) -> Any:
        """The `Checkpoints`, or None; by all processes of a training, once they have met."""
        if not (folder := self.place(variables)):
            return None
        key = self.key or key_from_environment(variables)
        return checkpoints.Checkpoints(folder, key, keep=self.keep, report=report_from_environment(variables), workers=workers)
