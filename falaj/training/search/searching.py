"""What to try next and what to give up, asked of Optuna. Its study is in memory and made anew from the trials at any time.

The only file that imports Optuna.
"""

import importlib.util
import logging
import math
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from falaj.base.errors import Invalid, PermanentError
from falaj.training.search import spaces
from falaj.training.search.spaces import Dimension, Params
from falaj.training.search.studies import Study, Trial

_NEEDS: Final = {"gp": ("torch", "scipy"), "cma": ("cmaes",)}
_STARTUP: Final = 10  # trials before a model of them is worth asking
_WEIGHED: Final = 6  # complete trials before one can say what weighs
_WEIGHED_EXACTLY: Final = 100


class Exhausted(PermanentError):
    """Every point of the grid was tried."""


def check_installed(sampler: str) -> None:
    """Before anything is submitted."""
    missing = [name for name in ("optuna", *_NEEDS.get(sampler, ())) if importlib.util.find_spec(name) is None]
    if missing == ["optuna"] or (missing and missing[0] == "optuna"):
        raise Invalid("Searching needs Optuna, which is not installed here: pip install 'falaj[tune]'.")
    if missing:
        raise Invalid(f"The sampler {sampler} needs {' and '.join(missing)}: pip install {' '.join(missing)}; or take tpe.")


class Searcher:
    """Optuna's view of a study. Not thread-safe. Trials are known by their number in Falaj; those of `earlier` studies have
    none, and only teach."""

    def __init__(self, study: Study, trials: Iterable[Trial] = (), earlier: Collection[Trial] = ()) -> None:
        check_installed(study.sampler)
        import optuna  # here: it takes half a second, and may not be installed

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        logging.getLogger("optuna").propagate = False
        self._optuna, self._study = optuna, study
        self._distributions = {one.name: _distribution(optuna, one) for one in study.space}
        self._grid = list(spaces.grid(study.space)) if study.sampler == "grid" else None
        self._storage = optuna.storages.InMemoryStorage()
        self._known: dict[int, int] = {}  # by our number: Optuna's
        known = sorted(trials, key=lambda one: one.number)
        sources = [self._frozen(one) for one in (*earlier, *known) if one.state == "complete"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._search = optuna.create_study(
                study_name=study.name,
                storage=self._storage,
                directions=["minimize" if one.direction == "min" else "maximize" for one in study.objectives],
                sampler=_sampler(optuna, study, len(known) + len(earlier), sources),
                pruner=_pruner(optuna, study),
            )
        self._id = self._storage.get_study_id_from_name(study.name)
        for one in earlier:
            if one.state in ("complete", "pruned"):
                self._storage.create_new_trial(self._id, template_trial=self._frozen(one))
        for one in known:
            self.learn(one)

    def ask(self, number: int) -> Params:
        """What trial `number` should try. Raises `Exhausted` where a grid has no more."""
        if self._grid is not None:
            if number >= len(self._grid):
                raise Exhausted(f"All {len(self._grid)} points of the grid were begun.")
            chosen = dict(self._grid[number])
            self.learn(Trial(number=number, params=chosen))
            return chosen
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            asked = self._search.ask(self._distributions)
        self._known[number] = asked.number
        return dict(asked.params)

    def ask_otherwise(self, number: int) -> None:
        """Another took `number`: what was to be tried is given up, and what comes next is drawn from other chances."""
        self._search.tell(self._known.pop(number), state=self._optuna.trial.TrialState.FAIL)
        if self._grid is None:
            self._search.sampler.reseed_rng()

    def knows(self, number: int) -> bool:
        return number in self._known

    def learn(self, trial: Trial) -> None:
        """Of a trial that another asked for, or that was before."""
        if trial.state == "running" or self._study.pruner in ("asha", "hyperband"):
            begun = Trial(number=trial.number, params=trial.params)
            self._known[trial.number] = self._add(self._frozen(begun))
            for step, at in sorted(trial.steps.items()):
                self.report(trial.number, step, at)
                self.should_prune(trial.number)  # rungs are remembered by having been asked about
            if trial.state != "running":
                self.tell(trial)
        else:
            self._known[trial.number] = self._add(self._frozen(trial))

    def report(self, number: int, step: int, at: float) -> None:
        self._storage.set_trial_intermediate_value(self._known[number], step, at)

    def should_prune(self, number: int) -> bool:
        if self._study.pruner == "none":
            return False
        return bool(self._search.pruner.prune(self._search, self._storage.get_trial(self._known[number])))

    def tell(self, trial: Trial) -> None:
        states = self._optuna.trial.TrialState
        number = self._known[trial.number]
        if trial.state == "complete":
            self._search.tell(number, list(trial.values))
        elif trial.state == "pruned" and trial.steps:
            self._search.tell(number, state=states.PRUNED)
        else:
            self._search.tell(number, state=states.FAIL)

    def importances(self) -> dict[str, float]:
        """What each parameter weighs for the first objective, together 1; empty where too little is known. By fANOVA where
        scikit-learn is installed and its seconds are few, else by PED-ANOVA, which wants more trials."""
        complete = [one for one in self._search.trials if one.state == self._optuna.trial.TrialState.COMPLETE]
        exact = len(complete) <= _WEIGHED_EXACTLY and importlib.util.find_spec("sklearn") is not None
        if len(complete) < (_WEIGHED if exact else 2 * _WEIGHED) or len({one.values[0] for one in complete}) < 2:
            return {}
        kinds = self._optuna.importance
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weighed = kinds.get_param_importances(
                self._search,
                evaluator=kinds.FanovaImportanceEvaluator(seed=0) if exact else kinds.PedAnovaImportanceEvaluator(),
                target=(lambda trial: trial.values[0]) if len(self._study.objectives) > 1 else None,
            )
        return {name: float(weight) for name, weight in weighed.items() if math.isfinite(weight)}

    def _add(self, frozen: Any) -> int:
        return int(self._storage.create_new_trial(self._id, template_trial=frozen))

    def _frozen(self, trial: Trial) -> Any:
        states = self._optuna.trial.TrialState
        state = {"running": states.RUNNING, "complete": states.COMPLETE, "pruned": states.PRUNED}.get(trial.state, states.FAIL)
        values: Mapping[str, Any] = {"values": list(trial.values)} if trial.state == "complete" else {}
        if trial.state == "pruned":
            state = state if trial.steps else states.FAIL
            values = {"value": trial.steps[max(trial.steps)]} if trial.steps else {}
        return self._optuna.trial.create_trial(
            state=state,
            params=trial.params,
            distributions=self._distributions,
            intermediate_values=dict(trial.steps),
            **values,
        )


def _distribution(optuna: Any, one: Dimension) -> Any:
    kinds = optuna.distributions
    if one.kind == "choice":
        return kinds.CategoricalDistribution(one.choices)
    if one.kind == "int":
        return kinds.IntDistribution(int(one.low), int(one.high), log=one.log, step=int(one.step or 1))
    high = one.low + math.floor((one.high - one.low) / one.step + 1e-9) * one.step if one.step else one.high
    return kinds.FloatDistribution(one.low, high, log=one.log, step=one.step or None)


def _sampler(optuna: Any, study: Study, known: int, sources: list[Any]) -> Any:
    """Who goes on after `known` trials draws other numbers than whoever tried those."""
    samplers, seed = optuna.samplers, (study.seed * 1_000_003 + known) % 2**32
    if study.sampler == "gp":
        return samplers.GPSampler(seed=seed, n_startup_trials=_STARTUP, warn_independent_sampling=False)
    if study.sampler == "cma":
        return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False, source_trials=sources or None)
    if study.sampler == "tpe":
        return samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP, constant_liar=True)
    return samplers.RandomSampler(seed=seed)


def _pruner(optuna: Any, study: Study) -> Any:
    pruners, warmup = optuna.pruners, study.warmup
    if study.pruner == "asha":
        return pruners.SuccessiveHalvingPruner(min_resource=warmup or "auto")
    if study.pruner == "hyperband":
        return pruners.HyperbandPruner(min_resource=max(1, warmup))
    return pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=warmup) if study.pruner == "median" else pruners.NopPruner()
