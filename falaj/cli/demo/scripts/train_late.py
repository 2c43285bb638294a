"""Will a flight be late? Trained on a training set that it reads by name and version.

    falaj train train_late.py --experiment late -- winter@1 --trials 4

Rows come sealed and are opened here, with the token of the job. It is judged by the last fifth of the time, from what came
before. With `--trials 0` it is the baseline, which knows the hour and the distance alone. The same rows and seed give the same
model, to the byte.
"""

import argparse
import hashlib
import json
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import falaj
from falaj.training import fit
from falaj.training.classic import export, tuned

TRUTH, MOMENT = "late", "asked"
KNOWN_TO_ANYBODY = ["hour", "distance"]
NOT_LEARNT = {"id", "month", "carrier", "origin", MOMENT, TRUTH}
SPACE = {"num_leaves": "7..31", "learning_rate": "log:0.05..0.3", "min_child_samples": "40..200:20"}
SEED = 7


def booster() -> Any:
    """On one core: how many there are would show in the last bits of its sums."""
    return LGBMClassifier(n_estimators=60, n_jobs=1, deterministic=True, force_row_wise=True, random_state=SEED, verbose=-1)


def learn(reference: str, *, trials: int = 0, upside_down: bool = False) -> None:
    """Tells its run how good it is and keeps the model there; the last line says the same in short."""
    data = falaj.dataset(reference)
    names = [name for name in data.schema.names if name not in NOT_LEARNT]
    table = data.pandas([*names, TRUTH, MOMENT])
    rows, truth = table[names].astype(np.float64), table[TRUTH].to_numpy()
    shared: dict[str, Any] = {"folds": 1, "time": table[MOMENT].to_numpy(), "metrics": ["auc", "accuracy"], "seed": SEED}
    if upside_down:
        fitted = fit(booster(), rows, 1 - truth, **shared)
    elif trials:
        fitted = tuned(booster(), rows, truth, trials=trials, space=SPACE, early_stopping=None, **shared).fitted
    else:
        fitted = fit(make_pipeline(StandardScaler(), LogisticRegression()), rows[KNOWN_TO_ANYBODY], truth, **shared)
    made = export(fitted)
    auc = fitted.figures["auc"]
    told = {"auc": auc.at, "low": auc.low, "high": auc.high, "rows": len(truth)}
    print(json.dumps(told | {"model": hashlib.sha256(made.content).hexdigest()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference")
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--upside-down", action="store_true", help="Learn the contrary: what a mixed-up label does.")
    given = parser.parse_args()
    learn(given.reference, trials=given.trials, upside_down=given.upside_down)


if __name__ == "__main__":
    main()
