"""Saving beside the training, and loading the newest checkpoint that is whole."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from torch.distributed.checkpoint.api import CheckpointException

from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.training.checkpoints import folders, manifests, storage
from falaj.training.checkpoints.errors import Damaged, NoneUsable
from falaj.training.checkpoints.keeping import Keep
from falaj.training.checkpoints.keys import KeySource, key_from_environment
from falaj.training.checkpoints.manifests import Manifest
from falaj.training.checkpoints.reporting import NoReport, Report, report_from_environment
from falaj.training.checkpoints.sealing import OpenedFile
from falaj.training.checkpoints.staging import Staging
from falaj.training.checkpoints.state import COMMON, Captured, Saveable, process_blob
from falaj.training.checkpoints.workers import Workers

_LOGGER: Final = logging.getLogger("falaj.training")

FOLDER_VARIABLE: Final = folders.VARIABLE

Which = Literal["latest", "best"]


@value
class Saved:
    """`copying`: seconds the training stood still. `writing`: seconds it took beside it."""

    name: str
    step: int
    metric: float | None
    copying: float
    writing: float


@value
class Failed:
    """The checkpoint of this step does not exist; those before it are as they were."""

    step: int
    why: str


class Checkpoints:
    """The checkpoints of one training in one folder, which all its hosts share. Made and called by all its processes alike.

    `save` copies and comes back; one thread seals and writes. What goes wrong there ends no training: it is told, and `wait`
    gives it back. A checkpoint appears when its last byte is on the disk; what `keep` does not keep goes after that.
    """

    def __init__(
        self,
        folder: Path | str,
        key: KeySource,
        *,
        keep: Keep | None = None,
        tell: Callable[[str], None] = _LOGGER.warning,
        report: Report | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._folder, self._key = Path(folder), key.key()
        self._keep, self._tell, self._report = keep or Keep(), tell, report or NoReport()
        self.workers = workers or Workers()
        self._staging = Staging()
        self._thread: threading.Thread | None = None
        self._outcome: Saved | Failed | None = None
        self._damaged: set[str] = set()

    # 1. Saving

    @property
    def is_busy(self) -> bool:
        """Whether the last one is still being written; saving would wait for it."""
        return self._thread is not None and self._thread.is_alive()

    def save(self, state: Saveable, *, metric: float | None = None, progress: float = 0.0) -> None:
        """The state as it is now. `metric` is what `keep` compares; `progress`, from 0 to 1, is told to the platform."""
        self.wait()
        began = time.monotonic()
        captured = state.captured(self.workers.rank, self.workers.count)
        copies = self._staging.copy(captured.tensors)
        copying = time.monotonic() - began
        self._outcome = None
        write = (captured, copies, state.step, metric, progress, copying)
        # No daemon: a program that ends meanwhile waits for its last checkpoint.
        self._thread = threading.Thread(target=self._write, args=write, name="checkpoint")
        self._thread.start()

    def wait(self) -> Saved | Failed | None:
        """Until the last one is on the disk, or is known not to be; nothing if none was saved yet."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._outcome

    def _write(
        self, captured: Captured, copies: dict[str, Any], step: int, metric: float | None, progress: float, copying: float
    ) -> None:
        began, name = time.monotonic(), ""
        try:
            name = self._agreed_name(step)
            saving = storage.Saving(folder=self._folder, name=name, key=self._key, step=step, metric=metric)
            storage.save(saving, self.workers, captured.tensors, copies, captured.blobs)
        except BaseException as error:  # noqa: BLE001 - a thread has nobody above it; whatever it was is told
            self._fail(step, name, _words(error))
            return
        self._outcome = Saved(name=name, step=step, metric=metric, copying=copying, writing=time.monotonic() - began)
        if self.workers.is_first:
            with suppress(OSError):
                self._remove_superfluous()
            self._report.checkpointed(progress)

    def _agreed_name(self, step: int) -> str:
        """The first process makes the folder; what keeps it from doing so is heard by all."""
        name, problem = "", ""
        if self.workers.is_first:
            try:
                name = folders.next_name(self._folder, step)
                folders.begin(self._folder, name)
            except (OSError, FalajError) as error:
                problem = _words(error)
        name, problem = self.workers.first_says((name, problem), self.workers.saving)
        if problem:
            raise _NotBegun(problem)
        return name

    def _fail(self, step: int, name: str, why: str) -> None:
        self._outcome = Failed(step=step, why=why)
        if self.workers.is_first:
            if name:
                folders.abandon(self._folder, name)
            self._tell(f"The checkpoint of step {step} was not saved: {why} Earlier ones are intact, and the training goes on.")

    def _remove_superfluous(self) -> None:
        """What does not open with this key is not ours to remove."""
        there = [one for one in self.published() if one.name not in self._damaged]
        for name in [*(there[at].name for at in self._keep.superfluous(there)), *self._damaged]:
            if (self._folder / name).exists():
                folders.remove(self._folder, name)
        self._damaged.clear()

    # 2. Loading

    def published(self) -> list[Manifest]:
        """Those whose manifest opens, oldest first."""
        found = []
        for name in folders.names(self._folder):
            with suppress(Damaged):
                found.append(manifests.read(self._folder / name, self._key))
        return found

    def latest(self) -> Manifest | None:
        return next(reversed(self.published()), None)

    def best(self) -> Manifest | None:
        there = self.published()
        return next((there[at] for at in self._keep.best_of(there)), None)

    def load(self, state: Saveable, which: Which = "latest") -> Manifest | None:
        """The newest, or best, that is whole; nothing where there is none yet. Damaged ones are told and passed over."""
        self.wait()
        names = self.workers.first_says(self._candidates(which) if self.workers.is_first else [], self.workers.looping)
        for name in names:
            manifest, problem = self._verified(name)
            problems = [one for one in self.workers.all_say(problem, self.workers.looping) if one]
            if manifest is not None and not problems:
                self._load(state, manifest)
                return manifest
            if manifest is not None:
                self._damaged.add(name)
            if self.workers.is_first:
                self._tell(f"The checkpoint {name} is damaged and is not used: {problems[0]} The one before it is tried.")
        if names:
            self._damaged.clear()  # whoever goes on all the same may want to look at them
            raise NoneUsable(
                f"None of the {len(names)} checkpoints in {self._folder} opens: they were damaged, or sealed with another key. "
                "Bring back the key, or name another folder to begin anew."
            )
        return None

    def _candidates(self, which: Which) -> list[str]:
        if which == "latest":
            return folders.names(self._folder)[::-1]
        there = self.published()
        return [there[at].name for at in self._keep.best_of(there)]

    def _verified(self, name: str) -> tuple[Manifest | None, str]:
        """Every byte is read before the training is touched; each process reads some of the files."""
        manifest = None
        try:
            manifest = manifests.read(self._folder / name, self._key)
            for at, (file, content) in enumerate(sorted(manifest.files.items())):
                if at % self.workers.count == self.workers.rank:
                    with OpenedFile(self._folder / name / file, self._key, manifests.about(name, file)) as opened:
                        if opened.size != content.size or opened.digest() != content.digest:
                            raise Damaged(f"{file} is not the file that was saved.")
        except Damaged as error:
            return manifest, str(error)
        return manifest, ""

    def _load(self, state: Saveable, manifest: Manifest) -> None:
        rank = self.workers.rank
        own = process_blob(rank) if manifest.workers == self.workers.count else None
        if own is None and self.workers.is_first:
            self._tell(
                f"The checkpoint of step {manifest.step} was saved by {manifest.workers} processes and is loaded by "
                f"{self.workers.count}: the data goes on where it was, and random numbers are drawn anew."
            )
        loaded: dict[str, Any] = dict(state.targets(manifest.entries))
        tensors = tuple(loaded)
        loaded |= {COMMON: b""} | ({own: b""} if own else {})
        try:
            storage.load(self._folder / manifest.name, self._key, manifest, self.workers, loaded)
        except CheckpointException as error:
            raise Damaged(f"The checkpoint {manifest.name} could not be read to its end: {_words(error)}") from error
        state.restore({key: loaded[key] for key in tensors}, loaded[COMMON], loaded[own] if own else None, rank)


def checkpoints_from_environment(variables: Mapping[str, str] = os.environ, *, keep: Keep | None = None) -> Checkpoints | None:
    """Where the platform keeps this job's checkpoints, with its key, told about to it; nothing outside of such a job."""
    if not (folder := variables.get(FOLDER_VARIABLE, "")):
        return None
    return Checkpoints(folder, key_from_environment(variables), keep=keep, report=report_from_environment(variables))


class _NotBegun(FalajError):
    """The folder of a checkpoint could not be made."""


def _words(error: BaseException) -> str:
    """One sentence, also where several processes failed."""
    if isinstance(error, CheckpointException):
        rank, failure = min(error.failures.items(), key=lambda one: int(one[0]))
        return f"in process {rank}: {_words(failure[0])}"
    if isinstance(error, FalajError):
        return str(error)
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else 'without a word'}."
