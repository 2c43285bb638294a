"""Checkpoints of trainings without torch: whatever they are made of, as bytes; sealed, whole or not at all."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from falaj.training.checkpoints import folders
from falaj.training.checkpoints.errors import Damaged, NoneUsable
from falaj.training.checkpoints.keys import KeySource, key_from_environment
from falaj.training.checkpoints.reporting import NoReport, Report, report_from_environment
from falaj.training.checkpoints.sealing import OpenedFile, SealedFile

_FILE: Final = "content"
_LOG: Final = logging.getLogger("falaj.training")


class SavedBytes:
    """The newest `keep` are kept. One process writes."""

    def __init__(self, folder: Path | str, key: KeySource, *, keep: int = 2, report: Report | None = None) -> None:
        self._folder, self._key, self._keep, self._report = Path(folder), key, max(1, keep), report or NoReport()

    def save(self, content: bytes, *, step: int = 0, progress: float = 0.0) -> None:
        """Durable when it comes back. A full disk is an error that leaves what was saved before."""
        name = folders.next_name(self._folder, step)
        folders.begin(self._folder, name)
        try:
            with SealedFile(folders.being_written(self._folder, name) / _FILE, self._key.key(), name) as file:
                file.write(content)
            folders.publish(self._folder, name)
        except BaseException:
            folders.abandon(self._folder, name)
            raise
        for old in folders.names(self._folder)[: -self._keep]:
            folders.remove(self._folder, old)
        self._report.checkpointed(progress)

    def load(self) -> bytes | None:
        """What was saved last and is whole; None where nothing was saved yet."""
        found = folders.names(self._folder)
        for name in reversed(found):
            try:
                with OpenedFile(self._folder / name / _FILE, self._key.key(), name) as file:
                    return bytes(file.read(0, file.size))
            except Damaged as error:
                _LOG.warning("The checkpoint %s is not used: %s", name, error)
        if found:
            raise NoneUsable(f"None of the {len(found)} checkpoints in {self._folder} opens: damaged, or of another key.")
        return None


def saved_bytes_from_environment(variables: Mapping[str, str] = os.environ) -> SavedBytes | None:
    """The job's own; None for a training that is no job, or has no checkpoints."""
    if not (folder := variables.get(folders.VARIABLE, "")):
        return None
    return SavedBytes(folder, key_from_environment(variables), report=report_from_environment(variables))
