"""Trials a second of a trivial objective: `falaj.training.search.tune` with its journal against bare Optuna with its own.

    python benchmarks/training_tune.py [--trials 300] [--rounds 5]

Both use TPE, keep every trial in a file of the same disk, and take turns; the median round counts. The last line is JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import optuna
from optuna.storages.journal import JournalFileBackend, JournalStorage

from falaj.training.search import Limits, tune

SPACE = {"x": "-10.0..10.0", "y": "log:1e-5..1.0", "kind": "a,b,c"}


def value(x: Any, y: Any, kind: Any) -> float:
    return float((x - 2) ** 2 + y + (kind == "a"))


def bare(path: Path, trials: int) -> float:
    storage = JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, sampler=optuna.samplers.TPESampler(seed=1))

    def tried(trial: optuna.Trial) -> float:
        x, y = trial.suggest_float("x", -10, 10), trial.suggest_float("y", 1e-5, 1, log=True)
        return value(x, y, trial.suggest_categorical("kind", ["a", "b", "c"]))

    began = time.perf_counter()
    study.optimize(tried, n_trials=trials)
    return trials / (time.perf_counter() - began)


def ours(path: Path, trials: int) -> float:
    began = time.perf_counter()
    done = tune(lambda one: value(one["x"], one["y"], one["kind"]), SPACE, limits=Limits(trials=trials), seed=1, journal=path)
    took = time.perf_counter() - began
    if len(done.trials) != trials:
        raise RuntimeError(f"{len(done.trials)} of {trials} trials were kept")
    return trials / took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    speeds: dict[str, list[float]] = {"bare": [], "falaj": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.rounds):
            speeds["bare"].append(bare(Path(folder, f"bare-{number}"), asked.trials))
            speeds["falaj"].append(ours(Path(folder, f"falaj-{number}"), asked.trials))
    middle = {name: statistics.median(found) for name, found in speeds.items()}
    for name, found in speeds.items():
        print(f"{name}: {middle[name]:.0f} trials/s ({min(found):.0f} to {max(found):.0f})")
    shown = {"tune_x": round(middle["falaj"] / middle["bare"], 2), "trials_per_s": round(middle["falaj"], 1)}
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
