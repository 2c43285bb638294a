"""Leads a study: asks what to try, has it run as jobs, gives up what does not promise anything, and learns from the rest.

It can be killed at any moment and begun again, also twice at once: everything it must know is in the trials' runs, and whatever
it does to them it can do again.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from falaj.base.clock import DAY, SECOND
from falaj.base.errors import Conflict, NotFound, PermanentError, TemporaryError
from falaj.base.failpoints import failpoint
from falaj.base.values import Nothing, value
from falaj.client.job_logs import read_last_line
from falaj.client.tuning.endings import UNENDED, ending
from falaj.client.tuning.jobs import spec_of
from falaj.client.tuning.records import Kept, Records, Seen
from falaj.governance.identity.operations import WHOAMI
from falaj.jobs.operations import jobs
from falaj.tracking.operations.words import Metric
from falaj.training.search import spaces, written
from falaj.training.search.searching import Exhausted, Searcher
from falaj.training.search.stopping import Limits, Verdict, decide
from falaj.training.search.studies import Trial, front

LOOKS: Final = (0.5, 5.0)  # seconds between two looks: fewer, the longer nothing has happened
LONGEST_SILENCE: Final = 600.0  # of a platform that may be starting again
_ANOTHERS: Final = 120 * SECOND  # after which a trial without a job was left by whoever began it
_SPOILED: Final = 10  # numbers in a row whose runs are no trials: whoever made them has made more


@value
class Outcome:
    words: str
    trials: tuple[Trial, ...]
    hopeless: bool = False


class Conductor:
    """One at work on a study. `say` is told, in a line each, what happens."""

    def __init__(
        self,
        records: Records,
        kept: Kept,
        limits: Limits,
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._records, self._kept, self._limits = records, kept, limits
        self._tell, self._clock, self._last_news = say, clock, clock()
        self._claim = secrets.token_hex(8)
        self._me = records.client.call(WHOAMI, Nothing()).id
        self._trials: dict[int, Trial] = {}
        self._over_before: frozenset[int] = frozenset()  # that had ended when this leader began
        self._given_up: dict[int, int] = {}  # by number: the step at which
        self._to_cancel: dict[str, tuple[str, str]] = {}  # by job: of which run, and why
        self._proved: set[str] = set()  # runs whose job says itself that it is theirs
        self._taken: set[int] = set()  # numbers that are somebody's
        self._free = self._spoiled = 0  # the numbers below are taken; so many in a row for nothing
        self._searcher = self._begin_searching()
        self._exhausted = ""

    def run(self) -> Outcome:
        """Until the study is over. Interrupted, it leaves the trials running."""
        began, silent_since = self._clock(), 0.0
        while True:
            try:
                outcome = self.step(self._clock() - began)
                silent_since = 0.0
            except TemporaryError as error:
                outcome = None
                if not silent_since:
                    self._say(f"The platform does not answer; trying again. ({error})")
                    silent_since = self._clock()
                elif self._clock() - silent_since > LONGEST_SILENCE:
                    raise
            if outcome is not None:
                return outcome
            least, most = LOOKS
            time.sleep(min(most, max(least, (self._clock() - self._last_news) / 20)))

    def step(self, elapsed: float) -> Outcome | None:
        """1. See how the trials are. 2. Is it over? 3. If not, begin what there is room for."""
        self._look()
        verdict = self._verdict(elapsed)
        if verdict.at_once:
            self._call_off(verdict.words)
            return self._outcome(verdict)
        while not verdict.words and len(self._running()) < self._limits.parallel:
            self._begin()
            verdict = self._verdict(elapsed)
        return self._outcome(verdict) if verdict.words and not self._running() else None

    # 1. How the trials are

    def _begin_searching(self) -> Searcher:
        seen = self._records.trials(self._kept)
        self._taken = {one.trial.number for one in seen}
        for one in seen:
            if one.trial.state in ("pruned", "cancelled") and one.status in UNENDED:
                self._cancel(one.trial, one.trial.words)  # whoever gave it up was killed before it could say so
        shown = [one.trial for one in seen if not one.hidden]
        known = self._with_steps(shown)
        self._trials = {one.number: one for one in known}
        self._over_before = frozenset(one.number for one in known if one.state != "running")
        return Searcher(self._kept.study, known, self._earlier())

    def _earlier(self) -> list[Trial]:
        """What other studies tried, as far as it lies in this one's space."""
        found: list[Trial] = []
        for experiment in self._kept.earlier:
            other = self._records.read(experiment)
            asked = replace(other, study=replace(self._kept.study, name=other.study.name))
            seen = [one.trial for one in self._records.trials(asked, state="active")]
            ended = [one for one in seen if one.state in ("complete", "pruned")]
            found += self._with_steps(ended)
            self._say(f"Learned from {len(ended)} trials of {other.study.name} that lie in this space.")
        return found

    def _with_steps(self, trials: list[Trial]) -> list[Trial]:
        """Of those that are over. Of what runs, every step is heard as if it were new, so that it is judged."""
        if self._kept.study.pruner == "none":
            return trials
        over = self._records.with_steps(self._kept, [one for one in trials if one.state != "running"])
        return [*over, *(one for one in trials if one.state == "running")]

    def _look(self) -> None:
        self._cancel_jobs()
        # Nothing else of it: whoever may write tags does not decide what is run in the name of who leads.
        self._kept = replace(self._kept, stopped=self._records.is_stopped(self._kept))
        seen = {one.trial.number: one for one in self._records.running(self._kept)}
        for one in [*self._running()]:
            if one.number not in seen and (now := self._records.trial(self._kept, one.run)) is not None:
                self._hear(now.trial)  # another has settled it, or somebody hid it
        for number, now in seen.items():
            if number not in self._trials:
                self._adopt(now.trial)
            if self._trials[number].state == "running":
                self._follow(now)

    def _adopt(self, trial: Trial) -> None:
        self._taken.add(trial.number)
        self._trials[trial.number] = trial
        self._searcher.learn(trial)

    def _hear(self, trial: Trial) -> None:
        mine = self._trials[trial.number]
        ended = replace(trial, steps=mine.steps, state="cancelled" if trial.state == "running" else trial.state)
        self._trials[trial.number] = ended
        self._searcher.tell(ended)

    def _follow(self, now: Seen) -> None:
        if not (now.trial.job or self._has_job(now)):
            return
        known = self._trials[now.trial.number]
        trial = self._hear_steps(replace(known, job=known.job or now.trial.job), now)
        if now.status not in UNENDED or trial.run not in self._proved:
            self._settle_if_over(trial, now)
            self._proved.add(trial.run)
        elif trial.number in self._given_up:
            words = f"Given up at step {self._given_up[trial.number]}: others did better by then."
            ended = replace(trial, state="pruned", words=words)
            self._settle(ended)
            failpoint("tune.pruned")
            self._cancel(ended, f"pruned by {self._kept.study.pruner}. {words}")

    def _hear_steps(self, trial: Trial, now: Seen) -> Trial:
        """With what it reported since. Every step is judged, however many came at once."""
        metric = now.latest.get(self._kept.study.objectives[0].metric)
        last = max(trial.steps, default=None)
        if self._kept.study.pruner == "none" or metric is None or metric.step == last:
            return trial
        fresh = self._records.new_steps(self._kept, trial.run, last)
        for step, at in sorted(fresh.items()):
            self._searcher.report(trial.number, step, at)
            if trial.number not in self._given_up and self._searcher.should_prune(trial.number):
                self._given_up[trial.number] = step
        heard = replace(trial, steps={**trial.steps, **fresh})
        self._trials[trial.number] = heard
        return heard

    def _settle_if_over(self, trial: Trial, now: Seen) -> None:
        """A script may end its run and go on; what counts is its job."""
        try:
            job = self._job(trial.job)
        except NotFound:
            self._settle(replace(trial, state="failed", words="Its job is not there any more."))
            return
        final = (self._records.trial(self._kept, trial.run) or now) if job.state == "done" else now
        ended = ending(self._kept.study, trial, final, job, self._clock())
        if ended is not None:
            is_own_failure = (job.run, job.state, job.cause) == (trial.run, "failed", "failed")
            self._settle(ended.trial, ended.metrics, self._last_line(job) if is_own_failure else "")

    def _last_line(self, job: jobs.Job) -> str:
        line = read_last_line(self._records.client, self._records.project, job.id)
        return f" Its last line: {line}" if line else ""

    def _settle(self, trial: Trial, metrics: tuple[Metric, ...] = (), aside: str = "") -> None:
        """`aside` is told to who leads and not kept: who may read runs may not for that read what jobs wrote."""
        self._records.settle(trial, metrics)
        self._trials[trial.number] = trial
        self._searcher.tell(trial)
        self._say(self._told(trial) + aside)

    # 2. Is it over?

    def _verdict(self, elapsed: float) -> Verdict:
        if self._kept.stopped:
            return Verdict(words="Somebody stopped it.", at_once=True)
        if self._exhausted:
            return Verdict(words=self._exhausted)
        return decide(self._kept.study.objectives, self._limits, self._trials.values(), elapsed, self._over_before)

    def _call_off(self, words: str) -> None:
        for one in self._running():
            ended = replace(one, state="cancelled", words=words)
            self._settle(ended)
            self._cancel(ended, words)

    def _outcome(self, verdict: Verdict) -> Outcome:
        return Outcome(
            words=verdict.words,
            trials=tuple(self._trials[number] for number in sorted(self._trials)),
            hopeless=verdict.hopeless,
        )

    def importances(self) -> dict[str, float]:
        return self._searcher.importances()

    # 3. What is begun

    def _begin(self) -> None:
        number = self._free_number()
        try:
            params = self._searcher.ask(number)
        except Exhausted as error:
            self._exhausted = str(error)
            return
        try:
            seen = self._records.claim(self._kept, number, params, self._claim, int(self._clock() * 1000))
        except TemporaryError:
            self._searcher.ask_otherwise(number)  # where it was made all the same, the next look finds it
            raise
        self._taken.add(number)
        if seen is None:
            self._searcher.ask_otherwise(number)
            self._catch_up(number)
            return
        self._spoiled = 0
        failpoint("tune.claimed")
        self._trials[number] = seen.trial
        if self._submit(seen.trial):
            told = ", ".join(f"{name}={_shortly(chosen)}" for name, chosen in params.items())
            self._say(f"Trial {number} begins: {told} (job {self._trials[number].job[-8:]})")

    def _free_number(self) -> int:
        """The first, whatever numbers others have taken beyond it."""
        while self._free in self._taken:
            self._free += 1
        return self._free

    def _catch_up(self, number: int) -> None:
        """With what another conductor did meanwhile. A number whose run somebody made into no trial stays taken."""
        seen = self._records.trials(self._kept)
        self._spoiled = 0 if any(one.trial.number == number for one in seen) else self._spoiled + 1
        if self._spoiled >= _SPOILED:
            self._exhausted = (
                f"{self._spoiled} trials in a row cannot be begun: their runs are there and are no trials. Whoever may write "
                "runs here made them; begin a study of another name."
            )
        self._taken.update(one.trial.number for one in seen)
        fresh = [one.trial for one in seen if one.trial.number not in self._trials and not one.hidden]
        for trial in self._with_steps(fresh):
            self._adopt(trial)

    def _submit(self, trial: Trial) -> bool:
        """Under the run's own key: asked again after a kill, the platform answers with the job there is."""
        spec = spec_of(self._kept, trial.number, trial.params, trial.run)
        request = jobs.Submit(project=self._records.project, spec=spec)
        try:
            made = self._records.client.call(jobs.SUBMIT_JOB, request, key=f"tune-{trial.run}")
        except PermanentError as error:
            self._settle(replace(trial, state="failed", words=str(error)))
            return False
        failpoint("tune.submitted")
        self._bind(trial, made.job.id)
        return True

    def _bind(self, trial: Trial, job: str) -> None:
        self._records.note(trial.run, {written.JOB: job})
        self._proved.add(trial.run)
        self._trials[trial.number] = replace(trial, job=job)

    def _has_job(self, now: Seen) -> bool:
        """Of a trial whose run does not say: whoever began it was killed, or is about to submit it."""
        age = self._clock() * SECOND - now.created
        if age > _ANOTHERS and (job := self._search_job(now)):
            self._bind(now.trial, job)
            return True
        if self._kept.stopped or (now.created_by != self._me and age <= _ANOTHERS):
            return False
        if self._submitted() < self._limits.trials:
            return self._submit(now.trial)
        if age > _ANOTHERS:
            self._settle(replace(now.trial, state="cancelled", words="It was begun beyond the limits of its study."))
        return False

    def _submitted(self) -> int:
        return sum(bool(one.job) or one.state != "running" for one in self._trials.values())

    def _search_job(self, now: Seen) -> str:
        cursor = ""
        while True:
            request = jobs.ListJobs(project=self._records.project, limit=1000, cursor=cursor)
            page = self._records.client.call(jobs.LIST_JOBS, request)
            for job in page.items:
                if job.run == now.trial.run:
                    return job.id
            if not page.next or page.items[-1].submitted < now.created - DAY:
                return ""
            cursor = page.next

    # Steps

    def _say(self, words: str) -> None:
        self._last_news = self._clock()
        self._tell(words)

    def _running(self) -> list[Trial]:
        return [one for one in self._trials.values() if one.state == "running"]

    def _job(self, job: str) -> jobs.Job:
        return self._records.client.call(jobs.SHOW_JOB, jobs.OneJob(project=self._records.project, job=job))

    def _cancel(self, trial: Trial, reason: str) -> None:
        """Owed until it is done: the platform may be away just now."""
        if trial.job:
            self._to_cancel[trial.job] = (trial.run, reason[:2000])
            self._cancel_jobs()

    def _cancel_jobs(self) -> None:
        for job, (run, reason) in [*self._to_cancel.items()]:
            with suppress(Conflict, NotFound):  # it is over already
                if self._job(job).run == run:  # a run's tags may name any job; the job itself says whose it is
                    request = jobs.Cancel(project=self._records.project, job=job, reason=reason)
                    self._records.client.call(jobs.CANCEL_JOB, request)
            del self._to_cancel[job]

    def _told(self, trial: Trial) -> str:
        if trial.state != "complete":
            return f"Trial {trial.number} is {trial.state}. {trial.words}".strip()
        objectives = self._kept.study.objectives
        reached = ", ".join(f"{one.metric} {at:.6g}" for one, at in zip(objectives, trial.values, strict=True))
        leading = any(one.number == trial.number for one in front(objectives, self._trials.values()))
        best = "" if not leading else ", the best so far" if len(objectives) == 1 else ", not beaten so far"
        return f"Trial {trial.number}: {reached}{best}"


def _shortly(chosen: spaces.Chosen) -> str:
    return f"{chosen:.5g}" if isinstance(chosen, float) else str(chosen)
