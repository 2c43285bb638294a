"""The controller: sees what happened, decides, writes both in one transaction, and then acts.

One turn: 1 look at the engines, 2 hear what is new, 3 decide, 4 write, 5 act. Whatever goes wrong before the turn is
written, it throws its memory away and reads everything again; whatever goes wrong after, the next turn, or the next
controller, acts again.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Clock, Moment
from falaj.base.failpoints import failpoint
from falaj.database.work import Database, UnitOfWork
from falaj.jobs.acting import Actions
from falaj.jobs.anomalies import Anomalies
from falaj.jobs.elsewhere import Others
from falaj.jobs.engines.engine import Engine
from falaj.jobs.hearing import AT_ONCE, Heard, hear, last_checkpoint
from falaj.jobs.launching import Equipped, Launcher
from falaj.jobs.metering import Meter
from falaj.jobs.moving import Moves, stop_words
from falaj.jobs.observing import Patience, SteadyClock
from falaj.jobs.orphans import Orphans
from falaj.jobs.present import LiveAttempt, LiveJob
from falaj.jobs.pricing import FREE, Pricer
from falaj.jobs.recovering import Recovered, recover, scheduled, told_job
from falaj.jobs.retrying import StopFor
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Rules, Wait
from falaj.jobs.sighting import Sightings
from falaj.jobs.standing import present_document
from falaj.jobs.store import controllers, metering
from falaj.jobs.strangers import Strangers
from falaj.jobs.turns import Runs, Superseded, Turn

DECIDE_ANYWAY: Final = 30 * SECOND
IMPATIENT: Final = 30 * SECOND  # what is cancelled while it stops has no more than this
KEEP_MINUTES: Final = 14 * DAY
QUARTER: Final = 15 * MINUTE
SHIPPED_RULES: Final = Rules()
PATIENT: Final = Patience()
log = logging.getLogger(__name__)


class Controller:
    """For one thread, under a lease. Two at once harm nothing: the one that took over later writes, the other finds out."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        engines: Mapping[str, Engine],
        *,
        launcher: Launcher,
        runs: Runs,
        pricer: Pricer = FREE,
        rules: Rules = SHIPPED_RULES,
        patience: Patience = PATIENT,
        make_scheduler: Callable[..., Scheduler] = Scheduler,
    ) -> None:
        self._database = database
        self._clock = clock
        self._engines = engines
        self._launcher = launcher
        self._runs = runs
        self._pricer = pricer
        self._rules = rules
        self._patience = patience
        self._make_scheduler = make_scheduler
        self._epoch: _Epoch | None = None

    @property
    def waits(self) -> Mapping[str, Wait]:
        """Why the jobs at the front of their queues wait, as of the last decision."""
        return {} if self._epoch is None else self._epoch.waits

    def decides(self) -> bool:
        """Whether it is this controller that decides, and no other."""
        epoch = self._epoch
        return epoch is not None and self._database.read(controllers.epoch) == epoch.number

    def step(self) -> bool:
        """One turn; whether there is more to do at once."""
        epoch, self._epoch = self._epoch, None  # until the turn has gone well
        try:
            epoch = epoch or self._take_over()
            more = epoch.turn()
        except Superseded:
            log.warning("another controller has taken over")
            return False
        self._epoch = epoch
        return more

    def _take_over(self) -> "_Epoch":
        now = self._clock.now()
        recovered = recover(self._database, self._make_scheduler, self._rules, now)
        failpoint("jobs.taken-over")
        time, present = SteadyClock(now), recovered.present
        others = Others(frozenset(self._engines), time)
        meter = Meter(present, self._rules.half_life, now, recovered.past)
        actions = Actions(present, self._engines, self._launcher, self._clock, self._patience)
        strangers = Strangers(self._database, self._engines, recovered.epoch)
        sightings = Sightings(
            present,
            recovered.scheduler,
            self._engines,
            others=others,
            actions=actions,
            strangers=strangers,
            meter=meter,
            time=time,
            patience=self._patience,
        )
        for attempt in present.attempts.values():
            attempt.seen = attempt.busy_at = time.steady
            attempt.acted = None if attempt.inherited else time.steady
            if attempt.stop_for and not attempt.inherited:
                actions.stop(attempt)
        return _Epoch(
            recovered,
            database=self._database,
            clock=self._clock,
            launcher=self._launcher,
            runs=self._runs,
            pricer=self._pricer,
            rules=self._rules,
            time=time,
            others=others,
            meter=meter,
            actions=actions,
            strangers=strangers,
            sightings=sightings,
        )


class _Epoch:
    """What a controller knows from taking over until another does, and its turns."""

    def __init__(
        self,
        recovered: Recovered,
        *,
        database: Database,
        clock: Clock,
        launcher: Launcher,
        runs: Runs,
        pricer: Pricer,
        rules: Rules,
        time: SteadyClock,
        others: Others,
        meter: Meter,
        actions: Actions,
        strangers: Strangers,
        sightings: Sightings,
    ) -> None:
        self.waits: Mapping[str, Wait] = {}
        self.number = recovered.epoch
        self._present = recovered.present
        self._scheduler = recovered.scheduler
        self._durations = recovered.durations
        self._queues = recovered.queues
        self._idle_seconds = recovered.idle_seconds
        self._database = database
        self._clock = clock
        self._launcher = launcher
        self._runs = runs
        self._pricer = pricer
        self._rules = rules
        self._time = time
        self._others = others
        self._meter = meter
        self._actions = actions
        self._strangers = strangers
        self._sightings = sightings
        self._anomalies = Anomalies(recovered.present, recovered.durations, sightings.idle_for)
        self._orphans = Orphans(database, recovered.present)
        self._decide_by = Moment(0)
        self._tidy_at = Moment(time.now + HOUR)

    def turn(self) -> bool:
        self._time.go_on(self._clock.now())
        turn = Turn(self._time.now)
        moves = Moves(
            self._present,
            self._scheduler,
            durations=self._durations,
            meter=self._meter,
            pricer=self._pricer,
            turn=turn,
        )
        # What was said is read first: an attempt that ends because its job was cancelled must not be tried again.
        heard = self._database.read(self._hear)
        self._note(heard)
        changed = self._sightings.look(moves, turn)
        self._take_in(heard, moves, turn)
        self._end_orphans(moves, turn)
        for attempt in self._sightings.idle(self._idle_seconds):
            self._stop(attempt, "idle", moves, self._rules.grace_of(attempt.job.order))
        if self._meter.tick(turn):
            self._database.read(self._tell_queues)  # what they have spent has changed
            self._database.read(lambda work: self._anomalies.look(work, turn))
        if changed or heard.ids or turn.ends or turn.now >= self._decide_by:
            self._decide(moves)
        for equipped in self._write(moves, turn):
            self._actions.start(equipped, self._time.steady)
        self._tidy()
        left = self._actions.carry_out(self._time.steady)
        self._strangers.send_away(self._time.steady)
        return left or len(heard.ids) == AT_ONCE

    # What was said

    def _hear(self, work: UnitOfWork) -> Heard:
        heard = hear(work, self.number, self._durations)
        self._others.read(work)
        return heard

    def _note(self, heard: Heard) -> None:
        """What must be known before anything that ended is judged."""
        for row in heard.jobs:
            if row.id in heard.checkpoints and (job := self._present.jobs.get(row.id)) is not None:
                job.checkpointed = last_checkpoint(row)
                if job.attempt is not None and job.checkpointed is not None:
                    self._scheduler.checkpointed(job.id, job.checkpointed)
        for id in heard.cancelled:
            if (job := self._present.jobs.get(id)) is not None:
                job.wanted = "cancelled"
        if heard.drains is not None:
            self._present.draining = heard.drains

    def _take_in(self, heard: Heard, moves: Moves, turn: Turn) -> None:
        turn.heard += heard.ids
        over = {row["job"] for row in turn.over}
        fresh = [row for row in heard.jobs if row.ended is None and row.id not in self._present.jobs and row.id not in over]
        came = [told_job(row, self._durations, self._time.now) for row in fresh]
        self._present.jobs.update({job.id: job for job in came})
        if heard.queues or any(job.queue not in self._queues for job in came):
            self._database.read(self._tell_queues)
        for job in came:
            self._scheduler.submitted(job.order)
        for id in heard.cancelled:
            if (wanted := self._present.jobs.get(id)) is not None:
                self._cancel(wanted, moves)
        for attempt in self._to_drain():
            self._stop(attempt, "drained", moves, self._rules.grace_of(attempt.job.order))

    def _cancel(self, job: LiveJob, moves: Moves) -> None:
        job.wanted = "cancelled"
        if job.attempt is None:
            moves.cancel_waiting(job)
        elif not job.attempt.stop_for:
            self._stop(job.attempt, "cancelled", moves, job.order.grace)
        else:
            self._stop_sooner(job.attempt, moves)

    def _end_orphans(self, moves: Moves, turn: Turn) -> None:
        for job, words in self._orphans.look(self._time.steady):
            job.wanted = "cancelled"
            if job.attempt is not None and job.attempt.stop_for == "cancelled" and self._goes_in_time(job.attempt):
                continue  # it was told before
            turn.tell(job.id, job.project, "cancel", words)
            if job.attempt is None:
                moves.cancel_waiting(job)
            else:
                self._stop(job.attempt, "cancelled", moves, self._rules.grace_of(job.order))

    def _to_drain(self) -> list[LiveAttempt]:
        stopping = {name for name, stops in self._present.draining.items() if stops}
        if not stopping:
            return []
        attempts = self._present.attempts.values()
        return [one for one in attempts if not stopping.isdisjoint(one.nodes) and not self._goes_in_time(one)]

    def _goes_in_time(self, attempt: LiveAttempt) -> bool:
        """Whether it is stopping already, and takes no longer for it than what is asked back may."""
        return attempt.stop_by is not None and attempt.stop_by <= self._time.now + self._rules.grace_of(attempt.job.order)

    def _stop(self, attempt: LiveAttempt, stop_for: StopFor, moves: Moves, grace: int) -> None:
        moves.stop(attempt, stop_for, Moment(self._time.now + grace), stop_words(stop_for, grace))
        self._actions.stop(attempt)

    def _stop_sooner(self, attempt: LiveAttempt, moves: Moves) -> None:
        """Cancelled while it is giving back, or once more: nobody wants what it is still busy with."""
        latest = Moment(self._time.now + min(attempt.job.order.grace, IMPATIENT))
        by = latest if attempt.stop_by is None else min(attempt.stop_by, latest)
        if attempt.stop_for != "cancelled" or by != attempt.stop_by:
            moves.stop(attempt, "cancelled", by, stop_words("cancelled", max(0, by - self._time.now)))
            self._actions.stop(attempt)

    def _tell_queues(self, work: UnitOfWork) -> None:
        document = present_document(work)
        queues, cohorts = scheduled(work, document, self._present, self._time.now)
        self._queues = {queue.name for queue in queues}
        self._scheduler.put_queues(queues, cohorts)
        self._idle_seconds = {queue.name: queue.idle_gpu_seconds for queue in document.queues if queue.idle_gpu_seconds}

    def _tidy(self) -> None:
        """Now and then, minutes of long ago make room for quarters of an hour."""
        if self._time.now < self._tidy_at:
            return
        self._tidy_at = Moment(self._time.now + HOUR)
        before = Moment(self._time.now - KEEP_MINUTES)
        self._database.write(lambda work: metering.thin_utilisation(work, before, QUARTER, since=Moment(before - DAY)))

    # Deciding and writing

    def _decide(self, moves: Moves) -> None:
        plan = self._scheduler.decide(self._time.now)
        for stop in plan.stops:
            if (attempt := self._present.jobs[stop.job].attempt) is not None:
                moves.stop(attempt, "preempted", stop.until, stop.reason)
                self._actions.stop(attempt)
        for resize in plan.resizes:
            if (attempt := self._present.jobs[resize.job].attempt) is not None:
                attempt.resize_to = resize.placement
                moves.stop(attempt, "resized", Moment(plan.at + self._rules.grace_of(attempt.job.order)), resize.reason)
                self._actions.stop(attempt)
        for start in plan.starts:
            moves.plan(self._present.jobs[start.job], start.placement, start.reason)
        self.waits = {wait.job: wait for wait in plan.waits}
        anyway = Moment(self._time.now + DECIDE_ANYWAY)
        self._decide_by = anyway if plan.next is None else min(anyway, plan.next)

    def _write(self, moves: Moves, turn: Turn) -> list[Equipped]:
        """In one transaction, or not at all."""
        if turn.is_empty:
            return []
        looked = self._launcher.look(moves.to_start) if moves.to_start else None

        def write(work: UnitOfWork) -> list[Equipped]:
            equipped = [] if looked is None else self._launcher.equip(work, moves.to_start, looked, turn)
            turn.write(work, self.number)
            for over in turn.runs_over:
                self._runs.finish(work, **over)
            return equipped

        equipped = self._database.write(write)
        failpoint("jobs.turn-written")
        return equipped
