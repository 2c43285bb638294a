"""How jobs go from state to state: each move changes what is known in memory, tells the scheduler, and adds its rows to the
turn."""

from collections.abc import Mapping
from typing import Any

import msgspec

from falaj.base.clock import SECOND, Moment
from falaj.base.ids import new_id
from falaj.jobs.engines.engine import Used
from falaj.jobs.learning import Durations
from falaj.jobs.metering import Meter, metering_rows, usage_of
from falaj.jobs.present import LiveAttempt, LiveJob, Present, seats_written
from falaj.jobs.pricing import Pricer
from falaj.jobs.retrying import EndCause, Ending, Sequel, StopFor, judge
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Placement
from falaj.jobs.turns import Turn


class Moves:
    """The moves of one turn."""

    def __init__(
        self,
        present: Present,
        scheduler: Scheduler,
        *,
        durations: Durations,
        meter: Meter,
        pricer: Pricer,
        turn: Turn,
    ) -> None:
        self._present = present
        self._scheduler = scheduler
        self._durations = durations
        self._meter = meter
        self._pricer = pricer
        self._turn = turn
        self._now = turn.now
        self.to_start: list[LiveAttempt] = []

    def plan(self, job: LiveJob, placement: Placement, reason: str) -> LiveAttempt:
        """A new attempt of a job that has none."""
        engine = self._present.engine_of[placement[0].node]
        attempt = LiveAttempt(new_id(self._now), job, job.attempts + 1, engine, placement, "", self._now)
        self._turn.job_plans.append({"job": job.id, "at": job.at, "new_attempt": attempt.id, "new_attempts": attempt.number})
        self._turn.planned.append(
            {
                "id": attempt.id,
                "job": job.id,
                "project": job.project,
                "number": attempt.number,
                "engine": engine,
                "seats": seats_written(placement),
                "token": "",  # nosec B105 - it has none yet
                "planned": int(self._now),
            }
        )
        self._present.add(attempt)
        self.to_start.append(attempt)
        self._tell(job, "starting", reason, attempt.number)
        return attempt

    def run(self, attempt: LiveAttempt, started: Moment | None, image: str = "") -> None:
        """Its command has begun."""
        began = Moment(max(attempt.planned, min(started or self._now, self._now)))
        attempt.started = began
        state = "stopping" if attempt.stop_for else "started"
        self._turn.started.append({"attempt": attempt.id, "state": state, "started": int(began)})
        job_state = "stopping" if attempt.stop_for else "running"
        self._turn.job_runs.append(self._move(attempt.job, new_state=job_state, new_started=int(began)))
        self.tell_running(attempt, image)

    def tell_running(self, attempt: LiveAttempt, image: str) -> None:
        """A name may mean another image tomorrow; what ran is kept by its id."""
        words = f"Try {attempt.number} runs in the image sha256:{image}." if image else f"Try {attempt.number} runs."
        self._tell(attempt.job, "running", words, attempt.number)

    def stop(self, attempt: LiveAttempt, stop_for: StopFor, until: Moment, words: str) -> None:
        """Ask it to give back until then, and no later than it was asked to before. Who cancels comes before every other
        reason."""
        until = until if attempt.stop_by is None else min(until, attempt.stop_by)
        attempt.stop_for, attempt.stop_by, attempt.stop_told = stop_for, until, None
        self._turn.stops.append({"attempt": attempt.id, "stop_by": int(until), "stop_for": stop_for})
        self._turn.job_stops.append(self._move(attempt.job))
        self._tell(attempt.job, "stopping", words, attempt.number)

    def end(
        self,
        attempt: LiveAttempt,
        cause: EndCause,
        *,
        code: int | None = None,
        words: str = "",
        started: Moment | None = None,
        ended: Moment | None = None,
        used: Used | None = None,
    ) -> None:
        """It is over, and what follows for its job."""
        job = attempt.job
        attempt.used = used or attempt.used
        began = attempt.started or (None if started is None else Moment(max(attempt.planned, min(started, self._now))))
        end = Moment(max(began or attempt.planned, min(ended or self._now, self._now)))
        attempt.started = began
        ending = self._ending(attempt, cause, code, words)
        sequel = judge(ending)
        ran = 0 if began is None else end - began
        self._meter.end(attempt, ran, self._now)
        self._end_attempt(attempt, ending, began, end)
        self._present.remove(attempt)
        if sequel.state == "waiting":
            self._again(attempt, sequel, _kept(attempt, end))
        else:
            self._over(job, sequel, code, began, job.served + ran if sequel.state == "done" else _kept(attempt, end), end)

    def cancel_waiting(self, job: LiveJob) -> None:
        sequel = judge(Ending(cause="stopped", stop_for="cancelled", failures=job.failures, losses=job.losses))
        self._over(job, sequel, None, None, job.served, self._now)

    # Steps

    def _ending(self, attempt: LiveAttempt, cause: EndCause, code: int | None, words: str) -> Ending:
        job = attempt.job
        return Ending(
            cause=cause,
            code=code,
            words=words,
            stop_for="cancelled" if job.wanted else attempt.stop_for,
            number=attempt.number,
            retries=job.retries,
            failures=job.failures,
            losses=job.losses,
            memory_used=attempt.used.memory_mib_peak,
            memory_asked=job.order.shape.memory_mib * len(attempt.seats),
        )

    def _end_attempt(self, attempt: LiveAttempt, ending: Ending, began: Moment | None, end: Moment) -> None:
        metered = metering_rows(self._present, attempt, began, end, self._pricer)
        self._turn.metering += metered
        self._turn.ends.append(
            {
                "attempt": attempt.id,
                "started": None if began is None else int(began),
                "ended": int(end),
                "cause": ending.cause,
                "code": ending.code,
                "words": ending.words,
                "usage": msgspec.json.encode(usage_of(attempt.used, metered)).decode(),
            }
        )
        if attempt.token:
            self._turn.revoked.append(attempt.token)

    def _again(self, attempt: LiveAttempt, sequel: Sequel, served: int) -> None:
        job, not_before = attempt.job, Moment(self._now + sequel.wait if sequel.wait else 0)
        job.failures, job.losses = sequel.failures, sequel.losses
        self._turn.again.append(
            self._move(
                job,
                new_failures=sequel.failures,
                new_losses=sequel.losses,
                new_not_before=int(not_before),
                new_served=served,
                new_cause=sequel.cause,
                new_code=None,
                new_words=sequel.words,
            )
        )
        self._tell(job, sequel.kind, sequel.words, attempt.number)
        order = job.again(served=served, not_before=not_before)
        if attempt.resize_to and all(seat.node in self._present.nodes for seat in attempt.resize_to):
            self.plan(job, attempt.resize_to, f"It goes on with {len(attempt.resize_to)} tasks.")
            return
        self._scheduler.ended(job.id, self._now)
        self._scheduler.submitted(order)

    def _over(self, job: LiveJob, sequel: Sequel, code: int | None, began: Moment | None, served: int, end: Moment) -> None:
        self._turn.over.append(
            self._move(
                job,
                new_state=sequel.state,
                new_started=None if began is None else int(began),
                new_ended=int(end),
                new_failures=sequel.failures,
                new_losses=sequel.losses,
                new_served=served,
                new_cause=sequel.cause,
                new_code=code,
                new_words=sequel.words,
            )
        )
        if job.run:
            self._turn.runs_over.append({"project": job.project, "run": job.run, "state": sequel.state, "ended": end})
        if sequel.state == "done":
            self._durations.learn(job.kin, served)
        self._tell(job, sequel.kind, sequel.words, job.attempts)
        self._scheduler.ended(job.id, self._now)
        del self._present.jobs[job.id]

    def _move(self, job: LiveJob, **new: Any) -> dict[str, Any]:
        return {"job": job.id, "at": job.at, **new}

    def _tell(self, job: LiveJob, kind: str, words: str, attempt: int) -> None:
        self._turn.tell(job.id, job.project, kind, words, attempt)


def _kept(attempt: LiveAttempt, end: Moment) -> int:
    """What its job was served, up to the last checkpoint: the rest is done again. Who saves when it is asked to stop, and ended
    in time, has lost nothing."""
    job = attempt.job
    if job.order.saves and attempt.started is not None and attempt.stop_by is not None and end < attempt.stop_by:
        return job.served + end - attempt.started
    if attempt.started is None or job.checkpointed is None or job.checkpointed <= attempt.started:
        return job.served
    return job.served + min(job.checkpointed, end) - attempt.started


def stop_words(stop_for: StopFor, grace: int) -> str:
    told: Mapping[str, str] = {
        "cancelled": "Somebody cancelled it",
        "drained": "Its node is drained",
        "idle": "Its GPUs did nothing for longer than its queue allows",
    }
    return f"{told[stop_for]}; it has {grace // SECOND} s to end."
