"""What is done to an estimator before it is fitted: threads and seeds, wherever its author left them open."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from sklearn.base import clone

from falaj.base.errors import Invalid

# Whose work is split by scikit-learn itself, into parts that are worth it. Others gain nothing, or say so with a warning.
_SPREADS: Final = ("sklearn.ensemble.", "sklearn.model_selection.", "sklearn.multiclass", "sklearn.multioutput")
BOOSTERS: Final = ("lightgbm", "xgboost")
_THREADS: Final = ("n_jobs", "num_threads", "nthread", "num_thread", "nthreads")


def check(model: Any) -> None:
    """Raises `Invalid` for what cannot be fitted."""
    if isinstance(model, type):
        raise Invalid(f"{model.__name__} is a class: make a model of it, as in fit({model.__name__}(), ...)")
    if not all(hasattr(model, name) for name in ("fit", "predict", "get_params")):
        raise Invalid(
            "a model is an estimator of scikit-learn, such as LogisticRegression(), a pipeline that ends in one, or a booster "
            f"such as LGBMClassifier() or XGBRegressor(); {repr(model)[:60]} is of type {type(model).__name__}"
        )


def library(model: Any) -> str:
    return type(model).__module__.partition(".")[0]


def last(model: Any) -> Any:
    """The estimator at the end of a pipeline."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def prepared(model: Any, cores: int, seed: int) -> Any:
    """A copy, not fitted, with these many threads and this seed where the author named none."""
    made = clone(model)
    found = made.get_params(deep=True)
    parts = {"": made} | {name: part for name, part in found.items() if hasattr(part, "get_params") and part is not None}
    wanted: dict[str, int] = {}
    for name in sorted(parts, key=lambda name: name.count("__") if name else -1):
        part, prefix = parts[name], f"{name}__" if name else ""
        own = part.get_params(deep=False)
        if own.get("random_state", 0) is None:
            wanted[f"{prefix}random_state"] = seed
        # What runs inside something that is spread already must not spread itself.
        outer = any(_spread(parts[above], wanted, above) for above in parts if above != name and _above(above, name))
        threads = _threads(part, own, 1 if outer else cores)
        wanted |= {f"{prefix}{key}": count for key, count in threads.items()}
    return made.set_params(**wanted)


def _above(one: str, other: str) -> bool:
    return one == "" or other.startswith(f"{one}__")


def _spread(part: Any, wanted: dict[str, int], name: str) -> bool:
    said = wanted.get(f"{name}__n_jobs" if name else "n_jobs", part.get_params(deep=False).get("n_jobs"))
    return said is not None and said != 1


def _threads(part: Any, own: dict[str, Any], cores: int) -> dict[str, int]:
    """Boosters that are told nothing take every core they see; the rest of scikit-learn takes one."""
    if any(own.get(name) not in (None, 0) for name in _THREADS):
        return {}
    where = type(part).__module__
    if library(part) in BOOSTERS or ("n_jobs" in own and where.startswith(_SPREADS) and cores > 1):
        return {"n_jobs": cores}
    return {}


@contextlib.contextmanager
def threads(cores: int) -> Iterator[None]:
    """Linear algebra and OpenMP start as many threads as they see processors, whatever the control group allows."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    with threadpool_limits(limits=cores):
        yield
