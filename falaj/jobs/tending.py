"""Looking after this control plane's own engine while another one decides: what was written for it is done, what counts for
nothing any more is stopped, and what it says is reported to whoever decides (`elsewhere`).

The rows say it all: an attempt that is planned is to be started, one that is told to stop is to stop, and one that is not the
present one of its job is not to run, however long this control plane was gone.
"""

import logging
from collections.abc import Mapping

from falaj.base.clock import Clock, Moment
from falaj.base.errors import FalajError, TemporaryError
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.jobs.elsewhere import Report, report_written
from falaj.jobs.engines.engine import Cause, Engine, MeasuresCards, Seen
from falaj.jobs.launching import Equipped, Launcher
from falaj.jobs.observing import Patience
from falaj.jobs.present import LiveJob, attempt_read
from falaj.jobs.retrying import LONGEST_WAIT
from falaj.jobs.store import attempts, engines, jobs
from falaj.jobs.store.tables import Found

log = logging.getLogger(__name__)


@value
class _Read:
    """`going` are the attempts that the engine is to run; `late` those that it speaks of besides."""

    going: Mapping[str, Found]
    late: Mapping[str, Found]


class Tender:
    """For one thread."""

    def __init__(self, database: Database, clock: Clock, engine: Engine, launcher: Launcher, patience: Patience) -> None:
        self._database = database
        self._clock = clock
        self._engine = engine
        self._launcher = launcher
        self._patience = patience
        self._refused: dict[str, Seen] = {}  # attempts that could not be started, as what they are reported
        self._tried: dict[str, Moment] = {}  # when starting one first failed for now
        self._told: dict[str, tuple[int, Moment]] = {}  # by when an attempt was told to end, and when that was

    def step(self) -> None:
        """Raises what its engine does; nothing is reported then."""
        seen = {one.attempt: one for one in self._engine.look()}
        read = self._database.read(lambda work: self._read(work, seen))
        self._forget_all_but(read.going)
        for id, one in seen.items():
            if id not in read.going:
                self._send_away(one, read.late.get(id))
        self._stop(read.going, seen)
        if self._start(read.going, seen):
            seen = {one.attempt: one for one in self._engine.look()}
        self._report(read.going, seen)

    def _read(self, work: UnitOfWork, seen: Mapping[str, Seen]) -> _Read:
        going = {row.id: row for row in attempts.going_at(work, self._engine.name)}
        return _Read(going=going, late=attempts.with_ids(work, [id for id in seen if id not in going]))

    def _forget_all_but(self, going: Mapping[str, Found]) -> None:
        for known in (self._refused, self._tried, self._told):
            for id in [id for id in known if id not in going]:
                del known[id]

    def _send_away(self, one: Seen, row: Found | None) -> None:
        try:
            if one.state != "ended":
                log.warning("attempt %s is not what its job is at any more; it is stopped", one.attempt)
                self._tell_stop(one.attempt, 0)
            elif row is None or row.log is not None:
                self._engine.forget(one.attempt)
        except FalajError as error:
            log.warning("attempt %s is still with the engine %s: %s", one.attempt, self._engine.name, error)

    def _stop(self, going: Mapping[str, Found], seen: Mapping[str, Seen]) -> None:
        now = self._clock.now()
        for id, row in going.items():
            if not row.stop_for or id in self._refused or (id in seen and seen[id].state == "ended"):
                continue
            if id not in seen and row.started is None:
                self._refuse(row, "stopped", "it was stopped before it was started")
                continue
            by, at = self._told.get(id, (None, Moment(0)))
            if by == row.stop_by and now - at < self._patience.stopped:
                continue
            if self._tell_stop(id, max(0, (row.stop_by or 0) - now)):
                self._told[id] = (row.stop_by, now)

    def _tell_stop(self, attempt: str, grace: int) -> bool:
        """Whether it was heard: one that cannot be stopped now must not keep the others from being looked after."""
        try:
            self._engine.stop(attempt, grace)
        except TemporaryError as error:
            log.warning("attempt %s cannot be stopped now: %s", attempt, error)
            return False
        except Exception:
            log.exception("attempt %s could not be stopped", attempt)
            return False
        return True

    def _start(self, going: Mapping[str, Found], seen: Mapping[str, Seen]) -> bool:
        """Whether one was."""
        began = False
        if any(row.stop_for == "resized" for row in going.values()):
            return began  # it has not let go yet of what others were given
        for id, row in going.items():
            if id in seen or id in self._refused or row.stop_for or row.started is not None:
                continue
            began = True
            if not self._start_one(row):
                break
        return began

    def _start_one(self, row: Found) -> bool:
        """False where the engine takes on nothing now."""
        now = self._clock.now()
        try:
            equipped = self._equipped(row, now)
            if equipped is not None:
                self._engine.start(self._launcher.launch(equipped, now))
        except TemporaryError as error:
            log.warning("attempt %s cannot be started now: %s", row.id, error)
            if now - self._tried.setdefault(row.id, now) >= self._patience.unstarted:
                self._refuse(row, "lost", f"its engine would not start it: {error}")
            return False
        except FalajError as error:
            self._refuse(row, "environment", str(error))
        except Exception as error:
            log.exception("attempt %s could not be started", row.id)
            self._refuse(row, "environment", f"its engine failed with {type(error).__name__}")
        return True

    def _equipped(self, row: Found, now: Moment) -> Equipped | None:
        """None where it ended meanwhile."""
        (job,) = self._database.read(lambda work: jobs.told(work, [row.job]))
        attempt = attempt_read(row, LiveJob(job, now, LONGEST_WAIT), now)
        looked = self._launcher.look([attempt])
        return self._database.write(lambda work: self._launcher.equip_again(work, attempt, looked))

    def _refuse(self, row: Found, cause: Cause, words: str) -> None:
        """It never begins, whoever tries."""
        if not self._tell_stop(row.id, 0):
            return  # then it is tried again
        self._refused[row.id] = Seen(attempt=row.id, state="ended", ended=self._clock.now(), cause=cause, words=words)

    def _report(self, going: Mapping[str, Found], seen: Mapping[str, Seen]) -> None:
        waiting = {id: Seen(attempt=id, state="preparing") for id, row in going.items() if row.started is None}
        said = {**waiting, **seen, **self._refused}
        cards: object = self._engine
        text = report_written(
            Report(
                seen=tuple(said.values()),
                nodes=tuple(self._engine.nodes()),
                cards={name: tuple(uses) for name, uses in cards.cards().items()} if isinstance(cards, MeasuresCards) else {},
            )
        )
        self._database.write(lambda work: engines.report(work, self._engine.name, text))
