"""`tune`: the best parameters of a function, searched in this process."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from falaj.base.errors import Invalid, PermanentError
from falaj.base.values import value
from falaj.training.search.journals import Journal
from falaj.training.search.searching import Exhausted, Searcher
from falaj.training.search.spaces import Chosen, Params, read_space
from falaj.training.search.stopping import Limits, decide
from falaj.training.search.studies import Study, Trial, finite, front, read_objective
from falaj.training.telling import Run, run_from_environment

_LONGEST_WORDS: Final = 120  # of an error


class SearchFailed(PermanentError):
    """Nothing that was tried could be computed."""


class Pruned(Exception):
    """Raised by `report` where a trial is given up; let it pass."""


class Attempt(Mapping[str, Any]):
    """What a function is given to try: its parameters by name."""

    def __init__(self, number: int, params: Params, report: Callable[[int, int, float], bool]) -> None:
        self.number, self._params, self._report = number, params, report
        self.steps: dict[int, float] = {}

    def __getitem__(self, name: str) -> Chosen:
        return self._params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def report(self, step: int, at: float) -> None:
        """How well it does so far. Raises `Pruned` where others did better by then."""
        self.steps[step] = float(at)
        if self._report(self.number, step, float(at)):
            raise Pruned


Tried: TypeAlias = Callable[[Attempt], float | Sequence[float]]


@value
class Result:
    """`best` is the front where several metrics decide, else one trial at most. `importance()` says what each parameter weighs,
    which takes a moment."""

    study: Study
    trials: tuple[Trial, ...]
    best: tuple[Trial, ...]
    importance: Callable[[], Mapping[str, float]]
    words: str


def tune(
    tried: Tried,
    space: Mapping[str, str | Sequence[Any]],
    *,
    metrics: str | Sequence[str] = "value:min",
    limits: Limits | None = None,
    sampler: str = "tpe",
    pruner: str = "none",
    warmup: int = 0,
    seed: int = 0,
    journal: str | Path | None = None,
) -> Result:
    """Calls `tried` with one `Attempt` after the other, `limits.parallel` at once in threads. With a `journal` it goes on where
    it was killed. In a job, its run shows how it goes."""
    named = [metrics] if isinstance(metrics, str) else metrics
    objectives = tuple(read_objective(text) for text in named)
    name = Path(journal).stem if journal else "search"
    study = Study(
        name=name,
        space=read_space(space),
        objectives=objectives,
        sampler=sampler,
        pruner=pruner,
        warmup=warmup,
        seed=seed,
    )
    with ExitStack() as opened:
        kept = None
        if journal is not None:
            kept = Journal(Path(journal), study)
            opened.callback(kept.close)
        run = run_from_environment()
        opened.callback(run.close)
        return _Search(study, limits or Limits(), tried, kept, run).run()


class _Search:
    def __init__(self, study: Study, limits: Limits, tried: Tried, journal: Journal | None, run: Run) -> None:
        self._study, self._limits, self._tried, self._journal, self._run = study, limits, tried, journal, run
        self._trials: dict[int, Trial] = dict(journal.ended) if journal else {}
        self._left = {
            number: params for number, params in (journal.begun if journal else {}).items() if number not in self._trials
        }
        self._searcher = Searcher(study, self._trials.values())
        self._turn = threading.Lock()  # Optuna's memory is not to be used by two threads at once

    def run(self) -> Result:
        words = self._alone() if self._limits.parallel == 1 else self._together()
        trials = tuple(self._trials[number] for number in sorted(self._trials))
        best = tuple(front(self._study.objectives, trials))
        if best:
            told = ", ".join(f"{name}={chosen}" for name, chosen in best[0].params.items())
            self._run.words({"falaj.training.search": f"The best of {len(trials)} trials is trial {best[0].number}: {told}"})
        return Result(study=self._study, trials=trials, best=best, importance=self._searcher.importances, words=words)

    def _alone(self) -> str:
        began = time.monotonic()
        while not (words := self._over(began)):
            attempt = self._next()
            if attempt is None:
                return "All points of the grid were tried."
            self._end(self._try(attempt))
        return words

    def _together(self) -> str:
        began, busy, words = time.monotonic(), set[Future[Trial]](), ""
        with ThreadPoolExecutor(self._limits.parallel, thread_name_prefix="falaj-tune") as threads:
            while True:
                while len(busy) < self._limits.parallel and not (words := words or self._over(began)):
                    attempt = self._next()
                    if attempt is None:
                        words = "All points of the grid were tried."
                        break
                    busy.add(threads.submit(self._try, attempt))
                if not busy:
                    return words
                done, busy = wait(busy, return_when=FIRST_COMPLETED)
                for one in done:
                    self._end(one.result())

    def _over(self, began: float) -> str:
        verdict = decide(self._study.objectives, self._limits, self._trials.values(), time.monotonic() - began)
        if verdict.hopeless:
            raise SearchFailed(verdict.words)
        return "" if self._left and not verdict.at_once else verdict.words

    def _next(self) -> Attempt | None:
        if self._left:  # begun before a kill
            number, params = self._left.popitem()
            with self._turn:
                self._searcher.learn(Trial(number=number, params=params))
        else:
            number = 1 + max(self._trials, default=-1)
            try:
                with self._turn:
                    params = self._searcher.ask(number)
            except Exhausted:
                return None
            if self._journal is not None:
                self._journal.begin(number, params)
        self._trials[number] = Trial(number=number, params=params)
        return Attempt(number, params, self._report)

    def _report(self, number: int, step: int, at: float) -> bool:
        with self._turn:
            self._searcher.report(number, step, at)
            return self._searcher.should_prune(number)

    def _try(self, attempt: Attempt) -> Trial:
        trial = self._trials[attempt.number]
        try:
            found = self._tried(attempt)
        except Pruned:
            return replace(trial, state="pruned", steps=attempt.steps)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises is this trial's failure
            return replace(
                trial, state="failed", steps=attempt.steps, words=f"{type(error).__name__}: {error}"[:_LONGEST_WORDS]
            )
        values = tuple(map(float, found)) if isinstance(found, Sequence) else (float(found),)
        if len(values) != len(self._study.objectives):
            raise Invalid(f"The function gave {len(values)} values, and {len(self._study.objectives)} metrics are to decide.")
        if not finite(values):
            return replace(trial, state="failed", steps=attempt.steps, words=f"It gave {values[0]}, which is no number.")
        return replace(trial, state="complete", values=values, steps=attempt.steps)

    def _end(self, trial: Trial) -> None:
        if self._journal is not None:
            self._journal.end(trial)
        self._trials[trial.number] = trial
        with self._turn:
            self._searcher.tell(trial)
        if trial.values:
            told = {one.metric: at for one, at in zip(self._study.objectives, trial.values, strict=True)}
            self._run.figures({f"tune/{metric}": at for metric, at in told.items()}, step=trial.number)
