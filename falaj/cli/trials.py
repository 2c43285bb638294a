"""The trials of a study, for people and for programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from falaj.cli.layout import Layout, rounded
from falaj.training.search.studies import Study, Trial

_MOST_FAILURES: Final = 5


def show_study(
    layout: Layout, study: Study, trials: Sequence[Trial], importance: Mapping[str, float], best: Sequence[Trial]
) -> None:
    """Best first where one metric decides, else in their order; those without a value last."""
    leading = {one.number for one in best}
    rows = [
        (
            f"{one.number} *" if one.number in leading else one.number,
            one.state,
            one.job[-8:],
            *(rounded(at) for at in one.values or (None,) * len(study.objectives)),
            *(_shortly(one.params[each.name]) for each in study.space),
        )
        for one in sorted(trials, key=lambda one: _place(study, one))
    ]
    metrics, names = [each.metric for each in study.objectives], [each.name for each in study.space]
    layout.table(("trial", "state", "job"), rows, named=(*metrics, *names))
    for one in [one for one in trials if one.state == "failed"][:_MOST_FAILURES]:
        layout.line(f"Trial {one.number} failed: {one.words}")
    if importance:
        told = ", ".join(f"{name} {weight:.0%}" for name, weight in sorted(importance.items(), key=lambda one: -one[1]))
        layout.line(f"What decided {metrics[0]}: {told}")


def study_document(
    study: Study, trials: Sequence[Trial], importance: Mapping[str, float], best: Sequence[Trial]
) -> dict[str, Any]:
    leading = {one.number for one in best}
    return {
        "study": study.name,
        "metrics": [f"{each.metric}:{each.direction}" for each in study.objectives],
        "importance": dict(importance),
        "trials": [
            {
                "number": one.number,
                "state": one.state,
                "params": one.params,
                "values": list(one.values),
                "best": one.number in leading,
                "run": one.run,
                "job": one.job,
                "words": one.words,
            }
            for one in trials
        ],
    }


def _place(study: Study, trial: Trial) -> tuple[bool, float, int]:
    if len(study.objectives) > 1 or not trial.values:
        return not trial.values, 0.0, trial.number
    sign = 1 if study.objectives[0].direction == "min" else -1
    return False, sign * trial.values[0], trial.number


def _shortly(chosen: float | str) -> str:
    return f"{chosen:.5g}" if isinstance(chosen, float) else str(chosen)
