"""LightGBM through Falaj against LightGBM by itself: the same rows, parameters, rounds and cores, in turn.

The last line is JSON: `classic_cores_x` is how many times as fast Falaj's is, by medians.
"""

import argparse
import inspect
import json
import os
import statistics
import time
from typing import Any

import lightgbm
import numpy as np
from sklearn.metrics import log_loss

from falaj.training.classic import cores, fit


def rows_of(count: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    table = random.normal(size=(count, 40))
    score = table[:, 0] * table[:, 1] + np.sin(3 * table[:, 2]) + 0.5 * table[:, 3] + random.normal(scale=0.7, size=count)
    return table, (score > 0).astype(np.int64)


def bare(parameters: dict[str, Any], train: tuple[Any, Any], apart: tuple[Any, Any], patience: int) -> Any:
    model: Any = lightgbm.LGBMClassifier(**parameters, n_jobs=cores.available())
    known: dict[str, Any] = {"eval_X": apart[0], "eval_y": apart[1]}
    if "eval_X" not in inspect.signature(model.fit).parameters:
        known = {"eval_set": [apart]}
    model.fit(*train, **known, callbacks=[lightgbm.early_stopping(patience, verbose=False)])
    log_loss(apart[1], model.predict_proba(apart[0]))  # how good it is, which `fit` says too
    return model


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=100_000)
    asked.add_argument("--rounds", type=int, default=150)
    asked.add_argument("--times", type=int, default=7)
    given = asked.parse_args()
    parameters = {"n_estimators": given.rounds, "num_leaves": 63, "learning_rate": 0.05, "random_state": 1, "verbose": -1}
    train, apart = rows_of(given.rows, 1), rows_of(given.rows // 5, 2)
    bare(parameters | {"n_estimators": 5}, train, apart, 50)  # libraries are loaded, memory is there

    taken: dict[str, list[float]] = {"bare": [], "falaj": []}
    for turn in range(given.times * 2):
        which = ("bare", "falaj")[(turn + turn // 2) % 2]  # neither is always the first of a pair
        began = time.perf_counter()
        if which == "bare":
            alone = bare(parameters, train, apart, 50)
        else:
            model = lightgbm.LGBMClassifier(**parameters)
            fitted = fit(model, *train, validation=apart, metrics=["log_loss"], folds=0, early_stopping=50)
        taken[which].append(time.perf_counter() - began)
        print(f"{which:<6} {taken[which][-1]:.2f} s", flush=True)
    same = np.abs(alone.predict_proba(apart[0]) - fitted.predict_proba(apart[0])).max()
    middle = {which: statistics.median(times) for which, times in taken.items()}
    print(f"{cores.available()} of {os.cpu_count()} processors; predictions differ by {same:g} at most; medians {middle}")
    print(json.dumps({"classic_cores_x": round(middle["bare"] / middle["falaj"], 4)}))


if __name__ == "__main__":
    main()
