"""Will this flight be late? A logistic regression in plain numpy, on a training set that it reads by name and version.

    falaj job submit -- python train_delays.py training@1

`import falaj` finds the platform, the project and a token in the job's environment; rows come sealed and are opened here.
"""

import sys

import numpy as np

import falaj

FEATURES = ["carrier_delay_12h", "origin_delay_3h", "origin_landed_3h"]


def fitted(rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
    weights = np.zeros(rows.shape[1])
    for _ in range(300):
        weights -= 0.5 * rows.T @ (chances(rows, weights) - truth) / len(truth)
    return weights


def chances(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-rows @ weights)))


def ranked(truth: np.ndarray, scores: np.ndarray) -> float:
    """How often a late flight is ranked above one in time: the area under the curve."""
    order = np.argsort(np.argsort(scores)) + 1
    late = truth.sum()
    return float((order[truth == 1].sum() - late * (late + 1) / 2) / (late * (len(truth) - late)))


def main(reference: str) -> None:
    data = falaj.dataset(reference)
    table = data.arrow()
    truth = table.column("late").to_numpy().astype(float)
    columns = [np.nan_to_num(table.column(name).to_numpy().astype(float)) for name in FEATURES]
    rows = np.stack([(one - one.mean()) / (one.std() or 1.0) for one in columns] + [np.ones(len(truth))], axis=1)
    first = len(truth) * 2 // 3  # labels are in the order of time: trained on what came before, tried on what came after
    weights = fitted(rows[:first], truth[:first])
    print(f"{data.name}@{data.version} {data.rows} rows auc {ranked(truth[first:], chances(rows[first:], weights)):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
