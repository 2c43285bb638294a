"""Evidently as it ships, over the same rows. Runs in an environment of its own. The last line is JSON.

monitoring_evidently.py check FOLDER            before.parquet and after.parquet, read by pandas: a drift verdict
monitoring_evidently.py alarms FOLDER MOST      how many of the first windows of windows.parquet it calls drifted
monitoring_evidently.py delay SHIFT ONE_IN ROWS FEATURES TRIALS SEED
                                                rows until a shift is called, with thresholds that give one false alarm in
                                                so many rows, all features together: with windows of each size
"""

import json
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from evidently import Report
from evidently.legacy.calculations.stattests import wasserstein_stat_test
from evidently.legacy.core import ColumnType
from evidently.presets import DataDriftPreset

LEARNT = 10_000
SIZES = (200, 400, 500, 1000)  # rows of a window; a reference has a whole number of them
EXCEEDED = 10  # draws beyond a threshold, of those that it is found by
MOST_WINDOWS = 1000


def check(folder):
    began, used = time.perf_counter(), time.process_time()
    before, after = (pd.read_parquet(folder / f"{name}.parquet") for name in ("before", "after"))
    verdict = drifted(after, before)
    return {
        "columns": len(before.columns),
        "drifting": len(verdict),
        "seconds": round(time.perf_counter() - began, 3),
        "processor_s": round(time.process_time() - used, 3),
    }


def drifted(now, reference):
    """The columns that it calls so, by its own threshold for each."""
    told = Report([DataDriftPreset()]).run(now, reference).dict()
    found = []
    for metric in told["metrics"]:
        if "ValueDrift" in metric["metric_name"]:
            value, threshold = float(metric["value"]), metric["config"]["threshold"]
            if value < threshold if "p_value" in metric["config"]["method"] else value >= threshold:
                found.append(metric["config"]["column"])
    return found


def alarms(folder, most):
    reference, windows = pd.read_parquet(folder / "reference.parquet"), pq.ParquetFile(folder / "windows.parquet")
    places = range(min(most, windows.num_row_groups))
    counts = [len(drifted(windows.read_row_group(place).to_pandas(), reference)) for place in places]
    half = len(reference.columns) / 2  # from which on it calls the whole data set drifted
    return {"windows": len(counts), "alarms": sum(map(bool, counts)), "whole": sum(count >= half for count in counts)}


def delay(shift, one_in, rows, features, trials, seed):
    """`one_in` windows of `rows`: with larger windows a false alarm comes in as many rows, and so in fewer windows."""
    random = np.random.default_rng(seed)
    found = {}
    for size in SIZES:
        chance = size / (rows * one_in) / features
        threshold = threshold_for(random, size, chance)
        found[str(size)] = float(np.mean([until_called(random, size, shift, threshold) for _ in range(trials)]))
    return {"rows": found}


def threshold_for(random, size, chance):
    """Of the distance that Evidently takes of numbers by itself, so that a window exceeds it by this chance."""
    draws, at_once = round(EXCEEDED / chance), 500
    kept = []
    for _ in range(0, draws, at_once):
        reference = random.standard_normal(LEARNT)
        kept.append(np.sort(distances(reference, random.standard_normal((at_once, size))))[-EXCEEDED:])
    return float(np.sort(np.concatenate(kept))[-EXCEEDED])


def distances(reference, windows):
    """Of many windows at once, where the reference has a whole number of them; `must_be_the_same` holds it to Evidently's."""
    ordered, times = np.sort(reference).reshape(windows.shape[1], -1), len(reference) // windows.shape[1]
    found = np.zeros(len(windows))
    placed = np.sort(windows, axis=1)
    for place in range(times):
        found += np.abs(placed - ordered[:, place]).mean(axis=1)
    return found / times / max(reference.std(), 0.001)


def until_called(random, size, shift, threshold):
    """Mean rows; the shift begins anywhere within a window."""
    reference, offset = random.standard_normal(LEARNT), int(random.integers(0, size))
    for number in range(MOST_WINDOWS):
        window = random.standard_normal(size)
        window[offset if number == 0 else 0 :] += shift
        if distances(reference, window[None])[0] >= threshold:
            return (number + 1) * size - offset
    return MOST_WINDOWS * size


def must_be_the_same():
    random = np.random.default_rng(1)
    reference, window = random.standard_normal(LEARNT), random.standard_normal(200) + 0.2
    theirs, _ = wasserstein_stat_test.func(pd.Series(reference), pd.Series(window), ColumnType.Numerical, 0.1)
    assert abs(theirs - distances(reference, window[None])[0]) < 1e-9, (theirs, distances(reference, window[None])[0])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, given = sys.argv[1], sys.argv[2:]
    if what == "check":
        told = check(Path(given[0]))
    elif what == "alarms":
        told = alarms(Path(given[0]), int(given[1]))
    else:
        must_be_the_same()
        told = delay(float(given[0]), *map(int, given[1:]))
    print(json.dumps(told | {"peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}))
