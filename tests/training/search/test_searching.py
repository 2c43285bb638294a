"""What is tried next and what is given up: by every sampler and pruner, and again after everything was forgotten."""

import importlib.util
import subprocess
import sys

import pytest

from falaj.base.errors import Invalid
from falaj.training.search import searching
from falaj.training.search.searching import Exhausted, Searcher
from falaj.training.search.spaces import Params, read_space
from falaj.training.search.studies import Objective, Study, Trial, front

SPACE = read_space({"x": "-4..4", "y": "0.0..1.0:0.25", "act": "u,v"})


def study(**given) -> Study:
    return Study(**{"name": "s", "space": SPACE, "objectives": (Objective(metric="loss"),), "seed": 3} | given)


def loss(params: Params, step: int = 7) -> float:
    return float(params["x"]) ** 2 + float(params["y"]) + (params["act"] == "u") + 1 / (step + 1)


def led(searcher: Searcher, number: int) -> Trial:
    """A trial of eight steps, or fewer where it is given up."""
    params, steps = searcher.ask(number), {}
    for step in range(8):
        steps[step] = loss(params, step)
        searcher.report(number, step, steps[step])
        if searcher.should_prune(number):
            trial = Trial(number=number, params=params, state="pruned", steps=steps)
            break
    else:
        trial = Trial(number=number, params=params, state="complete", values=(steps[7],), steps=steps)
    searcher.tell(trial)
    return trial


@pytest.mark.parametrize("pruner", ["asha", "median", "hyperband"])
def test_bad_trials_are_given_up_and_a_searcher_made_anew_judges_as_the_old_one_did(pruner: str):
    of = study(pruner=pruner)
    searcher = Searcher(of)
    trials = [led(searcher, number) for number in range(24)]
    assert {trial.state for trial in trials} == {"complete", "pruned"}
    best = front(of.objectives, trials)[0]
    assert best.values[0] < 3
    assert _judged(Searcher(of, trials)) == _judged(searcher)
    assert any(_judged(Searcher(of, trials)))


def _judged(searcher: Searcher) -> list[bool]:
    """At which steps a bad trial would be given up."""
    searcher.learn(Trial(number=24, params={"x": 4, "y": 1.0, "act": "u"}))
    verdicts = []
    for step in range(8):
        searcher.report(24, step, 20.0 + step)
        verdicts.append(searcher.should_prune(24))
    return verdicts


@pytest.mark.parametrize("pruner", ["asha", "median", "hyperband"])
def test_nothing_is_given_up_before_its_warm_up_is_over(pruner: str):
    searcher = Searcher(study(pruner=pruner, warmup=4))
    trials = [led(searcher, number) for number in range(16)]
    given_up = [max(trial.steps) for trial in trials if trial.state == "pruned"]
    assert given_up
    assert min(given_up) >= 4


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_the_same_seed_and_history_lead_to_the_same_next_trial(sampler: str):
    trials = [led(Searcher(study(sampler=sampler)), 0)]
    asked = [Searcher(study(sampler=sampler), trials).ask(1) for _ in range(2)]
    assert asked[0] == asked[1]
    other = study(sampler=sampler, seed=4)
    assert [Searcher(other).ask(number) for number in range(3)] != [Searcher(study(sampler=sampler)).ask(n) for n in range(3)]


def test_tpe_learns_from_what_was_tried_elsewhere():
    known = [
        Trial(number=place, params={"x": float(x)}, state="complete", values=(abs(x - 2.0),))
        for place, x in enumerate(range(-100, 100, 4))
    ]
    informed, ignorant = ([_distance(number, earlier) for number in range(10)] for earlier in (known, []))
    assert sum(informed) < 0.6 * sum(ignorant)


def _distance(seed: int, earlier: list[Trial]) -> float:
    """How far from the best the first trial is."""
    of = study(space=read_space({"x": "-100.0..100.0"}), seed=seed)
    return abs(float(Searcher(of, earlier=earlier).ask(0)["x"]) - 2)


def test_a_grid_is_gone_through_once_by_number_and_then_exhausted():
    of = study(space=read_space({"x": "1..2", "act": "u,v"}), sampler="grid")
    tried = [Searcher(of).ask(number) for number in (2, 0, 3, 1)]
    assert {tuple(params.values()) for params in tried} == {(1, "u"), (1, "v"), (2, "u"), (2, "v")}
    with pytest.raises(Exhausted, match="All 4 points"):
        Searcher(of).ask(4)


def test_a_number_that_another_took_is_asked_for_otherwise():
    searcher = Searcher(study())
    first = searcher.ask(0)
    searcher.ask_otherwise(0)
    assert not searcher.knows(0)
    searcher.learn(Trial(number=0, params=first))
    assert searcher.knows(0)
    searcher.ask(1)
    for number in (0, 1):
        searcher.tell(Trial(number=number, params=first, state="failed"))


def test_several_metrics_are_searched_together():
    of = study(objectives=(Objective(metric="loss"), Objective(metric="speed", direction="max")))
    searcher, trials = Searcher(of), []
    for number in range(15):
        params = searcher.ask(number)
        trial = Trial(number=number, params=params, state="complete", values=(loss(params), float(params["x"])))
        searcher.tell(trial)
        trials.append(trial)
    assert len(front(of.objectives, trials)) > 1
    assert searcher.importances().keys() == {"x", "y", "act"}


def test_what_a_parameter_weighs_is_told_once_enough_is_known(monkeypatch: pytest.MonkeyPatch):
    searcher = Searcher(study(sampler="random"))
    for number in range(20):
        led(searcher, number)
        if number < 5:
            assert searcher.importances() == {}
    weights = searcher.importances()
    assert max(weights, key=lambda name: weights[name]) == "x"
    assert sum(weights.values()) == pytest.approx(1)
    _hide(monkeypatch, "sklearn")
    simple = searcher.importances()
    assert max(simple, key=lambda name: simple[name]) == "x"


def test_what_a_sampler_needs_is_missed_before_anything_begins(monkeypatch: pytest.MonkeyPatch):
    _hide(monkeypatch, "torch", "cmaes")
    for sampler, needed in (("gp", "torch"), ("cma", "cmaes")):
        with pytest.raises(Invalid, match=f"{sampler} needs .*{needed}"):
            Searcher(study(sampler=sampler))
    _hide(monkeypatch, "optuna")
    with pytest.raises(Invalid, match=r"pip install 'falaj\[tune\]'"):
        Searcher(study())


def _hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        searching.importlib.util, "find_spec", lambda name, *rest: None if name in packages else find(name, *rest)
    )


def test_reading_a_study_needs_no_optuna():
    """The console's process reads studies and must not load it."""
    program = "import sys; from falaj.training.search import stopping, written; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
