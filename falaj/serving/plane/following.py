"""Following the control plane: its newest state, and the models that state names, fetched before anybody serves by it."""

import logging
from collections.abc import Callable

from falaj.base.errors import Corrupt, FalajError
from falaj.serving.operations.planes import SignedState
from falaj.serving.plane.joining import Control
from falaj.serving.plane.keeping import StateFile, verified
from falaj.serving.plane.models import SealedModels
from falaj.serving.states import File, State

log = logging.getLogger(__name__)


class Follower:
    """Blocking; used from one thread at a time. `state` is the newest that is whole here, `body` exactly as it was signed.

    A state of another zone than the one that `zone` says is refused, whoever signed it."""

    def __init__(
        self, control: Control | None, file: StateFile, models: SealedModels, trusted: dict[str, bytes], zone: Callable[[], str]
    ) -> None:
        self._control = control
        self._file = file
        self._models = models
        self._trusted = trusted
        self._zone = zone
        self.state: State | None = None
        self.body = b""
        self.problems: dict[str, str] = {}  # by revision: why its files are not here

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
        known = self.state.serial if self.state is not None and not self.problems else 0
        signed = self._control.state(known)
        if not signed.body:
            return False
        state = verified(signed, self._trusted)
        self._check_zone(state)
        if self.state is not None and state.issued < self.state.issued:
            raise Corrupt("An older state came after a newer one; it is not used.")
        problems = self._fetch(state)
        if self.state is not None and (self.state.serial, self.problems) == (state.serial, problems):
            return False
        self._take(signed, state)
        self.problems = problems
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

    def _fetch(self, state: State) -> dict[str, str]:
        """What could not be fetched, by revision: one broken model does not hold up the others."""
        problems: dict[str, str] = {}
        for endpoint in state.endpoints:
            for revision in endpoint.revisions:
                for file in revision.files:
                    if self._models.has(file) or self._control is None:
                        continue
                    try:
                        self._models.keep(file, self._control.file(revision.id, file.name))
                    except FalajError as error:
                        problems[revision.id] = str(error)
                    except OSError as error:
                        problems[revision.id] = f"{file.name!r} cannot be kept on this plane's disk: {error.strerror or error}."
        return problems


def _files(state: State) -> list[File]:
    return [file for endpoint in state.endpoints for revision in endpoint.revisions for file in revision.files]
