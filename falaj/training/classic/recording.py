"""A fitted model on its run's page: parameters, figures, curves, sentences, and what each column weighed."""

import csv
import math
from typing import TYPE_CHECKING, Any, Final

from falaj.training.run_files import opened
from falaj.training.telling import Run

if TYPE_CHECKING:
    from falaj.training.classic.fitting import Fitted

_MOST_PARAMETERS: Final = 100
_LONGEST: Final = 500


def record(fitted: "Fitted", run: Run | None) -> None:
    with opened(run) as (own, folder):
        own.parameters(parameters_of(fitted.model))
        own.words({"falaj.training.split": fitted.split.name, "falaj.training.fit": fitted.explain()})
        for number, fold in enumerate(fitted.folds):
            own.figures({f"fold/{name}": figure for name, figure in fold.figures.items() if math.isfinite(figure)}, number)
        for name, interval in fitted.figures.items():
            ends = {name: interval.at, f"{name}/low": interval.low, f"{name}/high": interval.high}
            own.figures({end: figure for end, figure in ends.items() if math.isfinite(figure)})
        for name, curve in fitted.curves.items():
            for number, figure in enumerate(curve, 1):
                own.figures({f"rounds/{name}": figure}, number)
        if fitted.rounds:
            own.figures({"rounds": fitted.rounds})
        if fitted.importance:
            file = folder / "importance.csv"
            with file.open("w", newline="") as out:
                csv.writer(out).writerows([("column", "share"), *fitted.importance.items()])
            own.file(file, "importance.csv")


def parameters_of(model: Any) -> dict[str, object]:
    """What its author or its library set; estimators inside it are told by their own parameters."""
    found = {"model": type(model).__name__}
    for name, given in sorted(model.get_params(deep=True).items()):
        whole = isinstance(given, list | tuple) and any(not isinstance(one, str | int | float | bool) for one in given)
        if given is not None and not hasattr(given, "get_params") and not whole and not callable(given):
            found[name] = str(given)[:_LONGEST]
    return dict(list(found.items())[:_MOST_PARAMETERS])
