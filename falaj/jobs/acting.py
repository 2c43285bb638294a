"""Doing what was written: engines are told to stop and to start, again and again until they have heard. Nothing here decides
anything, and all of it may be repeated."""

import logging
from collections.abc import Mapping
from typing import Final

from falaj.base.clock import SECOND, Clock
from falaj.base.errors import FalajError, TemporaryError
from falaj.base.failpoints import failpoint
from falaj.jobs.engines.engine import Engine
from falaj.jobs.launching import Equipped, Launcher
from falaj.jobs.observing import Patience
from falaj.jobs.present import LiveAttempt, Present

AT_MOST: Final = 5 * SECOND  # for acting in one turn; the next one goes on
log = logging.getLogger(__name__)


class Actions:
    """What is still to be told to engines. Belongs to the controller's thread."""

    def __init__(
        self, present: Present, engines: Mapping[str, Engine], launcher: Launcher, clock: Clock, patience: Patience
    ) -> None:
        self._present = present
        self._engines = engines
        self._launcher = launcher
        self._clock = clock
        self._patience = patience
        self._stops: dict[str, LiveAttempt] = {}
        self._starts: dict[str, tuple[Equipped, int]] = {}
        self._fences: dict[str, str] = {}  # attempts by id that must never run again, and their engines
        self._given_up: dict[str, LiveAttempt] = {}

    def stop(self, attempt: LiveAttempt) -> None:
        self._stops[attempt.id] = attempt

    def start(self, equipped: Equipped, steady: int) -> None:
        if equipped.refusal:
            equipped.attempt.trouble = ("refused", equipped.refusal)
        elif equipped.attempt.engine not in self._engines:
            equipped.attempt.acted = equipped.attempt.seen = steady  # its own control plane reads of it, and starts it
        else:
            self._starts[equipped.attempt.id] = (equipped, steady)

    def fence(self, attempt: str, engine: str) -> None:
        """It counts for nothing any more: should it still run, or begin to, that ends."""
        self._fences[attempt] = engine

    def give_up(self, attempt: LiveAttempt) -> None:
        """Planned by a controller that is gone, and its engine has not heard of it: it will not be started by that one any
        more either, however late it wakes up."""
        self._given_up[attempt.id] = attempt

    def forget(self, attempt: LiveAttempt) -> None:
        """It ended."""
        self._stops.pop(attempt.id, None)
        self._starts.pop(attempt.id, None)
        self._given_up.pop(attempt.id, None)

    def carry_out(self, steady: int) -> bool:
        """Whether something is left that could be done at once."""
        until, mute = self._clock.now() + AT_MOST, set[str]()
        for attempt_id, engine in list(self._fences.items()):
            if self._tell_stop(attempt_id, engine, 0, mute):
                del self._fences[attempt_id]
        for attempt in list(self._given_up.values()):
            if self._tell_stop(attempt.id, attempt.engine, 0, mute):
                attempt.trouble = ("unstarted", "")
                del self._given_up[attempt.id]
        for attempt in list(self._stops.values()):
            grace = max(0, (attempt.stop_by or 0) - self._clock.now())
            if self._tell_stop(attempt.id, attempt.engine, grace, mute):
                attempt.stop_told = steady
                del self._stops[attempt.id]
        return self._start_all(steady, until, mute)

    def _start_all(self, steady: int, until: int, mute: set[str]) -> bool:
        taken = self._still_taken()
        for equipped, since in list(self._starts.values()):
            attempt = equipped.attempt
            if self._clock.now() >= until:
                return True
            if attempt.stop_for:  # told to stop before it began: it never does
                self._given_up[attempt.id] = attempt
                del self._starts[attempt.id]
            elif attempt.engine not in mute and not (taken and taken.intersection(attempt.nodes)):
                self._start_one(equipped, since, steady, mute)
        return any(attempt.trouble is not None for attempt in self._present.attempts.values()) or bool(self._given_up)

    def _still_taken(self) -> set[str]:
        """Nodes where a job that goes on with fewer seats has not let go of the others yet."""
        resized = (attempt for attempt in self._present.attempts.values() if attempt.resize_to)
        return {node for attempt in resized for node in attempt.nodes}

    def _start_one(self, equipped: Equipped, since: int, steady: int, mute: set[str]) -> None:
        attempt = equipped.attempt
        try:
            self._engines[attempt.engine].start(self._launcher.launch(equipped, self._clock.now()))
            failpoint("jobs.attempt-started")
        except TemporaryError as error:
            log.warning("attempt %s cannot be started now: %s", attempt.id, error)
            mute.add(attempt.engine)
            if steady - since < self._patience.unstarted:
                return
            self.fence(attempt.id, attempt.engine)
            attempt.trouble = ("lost", f"its engine would not start it: {error}")
        except FalajError as error:
            self.fence(attempt.id, attempt.engine)
            attempt.trouble = ("environment", str(error))
        except Exception as error:
            log.exception("attempt %s could not be started", attempt.id)
            self.fence(attempt.id, attempt.engine)
            attempt.trouble = ("environment", f"its engine failed with {type(error).__name__}")
        else:
            attempt.acted = attempt.seen = steady
        del self._starts[attempt.id]

    def _tell_stop(self, attempt: str, engine: str, grace: int, mute: set[str]) -> bool:
        if engine not in self._engines:
            return True  # its own control plane reads of it, and stops it
        if engine in mute:
            return False
        try:
            self._engines[engine].stop(attempt, grace)
            failpoint("jobs.attempt-stopped")
        except TemporaryError:
            mute.add(engine)
            return False
        except Exception:
            log.exception("attempt %s could not be stopped", attempt)
            return False
        return True
