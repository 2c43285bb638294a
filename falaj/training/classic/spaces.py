"""What is worth trying for each family of models, as people write it for `falaj tune`. Plain data: nothing is imported."""

from collections.abc import Mapping
from typing import Any, Final

from falaj.base.errors import Invalid

_BOOSTED: Final = {"learning_rate": "log:0.01..0.3", "reg_alpha": "log:1e-3..10.0", "reg_lambda": "log:1e-3..10.0"}
_FOREST: Final = {"max_features": "0.2..1.0", "min_samples_leaf": "log:1..50", "max_depth": "4..32"}
_REGRESSING: Final = {"alpha": "log:1e-4..100.0"}

# Rounds are not searched: early stopping finds them.
SPACES: Final[Mapping[str, Mapping[str, str]]] = {
    "LGBMModel": {
        **_BOOSTED,
        "num_leaves": "log:8..256",
        "min_child_samples": "log:5..200",
        "subsample": "0.5..1.0",
        "subsample_freq": "1,5",  # without it LightGBM leaves `subsample` aside
        "colsample_bytree": "0.4..1.0",
    },
    "XGBModel": {
        **_BOOSTED,
        "max_depth": "3..10",
        "min_child_weight": "log:0.1..50.0",
        "subsample": "0.5..1.0",
        "colsample_bytree": "0.4..1.0",
    },
    "BaseHistGradientBoosting": {
        "learning_rate": "log:0.01..0.3",
        "l2_regularization": "log:1e-3..10.0",
        "max_leaf_nodes": "log:8..256",
        "min_samples_leaf": "log:5..200",
        "max_features": "0.4..1.0",
    },
    "BaseGradientBoosting": {
        "learning_rate": "log:0.01..0.3",
        "n_estimators": "log:50..500",
        "max_depth": "2..6",
        "subsample": "0.5..1.0",
    },
    "ForestClassifier": _FOREST,
    "ForestRegressor": _FOREST,
    "LogisticRegression": {"C": "log:1e-3..100.0"},
    "LinearSVC": {"C": "log:1e-3..100.0"},
    "BaseSVC": {"C": "log:1e-2..100.0", "gamma": "log:1e-4..10.0"},
    "SVR": {"C": "log:1e-2..100.0", "gamma": "log:1e-4..10.0", "epsilon": "log:1e-3..1.0"},
    "Ridge": _REGRESSING,
    "Lasso": _REGRESSING,
    "ElasticNet": {**_REGRESSING, "l1_ratio": "0.05..1.0"},
    "KNeighborsMixin": {"n_neighbors": "1..50", "weights": "uniform,distance"},
    "BaseMultilayerPerceptron": {"alpha": "log:1e-6..0.1", "learning_rate_init": "log:1e-4..0.1"},
    "SGDClassifier": {"alpha": "log:1e-6..0.1"},
    "SGDRegressor": {"alpha": "log:1e-6..0.1"},
}


def space_of(model: Any) -> dict[str, str]:
    """What to try for this estimator, or for the last step of this pipeline, under the names that `set_params` takes."""
    prefix, end = "", model
    while hasattr(end, "steps"):
        prefix, end = f"{prefix}{end.steps[-1][0]}__", end.steps[-1][1]
    for ancestor in type(end).__mro__:  # the most special first
        if found := SPACES.get(ancestor.__name__):
            return {prefix + name: wanted for name, wanted in found.items()}
    raise Invalid(
        f"what is worth trying for {type(end).__name__} is not known: say it, as in space={{'alpha': 'log:1e-4..1.0'}}"
    )
