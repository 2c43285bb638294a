"""Following the control plane: its newest state, and the models that state names, fetched before anybody serves by it."""

import logging
import time
from collections.abc import Callable
from typing import Final

from falaj.base.errors import Corrupt, FalajError
from falaj.base.values import value
from falaj.serving.operations.planes import SignedState
from falaj.serving.plane.joining import Control
from falaj.serving.plane.keeping import StateFile, verified
from falaj.serving.plane.models import SealedModels
from falaj.serving.states import File, Revision, State

log = logging.getLogger(__name__)
FIRST_WAIT: Final = 0.5  # seconds after which a file that did not come is asked for again; then twice as long each time
LONGEST_WAIT: Final = 30.0


@value
class _Failed:
    """Why a file did not come, how long it is left alone, and until when."""

    why: str
    wait: float
    until: float


class Follower:
    """Blocking; used from one thread at a time. `state` is the newest that is whole here, `body` exactly as it was signed.

    A state of another zone than the one that `zone` says is refused, whoever signed it. A file that does not come is asked for
    again, less and less often."""

    def __init__(
        self,
        control: Control | None,
        file: StateFile,
        models: SealedModels,
        trusted: dict[str, bytes],
        zone: Callable[[], str],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._file = file
        self._models = models
        self._trusted = trusted
        self._zone = zone
        self._now = now
        self._failed: dict[str, _Failed] = {}  # by digest
        self.state: State | None = None
        self.body = b""
        self.problems: dict[str, str] = {}  # by revision: why its files are not here
        self._wanting: set[str] = set()  # digests of files of ladders that are not here: revisions do without them

    def recall(self) -> bool:
        """Take up what the last run left. False where there is nothing to serve by."""
        try:
            kept = self._file.read()
            if kept is not None:
                self._check_zone(kept[1])
        except Corrupt as error:
            log.warning("%s", error)
            return False
        if kept is None:
            return False
        self._take(*kept)
        return True

    def step(self) -> bool:
        """Ask once. True where something changed. Raises `FalajError` where the control plane does not answer, or lies."""
        if self._control is None:
            return False
        known = self.state.serial if self.state is not None and not self._lacks(self.state) else 0
        signed = self._control.state(known)
        if not signed.body:
            return False
        state = verified(signed, self._trusted)
        self._check_zone(state)
        if self.state is not None and state.issued < self.state.issued:
            raise Corrupt("An older state came after a newer one; it is not used.")
        problems = self._fetch(state)
        wanting = {file.digest for file in _files(state) if not self._models.has(file)}
        if self.state is not None and (self.state.serial, self.problems, self._wanting) == (state.serial, problems, wanting):
            return False
        self._take(signed, state)
        self.problems, self._wanting = problems, wanting
        try:
            self._file.write(signed)
            self._models.forget_others({file.digest for file in _files(state)})
        except OSError as error:  # a full disk must not keep a revoked key or a broken revision alive
            log.error("the state is served by and cannot be kept for the next start: %s", error)
        return True

    def _check_zone(self, state: State) -> None:
        if state.zone != (zone := self._zone()):
            raise Corrupt(f"A state of {state.zone!r} came to a plane of {zone!r}; it is not used.")

    def _take(self, signed: SignedState, state: State) -> None:
        self.state, self.body = state, signed.body.encode()

    def _lacks(self, state: State) -> bool:
        """Whether there is a file to ask for now: one that did not come, or that was spoilt on this disk since."""
        return any(not self._models.has(file) and self._is_due(file) for file in _files(state))

    def _is_due(self, file: File) -> bool:
        failed = self._failed.get(file.digest)
        return failed is None or self._now() >= failed.until

    def _fetch(self, state: State) -> dict[str, str]:
        """What could not be fetched, by revision: one broken model does not hold up the others, nor a rung its revision."""
        problems: dict[str, str] = {}
        for revision in (revision for endpoint in state.endpoints for revision in endpoint.revisions):
            for file in revision.all_files:
                if self._models.has(file):
                    continue
                if self._is_due(file):
                    self._ask_for(revision, file)
                if file in revision.files and (failed := self._failed.get(file.digest)):
                    problems[revision.id] = failed.why
        named = {file.digest for file in _files(state)}
        self._failed = {digest: failed for digest, failed in self._failed.items() if digest in named}
        return problems

    def _ask_for(self, revision: Revision, file: File) -> None:
        """Notes it where the file does not come."""
        if self._control is None:
            return
        before = self._failed.pop(file.digest, None)
        try:
            self._models.keep(file, self._control.file(revision.id, file.name))
            return
        except FalajError as error:
            why = str(error)
        except OSError as error:
            why = f"{file.name!r} cannot be kept on this plane's disk: {error.strerror or error}."
        wait = FIRST_WAIT if before is None else min(2 * before.wait, LONGEST_WAIT)
        self._failed[file.digest] = _Failed(why=why, wait=wait, until=self._now() + wait)
        told = "the model file %r of %s:%d was not fetched and is asked for again in %g s: %s"
        log.warning(told, file.name, revision.model, revision.version, wait, why)


def _files(state: State) -> list[File]:
    return [file for endpoint in state.endpoints for revision in endpoint.revisions for file in revision.all_files]
