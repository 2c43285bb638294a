"""What each column weighed for a model, by the model's own account."""

from typing import Any

import numpy as np

from falaj.training.classic import estimators, rows


def of(model: Any, table: Any) -> dict[str, float]:
    """Shares that add up to 1, the heaviest first; empty where a model gives no account of it."""
    end = estimators.last(model)
    if estimators.library(end) == "lightgbm":
        weights = end.booster_.feature_importance(importance_type="gain")
    else:
        weights = getattr(end, "feature_importances_", None)
        if weights is None and hasattr(end, "coef_"):
            # Coefficients of columns of different size say nothing of their weight; after a scaler they do.
            weights = np.abs(np.atleast_2d(_dense(end.coef_))).mean(axis=0) if _scaled(model) else None
    if weights is None:
        return {}
    found = np.nan_to_num(np.asarray(weights, dtype=np.float64))
    total = found.sum() or 1.0
    named = sorted(zip(_names(model, table, len(found)), found / total, strict=True), key=lambda pair: -pair[1])
    return {name: float(weight) for name, weight in named}


def _names(model: Any, table: Any, width: int) -> list[str]:
    """Of the columns that reach the last step."""
    names = rows.names_of(table, width)
    if hasattr(model, "steps") and len(model.steps) > 1:
        try:
            names = [str(name) for name in model[:-1].get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that does not tell
            names = names if len(names) == width else []
    return names if len(names) == width else [f"column {place}" for place in range(width)]


def _scaled(model: Any) -> bool:
    return any("Scaler" in type(part).__name__ for part in model.get_params(deep=True).values())


def _dense(numbers: Any) -> Any:
    return numbers.toarray() if hasattr(numbers, "toarray") else numbers
