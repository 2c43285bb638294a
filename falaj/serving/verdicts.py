"""Whether a revision that is on trial does well enough: asked by whoever steps a canary, answered by whoever watched."""

import math
from typing import Final, Literal, Protocol

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.projects.store import Project
from falaj.serving.counts import Counts
from falaj.serving.splits import Arms
from falaj.serving.store.tables import Found

# The figures are looked at every second, so what counts as proof is chosen small.
SIGNIFICANT: Final = 1e-4
ENOUGH_CALLS: Final = 200  # before anything is said about the slowest in a hundred


@value
class Judgement:
    """`worse` sends the candidate back, `well` lets it go on, `unsure` lets it wait for more calls."""

    word: Literal["well", "worse", "unsure"]
    reason: str = ""


@value
class Trial:
    """A revision that gets a part of the traffic, beside the one that it would replace, both by number, and what each of them
    did since the trial began. `latency_ms` is the endpoint's objective; times are in microseconds. It is `quiet` where nobody
    has called for as long as a step takes."""

    project: str
    endpoint: str
    candidate: int
    incumbent: int
    since: int
    latency_ms: int
    of_candidate: Counts
    of_incumbent: Counts
    quiet: bool = False

    def unanswered(self) -> Judgement:
        """Of a candidate that answered no call. An endpoint that nobody calls has nothing to wait for."""
        waits = self.of_incumbent.requests and not self.quiet
        return Judgement(word="unsure", reason="It answered no call yet.") if waits else Judgement(word="well")


class Herald(Protocol):
    """Tells people what was done by itself: inside the transaction of it, so that it is told if it happened. `arms` are who
    answers now. Thread-safe."""

    def canary_went_back(
        self, work: UnitOfWork, project: Project, endpoint: Found, revision: int, arms: Arms, why: str, now: Moment
    ) -> None: ...

    def revision_was_put_away(
        self, work: UnitOfWork, project: Project, endpoint: Found, revision: int, arms: Arms, why: str, now: Moment
    ) -> None: ...


class Verdict(Protocol):
    """Thread-safe; reads only, and gives the same judgement for the same figures."""

    def judge(self, trial: Trial) -> Judgement: ...


class Figures:
    """Judges by errors and by latency alone: more errors than chance explains, or an objective that is missed where the
    incumbent holds it. Without any call there is nothing to say."""

    def judge(self, trial: Trial) -> Judgement:
        new, old = trial.of_candidate, trial.of_incumbent
        if new.requests == 0:
            return trial.unanswered()
        chance = chance_of_more_errors(new.errors, new.requests, old.errors, old.requests)
        if chance < SIGNIFICANT:
            return Judgement(
                word="worse",
                reason=f"Revision {trial.candidate} failed {new.errors} of {new.requests} calls, revision {trial.incumbent} "
                f"{old.errors} of {old.requests}.",
            )
        slow, usual = new.milliseconds(0.99), old.milliseconds(0.99)
        if new.requests >= ENOUGH_CALLS and old.requests >= ENOUGH_CALLS and usual <= trial.latency_ms < slow:
            return Judgement(
                word="worse",
                reason=f"Revision {trial.candidate} answers 99 % of its calls within {slow:.1f} ms, revision "
                f"{trial.incumbent} within {usual:.1f} ms; the objective is {trial.latency_ms} ms.",
            )
        return Judgement(word="well")


def chance_of_more_errors(errors: int, calls: int, other_errors: int, other_calls: int) -> float:
    """Fisher's exact test, one-sided: how likely so many of all errors, or more, fall on these calls if both err alike."""
    errors, other_errors = min(errors, calls), min(other_errors, other_calls)
    failed, whole = errors + other_errors, calls + other_calls
    if errors == 0 or errors * whole <= failed * calls:  # no more than their part: no evidence at all
        return 1.0
    first = _log_chance(errors, calls, failed, whole)
    term, tail, count = 1.0, 1.0, errors
    while count < min(calls, failed) and term > tail * 1e-12:
        # From one count of errors to the next, by the ratio of their chances; beyond the mean it only falls.
        term *= (calls - count) * (failed - count) / ((count + 1) * (whole - calls - failed + count + 1))
        tail, count = tail + term, count + 1
    return math.exp(min(0.0, first + math.log(tail)))  # of counts beyond all reason, logarithms are too coarse


def _log_chance(errors: int, calls: int, failed: int, whole: int) -> float:
    """That exactly so many of the failed ones are among the calls."""
    return _log_choose(failed, errors) + _log_choose(whole - failed, calls - errors) - _log_choose(whole, calls)


def _log_choose(whole: int, part: int) -> float:
    return math.lgamma(whole + 1) - math.lgamma(part + 1) - math.lgamma(whole - part + 1)
