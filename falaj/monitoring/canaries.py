"""Whether a canary does well, looked at every second: implements `serving.verdicts.Verdict` with evidence that may be looked at
all the time.

Three things are asked: whether it fails more calls than the incumbent, whether more of its calls miss the latency objective (of
its own too many, and more than of the incumbent's), and, where labels came, whether it is wrong more often, or its numbers
are farther off. Of canaries that are no worse, one in a thousand goes back by mistake at most, however long they take; the
three share that.
"""

import logging
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final, TypeAlias

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.cache import Bounded
from falaj.governance.projects.store import project_by_id
from falaj.monitoring import losing
from falaj.monitoring.joined import Joined
from falaj.monitoring.labels import LabelService
from falaj.monitoring.losing import Standing
from falaj.monitoring.scoring import error_of, kind_of
from falaj.monitoring.sealing import inside
from falaj.monitoring.slowness import slow_calls
from falaj.monitoring.store import labels as label_store
from falaj.serving.counts import counts_of, total
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import windows as window_store
from falaj.serving.store.windows import COARSE, FINE
from falaj.serving.verdicts import Judgement, Trial
from falaj.statistics.rates import evidence_above, evidence_of_more

FALSE_ROLLBACKS: Final = 1e-3
MAY_MISS: Final = 0.01  # of the calls, before an objective counts as missed
_QUESTIONS: Final = 3
_ENOUGH: Final = math.log(_QUESTIONS / FALSE_ROLLBACKS)
_MOST_BATCHES: Final = 1000
_MOST_STEPS: Final = 100
_REMEMBERED: Final = 4096
_AGAIN: Final = 30.0  # seconds after labels could not be read
log = logging.getLogger(__name__)


@value
class Known:
    """Of what a revision was asked and the truth came of: how many units, and how many of them it was wrong in, or what its
    errors cost them all together, at most 1 each."""

    rows: int = 0
    wrong: float = 0.0

    def __add__(self, other: "Known") -> "Known":
        return Known(rows=self.rows + other.rows, wrong=self.wrong + other.wrong)


ByRevision: TypeAlias = dict[int, Known]


@value
class Step:
    """A step of a canary, counted from one, of predictions made from `since` on until the next; what came of them. `numbers`
    says that these cost by how far they are off."""

    number: int
    since: int
    new: Known = Known()
    old: Known = Known()
    numbers: bool = False

    @property
    def enough(self) -> float:
        """The evidence that it takes in this step: the k-th has 1 / (k * (k + 1)) of all false rollbacks."""
        return _ENOUGH + math.log(self.number * (self.number + 1))


class CanaryVerdict:
    """Thread-safe. Batches of labels never change, so what was counted of one is remembered. Rollouts never wait for labels:
    where those of an endpoint cannot be read, calls decide alone, and for a while nobody tries again."""

    def __init__(self, database: Database, labels: LabelService, ticking: Callable[[], float] = time.monotonic) -> None:
        self._database, self._labels, self._ticking = database, labels, ticking
        self._counted: Bounded[tuple[str, tuple[int, ...], str, float], tuple[ByRevision, ...]] = Bounded(_REMEMBERED)
        self._later: Bounded[str, float] = Bounded(_REMEMBERED)

    def judge(self, trial: Trial) -> Judgement:
        if (self._later.get(trial.endpoint) or 0.0) <= self._ticking():
            try:
                return self._database.read(lambda work: self._judged(work, trial, labelled=True))
            except FalajError as error:
                log.warning("a canary of endpoint %s is judged by its calls alone: %s", trial.endpoint, error)
            except Exception:  # what is odd about one endpoint must not end the rollouts of all others
                log.exception("a canary of endpoint %s is judged by its calls alone", trial.endpoint)
            self._later.put(trial.endpoint, self._ticking() + _AGAIN)
        return self._database.read(lambda work: self._judged(work, trial, labelled=False))

    def _judged(self, work: UnitOfWork, trial: Trial, *, labelled: bool) -> Judgement:
        """Each step by its own: shares change between them, and so may what happens to everybody alike."""
        changes = reversed(endpoint_store.changes_before(work, trial.endpoint, None, _MOST_STEPS))
        begun = (trial.since, *(row.at for row in changes if row.kind == "step" and row.at > trial.since))
        usual = losing.decode(label_store.losses_of(work, trial.endpoint).get(trial.incumbent, "")) if labelled else Standing()
        known = self._known(work, trial, begun, usual) if labelled else [{} for _ in begun]
        steps = [
            Step(
                number=place + 1,
                since=since,
                new=known[place].get(trial.candidate, Known()),
                old=known[place].get(trial.incumbent, Known()),
                numbers=usual.kind == "numbers",
            )
            for place, since in enumerate(begun)
        ]
        return judged(trial if len(steps) == 1 else _of_step(work, trial, begun[-1]), steps)

    def _known(self, work: UnitOfWork, trial: Trial, begun: tuple[int, ...], usual: Standing) -> list[ByRevision]:
        """Step by step."""
        endpoint, project = endpoint_store.find_by_id(work, trial.endpoint), project_by_id(work, trial.project)
        found: list[ByRevision] = [{} for _ in begun]
        if endpoint is None or project is None:
            return found
        for batch in label_store.batches_since(work, trial.endpoint, trial.since, _MOST_BATCHES):
            key = (batch.id, begun, usual.kind, usual.scale)
            counted = self._counted.get(key)
            if counted is None:
                rows = self._labels.rows(inside(work, project, endpoint.zone, Moment(0)), endpoint, [batch])
                counted = self._counted.put(key, counted_in(rows, begun, usual))
            for step, more in zip(found, counted, strict=True):
                for revision, one in more.items():
                    step[revision] = step.get(revision, Known()) + one
        return found


def _of_step(work: UnitOfWork, trial: Trial, since: int) -> Trial:
    """The trial with the calls of whole windows since then: of fine ones, or where those are gone already, of coarse ones."""
    revisions, found = (trial.candidate, trial.incumbent), []
    for span in (FINE, COARSE):
        begin = -(-since // (span * SECOND)) * span * SECOND
        rows = window_store.since(work, trial.endpoint, span, begin, revisions)
        found.append([total(counts_of(row) for row in rows if row.revision == one) for one in revisions])
    new, old = max(found, key=lambda both: both[0].requests + both[1].requests)
    return replace(trial, of_candidate=new, of_incumbent=old)


def counted_in(rows: Sequence[Joined], begun: tuple[int, ...], usual: Standing) -> tuple[ByRevision, ...]:
    """Step by step; a unit counts once, by the mean of its rows. How far numbers may be off is what the incumbent's first ones
    taught (`usual`): until then they say nothing. The kind of other answers shows by themselves. Where the caller chose the
    revision, a row does not count: else callers would choose whether a canary goes on."""
    rows = [row for row in rows if row.drawn]
    kind = usual.kind or kind_of(rows)
    found: tuple[ByRevision, ...] = tuple({} for _ in begun)
    if kind == "numbers" and not usual.kind:
        return found
    by_unit: dict[tuple[int, int, str], list[float]] = {}
    for row in rows:
        place, error = bisect_right(begun, row.at) - 1, error_of(row, kind)
        if place >= 0 and error is not None:
            by_unit.setdefault((place, row.revision, row.unit), []).append(losing.bounded(error, usual))
    for (place, revision, _), losses in by_unit.items():
        found[place][revision] = found[place].get(revision, Known()) + Known(rows=1, wrong=fmean(losses))
    return found


def judged(trial: Trial, steps: Sequence[Step]) -> Judgement:
    """Pure. The calls of `trial` are those of the last step."""
    new, old, enough = trial.of_candidate, trial.of_incumbent, steps[-1].enough
    if new.requests == 0:
        return trial.unanswered()
    if evidence_of_more(new.errors, new.requests, old.errors, old.requests) >= enough:
        return Judgement(
            word="worse",
            reason=f"Revision {trial.candidate} failed {new.errors} of {new.requests} calls, revision {trial.incumbent} "
            f"{old.errors} of {old.requests}.",
        )
    slow, usual = slow_calls(new, trial.latency_ms), slow_calls(old, trial.latency_ms)
    answered, usually = sum(new.latencies), sum(old.latencies)
    more = min(evidence_of_more(slow, answered, usual, usually), evidence_above(slow, answered, MAY_MISS))
    if more >= enough:
        return Judgement(
            word="worse",
            reason=f"Revision {trial.candidate} took longer than the objective for {slow} of {answered} calls, revision "
            f"{trial.incumbent} for {usual} of {usually}; the objective is {trial.latency_ms} ms.",
        )
    for step in steps:
        if evidence_of_more(step.new.wrong, step.new.rows, step.old.wrong, step.old.rows) >= step.enough:
            return Judgement(word="worse", reason=_wrong(trial, step))
    return Judgement(word="well")


def _wrong(trial: Trial, step: Step) -> str:
    new, old = step.new, step.old
    if not step.numbers:
        return (
            f"Revision {trial.candidate} was wrong in {new.wrong:.0f} of {new.rows} predictions whose truth came, revision "
            f"{trial.incumbent} in {old.wrong:.0f} of {old.rows}."
        )
    return (
        f"Revision {trial.candidate} was farther off than revision {trial.incumbent}: from 0 for right to 1 for far off, its "
        f"{new.rows} predictions whose truth came cost {new.wrong / new.rows:.2f}, against {old.wrong / old.rows:.2f} of "
        f"{old.rows}."
    )
