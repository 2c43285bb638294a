"""Tables for the checks: numbers, categories, gaps, an entity and a time, with a target that the first column half explains."""

from typing import Any

import numpy as np


def drawn(rows: int, seed: int, begin: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    first, second = random.normal(size=rows), random.exponential(size=rows)
    second[random.random(rows) < 0.1] = np.nan
    return {
        "first": first,
        "second": second,
        "whole": random.integers(0, 6, rows),
        "colour": random.choice(["red", "green", "blue", None], rows, p=[0.5, 0.3, 0.15, 0.05]),
        "patient": np.arange(begin, begin + rows) // 2,
        "day": np.arange(begin, begin + rows),
        "target": (first + random.normal(size=rows) > 0).astype(int),
    }


def some(table: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: np.asarray(values)[rows] for name, values in table.items()}


def beside(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {name: np.concatenate([values, second[name]]) for name, values in first.items()}
